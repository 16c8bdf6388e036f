"""Groups of pods that run all together or not at all, by PodGroup objects.

    pod_groups.py     the custom resource, and what makes a pod a member
    coscheduling.py   the plugin

Mirrors the Coscheduling plugin of kubernetes-sigs/scheduler-plugins: its kind, label and arguments.
"""

from .coscheduling import Coscheduling

__all__ = ["Coscheduling"]
