"""Chooses a node for a pod: `algorithm` leads from PreFilter to the chosen node, or to PostFilter.

It asks `candidates` where the pod fits, what the nodes score, and why no node is left. There are
two implementations: `plain` asks every rule about every node, and recall/ keeps answers from pod to
pod; property tests compare the two. `registry` creates the plugins. `rules`, from PreFilter to
Score, and `profile`, before and after, are loops over hooks: a hook is one plugin at one extension
point.

Every call of a plugin passes one `guard`. It times the call, checks the answer (`answers`,
`statuses`) and catches what the plugin raises, which becomes a PluginError with the message for
users (`failures`). The call of a plugin with a breaker is watched as well (`watched_hook`): how
long it took, step by step if it waits or pauses (`timed_steps`), and that it ends (`overruns`).

A decision is watched in two ways, and neither changes it. The record of an attempt
(framework/measuring.py) is told when an extension point begins and ends. An `observer` is shown
what was decided and why: the log, `berth explain`, `berth bench --check` and tests are observers.

`sampling` decides how many feasible nodes are enough and where the search for them starts. A
decision waits for extenders only: it is a generator that yields each question
(framework/questions.py) and receives the answer.
"""
