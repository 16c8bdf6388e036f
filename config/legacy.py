"""Configurations of versions that Kubernetes has removed, and how they are converted to v1.

`convert` gives the same decisions in v1, with a line for each change. A setting without an
equivalent has a line of its own, to be done by hand. Parts of a wrong type are left for the reader
of v1 to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from .profiles import REMOVED, removed
from .types import API_VERSION, EXTENSION_POINTS, KIND

GROUP = "kubescheduler.config.k8s.io"
# The removed versions, each with the release of Kubernetes that dropped it, or "" if unknown.
RELEASES: Mapping[str, str] = {
    "v1alpha1": "",
    "v1alpha2": "",
    "v1beta1": " in 1.23",
    "v1beta2": " in 1.28",
    "v1beta3": " in 1.29",
}
# The default weights that v1beta3 has raised.
_OLD_WEIGHTS = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}
_STRATEGIES = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_DEFAULT_STRATEGY = "NodeResourcesLeastAllocated"
_FIT = "NodeResourcesFit"
_FLAGS = {
    "healthzBindAddress": "--bind-address and --secure-port say where health is served",
    "metricsBindAddress": "--bind-address and --secure-port say where metrics are served",
    "featureGates": "the flag --feature-gates has them",
}

# The fields that v1alpha1 and v1alpha2 have outside a profile.
_ALPHA = frozenset(
    (
        "algorithmSource",
        "bindTimeoutSeconds",
        "disablePreemption",
        "hardPodAffinitySymmetricWeight",
        "pluginConfig",
        "plugins",
        "schedulerName",
    )
)
Document = dict[str, Any]


class Conversion(msgspec.Struct, frozen=True):
    """A document of v1, the changes that were made to it, and those to be made by hand."""

    document: Document
    changes: tuple[str, ...]
    by_hand: tuple[str, ...]


class _Notes:
    def __init__(self) -> None:
        self.changes: list[str] = []
        self.by_hand: list[str] = []


def removed_version(document: Mapping[str, Any]) -> str | None:
    """Returns the removed version of a document; "Policy" for that older kind; None for others."""
    version, kind = document.get("apiVersion"), document.get("kind")
    if kind == "Policy" and version in ("v1", f"{GROUP}/v1", None):
        return "Policy"
    if not isinstance(version, str) or kind != KIND:
        return None
    group, _, name = version.rpartition("/")
    return name if group in (GROUP, "componentconfig") and name in RELEASES else None


def refusal_of_removed(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the changes that a document of a removed version needs; () for other documents."""
    version = removed_version(document)
    if version is None:
        return ()
    if version == "Policy":
        return (
            f"kind: Policy was removed from Kubernetes in 1.23: write a {KIND} of {API_VERSION}",
            *_policy_hints(document),
        )
    conversion = convert(document)
    head = (
        f"apiVersion: {GROUP}/{version} was removed from Kubernetes{RELEASES[version]}: "
        "`berth config convert` writes the file in v1, with these changes"
    )
    by_hand = (f"{line} (by hand)" for line in conversion.by_hand)
    return (head, *conversion.changes, *by_hand)


def convert(document: Mapping[str, Any]) -> Conversion:
    """Returns the document in v1. One that is not of a removed version is returned as it is, but
    for fields of a removed version in a document of v1.
    """
    version = removed_version(document)
    is_v1 = (document.get("apiVersion"), document.get("kind")) == (API_VERSION, KIND)
    if version == "Policy" or (version is None and not is_v1):
        return Conversion(dict(document), (), ())
    notes = _Notes()
    new: Document = deepcopy(dict(document))
    if version is not None:
        new["apiVersion"] = API_VERSION
        notes.changes.append(f"apiVersion: {API_VERSION}")
    for field, instead in _FLAGS.items():
        if new.pop(field, None) is not None:
            notes.changes.append(f"{field}: removed, {instead}")
    _convert_leader_election(new, notes)
    if version is None:
        if not _ALPHA.isdisjoint(new):
            _convert_alpha(new, "", notes)
        return Conversion(new, tuple(notes.changes), tuple(notes.by_hand))
    if version.startswith("v1alpha"):
        _convert_alpha(new, version, notes)
    profiles = _mappings(new.get("profiles"))
    if version in ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2") and not profiles:
        profiles = [{}]
        new["profiles"] = profiles
    for i, profile in enumerate(profiles):
        _convert_profile(profile, version, f"profiles[{i}]", notes)
    return Conversion(new, tuple(notes.changes), tuple(notes.by_hand))


