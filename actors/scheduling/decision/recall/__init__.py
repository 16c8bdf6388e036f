"""The memory from pod to pod, as a drop-in for the plain candidates.

`recall` has the memories of the latest templates of pods, `memory` the answers of rules about one
template, and `candidates` those of a pod, made from its memory. `nomination_answers` keeps answers
about nodes with nominated pods, `rejections` about pods that fit nowhere. The memory never changes
a decision.
"""
