"""`berth explain`: why the scheduler would place a pod on a node, or on none.

decider, decision     build the cluster, and decide as the scheduler would
asks/                 what each node lacks, in words
changes/              what would change the decision, each change proven by deciding again
*_words, *_report     the sentences
"""
