"""The memory from pod to pod, as a drop-in for the plain candidates.

`recall` has the candidates, `memory` the answers of rules about one template of pods, `promised`
and `rejections` what is kept besides where nodes are nominated or nothing fits. It never changes a
decision.
"""