_RECORDS = ("endpoints", "configmaps")


def _mappings(value: object) -> list[Document]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _name(entry: Document) -> str:
    """Returns the name of a plugin; "" if the entry has none."""
    name = entry.get("name")
    return name if isinstance(name, str) else ""


def _convert_leader_election(new: Document, notes: _Notes) -> None:
    election = new.get("leaderElection")
    if not isinstance(election, dict):
        return
    for old, name in (
        ("lockObjectName", "resourceName"),
        ("lockObjectNamespace", "resourceNamespace"),
    ):
        if old in election:
            election[name] = election.pop(old)
            notes.changes.append(f"leaderElection.{old}: renamed to {name}")
    lock = election.get("resourceLock")
    if lock in (None, "", "leases"):
        return
    # Candidates of a record alone do not see those of a lease alone.
    election["resourceLock"] = step = f"{lock}leases" if lock in _RECORDS else "leases"
    notes.changes.append(f"leaderElection.resourceLock: {step} instead of {lock}")
    if step != "leases":
        notes.by_hand.append(
            f"leaderElection.resourceLock: name leases once every candidate has {step}"
        )


def _convert_alpha(new: Document, version: str, notes: _Notes) -> None:
    """Moves the fields that v1alpha1 had outside a profile into the profiles."""
    names = ("schedulerName", "plugins", "pluginConfig")
    own = {name: new.pop(name) for name in names if new.get(name) is not None}
    if not isinstance(new.get("profiles"), list):
        new["profiles"] = []
    if own:
        new["profiles"].append(own)
        notes.changes.append(f"{', '.join(own)}: moved to profiles[0]")
    if version == "v1alpha1" and "plugins" in own:
        notes.by_hand.append("profiles[0].plugins: postFilter of v1alpha1 is called preScore in v1")
    source = new.pop("algorithmSource", None)
    if source is not None:
        if isinstance(source, dict) and source.get("policy"):
            notes.by_hand.append("algorithmSource.policy: write the policy's plugins as a profile")
        else:
            notes.changes.append("algorithmSource: removed, the default plugins are those of v1")
    if not _mappings(new["profiles"]):
        new["profiles"].append({})
    profiles = _mappings(new["profiles"])
    moved: tuple[tuple[str, str, str], ...] = (
        ("hardPodAffinitySymmetricWeight", "InterPodAffinity", "hardPodAffinityWeight"),
        ("bindTimeoutSeconds", "VolumeBinding", "bindTimeoutSeconds"),
    )
    for field, plugin, arg in moved:
        value = new.pop(field, None)
        if value is not None:
            for profile in profiles:
                _args_of(profile, plugin).setdefault(arg, value)
            notes.changes.append(f"{field}: moved to {arg} in the args of {plugin}")
    if new.pop("disablePreemption", None):
        for profile in profiles:
            _set_at(profile, "postFilter", "disabled").append({"name": "DefaultPreemption"})
        notes.changes.append("disablePreemption: DefaultPreemption is disabled at postFilter")


# ------------------------------------------------------------------------------------ the profiles


def _convert_profile(profile: Document, version: str, path: str, notes: _Notes) -> None:
    plugins = profile.get("plugins")
    if isinstance(plugins, dict) and plugins.pop("unreserve", None) is not None:
        notes.changes.append(f"{path}.plugins.unreserve: removed, reserve has both")
    for entry in _mappings(profile.get("pluginConfig")):
        args = entry.get("args")
        if isinstance(args, dict) and isinstance(args.get("apiVersion"), str):
            args["apiVersion"] = API_VERSION
    _convert_strategy(profile, path, notes)
    _drop_removed(profile, path, notes)
    if version != "v1beta3":
        _keep_weights(profile, path, notes)


