"""KubeSchedulerConfiguration v1: types, defaults, validation, feature gates. Pure."""
