"""KubeSchedulerConfiguration v1: types, defaults, validation, strict loading, feature gates and
flags.
"""