def _sets(profile: Document) -> Iterator[tuple[str, Document]]:
    """Yields the sets of a profile's plugins, each with its extension point."""
    plugins = profile.get("plugins")
    if isinstance(plugins, dict):
        for point in (*EXTENSION_POINTS, "multiPoint"):
            if isinstance(plugins.get(point), dict):
                yield point, plugins[point]


def _set_at(profile: Document, point: str, which: str) -> list[Document]:
    """Returns the list of a set, after adding it if there is none."""
    at: Document = profile
    for name in ("plugins", point):
        if not isinstance(at.get(name), dict):
            at[name] = {}
        at = at[name]
    if not isinstance(at.get(which), list):
        at[which] = []
    entries: list[Document] = at[which]
    return entries


def _args_of(profile: Document, plugin: str) -> Document:
    """Returns the args of a plugin, after adding them if there are none."""
    if not isinstance(profile.get("pluginConfig"), list):
        profile["pluginConfig"] = []
    for entry in _mappings(profile["pluginConfig"]):
        if _name(entry) == plugin:
            if not isinstance(entry.get("args"), dict):
                entry["args"] = {}
            args: Document = entry["args"]
            return args
    args = {}
    profile["pluginConfig"].append({"name": plugin, "args": args})
    return args


def _take(profile: Document, matches: Callable[[str], bool]) -> list[tuple[str, str, Document]]:
    """Removes the entries with a matching name from the sets. Returns point, list and entry."""
    removed = []
    for point, plugin_set in _sets(profile):
        for which in ("enabled", "disabled"):
            entries = _mappings(plugin_set.get(which))
            if not any(matches(_name(entry)) for entry in entries):
                continue
            removed += [(point, which, entry) for entry in entries if matches(_name(entry))]
            plugin_set[which] = [entry for entry in entries if not matches(_name(entry))]
            if not plugin_set[which]:
                del plugin_set[which]
    return removed


def _drop_removed(profile: Document, path: str, notes: _Notes) -> None:
    reported: set[str] = set()
    for point, which, entry in _take(profile, REMOVED.__contains__):
        name = entry["name"]
        if which == "enabled" and name in ("NodeLabel", "ServiceAffinity"):
            notes.by_hand.append(f"{path}.plugins.{point}: {removed(name)}")
        elif name not in reported:
            notes.changes.append(f"{path}.plugins.{point}: {removed(name)}")
        reported.add(name)
    configured = profile.get("pluginConfig")
    if not isinstance(configured, list):
        return
    for entry in _mappings(configured):
        name = _name(entry)
        if name in REMOVED:
            configured.remove(entry)
            if name not in reported:
                notes.changes.append(f"{path}.pluginConfig: {removed(name)}")
            reported.add(name)
    if not configured:
        del profile["pluginConfig"]


def _convert_strategy(profile: Document, path: str, notes: _Notes) -> None:
    """Makes the plugins that score resources strategies of NodeResourcesFit."""
    strategies = _take(profile, _STRATEGIES.__contains__)
    config = [e for e in _mappings(profile.get("pluginConfig")) if _name(e) in _STRATEGIES]
    for entry in config:
        profile["pluginConfig"].remove(entry)
    by_name = {entry["name"]: entry.get("args") for entry in config}
    enabled = {
        e["name"]: e for point, which, e in strategies if (point, which) == ("score", "enabled")
    }
    disabled = {
        e["name"] for point, which, e in strategies if (point, which) == ("score", "disabled")
    }
    everything = any(
        _name(entry) == "*"
        for point, plugin_set in _sets(profile)
        if point == "score"
        for entry in _mappings(plugin_set.get("disabled"))
    )
    if not strategies and not config:
        return
    if _DEFAULT_STRATEGY not in disabled and not everything:
        enabled.setdefault(_DEFAULT_STRATEGY, {"name": _DEFAULT_STRATEGY})
    if len(enabled) > 1:
        names = " and ".join(sorted(enabled))
        notes.by_hand.append(
            f"{path}.plugins.score: {names}: NodeResourcesFit has one scoringStrategy, choose one"
        )
        return
    if not enabled:
        if not everything:
            _set_at(profile, "score", "disabled").append({"name": _FIT})
        notes.changes.append(f"{path}.plugins.score: {_FIT} is disabled, it scores resources now")
        return
    ((name, entry),) = enabled.items()
    args = by_name.get(name)
    old: Document = args if isinstance(args, dict) else {}
    strategy: Document = {"type": _STRATEGIES[name]}
    if old.get("resources"):
        strategy["resources"] = old["resources"]
    if old.get("shape"):
        strategy["requestedToCapacityRatio"] = {"shape": old["shape"]}
    _args_of(profile, _FIT)["scoringStrategy"] = strategy
    if everything or entry.get("weight") is not None:
        weight = {"weight": entry["weight"]} if entry.get("weight") is not None else {}
        _set_at(profile, "score", "enabled").append({"name": _FIT, **weight})
    notes.changes.append(
        f"{path}.pluginConfig: {name} is the scoringStrategy {strategy['type']} of {_FIT}"
    )


