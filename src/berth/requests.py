"""What a pod really asks for: `from berth.requests import requests_of`.

    >>> asks = requests_of({"metadata": {"name": "p"}, "spec": {"containers": [...]}})
    >>> asks.requests["cpu"]          # in thousandths of a core
    1500
    >>> [(part.rule, part.name, part.counts) for part in asks.parts]

The answer is what the scheduler compares with a node, with sidecars, init containers, requests of
the pod's own, overhead and a resize in place. The names in `__all__` are stable, as those of
`berth.plugin` are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from berth.actors.scheduling.kube.footprint import Footprint, Part, Rule
from berth.config.feature_gates import defaults_of
from berth.config.versions import CURRENT, emulated
from berth.tools.answers.explain.cluster_source import SourceError, classes_of, completed_objects
from berth.tools.answers.explain.pod_requests import footprint_of
from berth.tools.answers.manifests.manifests import STRICT, ManifestError, read_objects

__all__ = ["Footprint", "Part", "Rule", "SourceError", "requests_of"]


def requests_of(
    pod: Mapping[str, Any],
    cluster: Iterable[Mapping[str, Any]] = (),
    version: str = CURRENT.text,
) -> Footprint:
    """Returns what a pod asks for, as an API server would store it: limits are requests where
    nothing else is said.

    `pod` is a manifest, or the template of a workload, which has no name. `cluster` has the
    RuntimeClasses, whose overhead is added, and the LimitRanges, whose defaults are set; its other
    objects do not matter. `version` is the version of Kubernetes, such as "1.37".
    Raises SourceError, with the fields that are wrong, and ValueError for another version.
    """
    gates = defaults_of(emulated(version))
    named = {**pod, "metadata": _named(pod.get("metadata")), "apiVersion": "v1", "kind": "Pod"}
    try:
        manifests = read_objects([named, *cluster], "pod")
    except ManifestError as problem:
        raise SourceError(str(problem)) from None
    stored = completed_objects(manifests.objects, classes_of(()), STRICT.findings)
    # The classes and limits come first, then the pod before all that is in the cluster.
    return footprint_of(next(each for each in stored if each["kind"] == "Pod"), gates)


def _named(metadata: object) -> object:
    """Returns the metadata of a pod with a name, if they are an object or missing."""
    return {"name": "pod", **(metadata or {})} if isinstance(metadata, dict | None) else metadata
