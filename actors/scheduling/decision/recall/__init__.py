"""The memory from pod to pod, as a drop-in for the plain candidates.

`recall` has the candidates, `memory` the answers of rules about one template of pods. `promised`
keeps answers for nodes with nominated pods, `rejections` for pods that fit nowhere. The memory
never changes a decision.
"""