def _keep_weights(profile: Document, path: str, notes: _Notes) -> None:
    """Sets the weight 1, which these plugins had by default up to v1beta2."""
    weighed = {
        _name(entry)
        for point, plugin_set in _sets(profile)
        if point == "score"
        for which in ("enabled", "disabled")
        for entry in _mappings(plugin_set.get(which))
    }
    if "*" in weighed:
        return
    kept = {name: weight for name, weight in _OLD_WEIGHTS.items() if name not in weighed}
    if not kept:
        return
    _set_at(profile, "multiPoint", "enabled").extend(
        {"name": name, "weight": weight} for name, weight in kept.items()
    )
    notes.changes.append(
        f"{path}.plugins.multiPoint: {', '.join(kept)} keep the weight 1; v1 has 3, 2 and 2 for "
        "TaintToleration, NodeAffinity and InterPodAffinity"
    )


# ---------------------------------------------------------------------------------------- policies

_PREDICATES: Mapping[str, str] = {
    "CheckNodeUnschedulable": "NodeUnschedulable",
    "CheckVolumeBinding": "VolumeBinding",
    "EvenPodsSpread": "PodTopologySpread",
    "GeneralPredicates": "NodeResourcesFit, NodeName, NodePorts and NodeAffinity",
    "HostName": "NodeName",
    "MatchInterPodAffinity": "InterPodAffinity",
    "MatchNodeSelector": "NodeAffinity",
    "MaxCSIVolumeCountPred": "NodeVolumeLimits",
    "NoDiskConflict": "VolumeRestrictions",
    "NoVolumeZoneConflict": "VolumeZone",
    "PodFitsHostPorts": "NodePorts",
    "PodFitsResources": "NodeResourcesFit",
    "PodToleratesNodeTaints": "TaintToleration",
}
_PRIORITIES: Mapping[str, str] = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesFit with the scoringStrategy LeastAllocated",
    "MostRequestedPriority": "NodeResourcesFit with the scoringStrategy MostAllocated",
    "NodeAffinityPriority": "NodeAffinity",
    "RequestedToCapacityRatioPriority": (
        "NodeResourcesFit with the scoringStrategy RequestedToCapacityRatio"
    ),
    "SelectorSpreadPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}


def _policy_hints(document: Mapping[str, Any]) -> Iterator[str]:
    for field, point, plugins in (
        ("predicates", "filter", _PREDICATES),
        ("priorities", "score", _PRIORITIES),
    ):
        for i, entry in enumerate(_mappings(document.get(field))):
            name = _name(entry)
            instead = plugins.get(name) if isinstance(name, str) else None
            if instead is not None:
                yield f"{field}[{i}]: {name} is {instead} at {point}"
            else:
                yield f"{field}[{i}]: {name} has no plugin in v1"
    if document.get("extenders"):
        yield "extenders: enableHttps is enableHTTPS, and httpTimeout is text such as 5s"
    if document.get("hardPodAffinitySymmetricWeight") is not None:
        yield "hardPodAffinitySymmetricWeight: an argument of InterPodAffinity"
