"""Pod Security: the levels that a namespace's labels ask for, and what they say about pods.

Mirrors the admission plugin PodSecurity with its default configuration: without labels everything
is allowed, and nobody is exempt. There is no audit log, so the mode audit does nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..rules.fields import invalid
from ..types.api_documents import Document, controller_in
from .pod_security_checks import BASELINE, RESTRICTED, Violation, violations

PREFIX = "pod-security.kubernetes.io/"
PRIVILEGED = "privileged"
_LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
_MODES = ("enforce", "audit", "warn")
_LATEST = 1 << 31
MOST_PODS = 3000  # that are looked at when the level of a namespace changes


class LevelVersion(NamedTuple):
    """A level, and the minor version of its standards."""

    level: str = PRIVILEGED
    minor: int = _LATEST

    def __str__(self) -> str:
        version = "latest" if self.minor == _LATEST else f"v1.{self.minor}"
        return f"{self.level}:{version}"

    def violations(self, metadata: Document, spec: Document) -> list[Violation]:
        if self.level == PRIVILEGED:
            return []
        return violations(self.level, self.minor, metadata, spec)


class PodSecurityPolicy(NamedTuple):
    """What a namespace asks for. `problems` are those of its labels."""

    enforce: LevelVersion = LevelVersion()
    warn: LevelVersion = LevelVersion()
    problems: tuple[str, ...] = ()


_NOTHING = PodSecurityPolicy()


def policy_of(labels: Mapping[str, str]) -> PodSecurityPolicy:
    """Returns the policy of a namespace with these labels. A label that cannot be read asks for the
    most if it enforces, and for nothing otherwise.
    """
    if not any(label.startswith(PREFIX) for label in labels):
        return _NOTHING
    problems, found = list[str](), dict[str, LevelVersion]()
    for mode in _MODES:
        level = _level(labels, mode, problems)
        found[mode] = LevelVersion(level, _minor(labels, mode, problems))
    enforce, warn = found["enforce"], found["warn"]
    if f"{PREFIX}warn" not in labels and labels.get(f"{PREFIX}enforce") in _LEVELS[1:]:
        own = f"{PREFIX}warn-version" in labels
        warn = LevelVersion(enforce.level, warn.minor if own else enforce.minor)
    return PodSecurityPolicy(enforce, warn, tuple(problems))


def _level(labels: Mapping[str, str], mode: str, problems: list[str]) -> str:
    label = f"{PREFIX}{mode}"
    level = labels.get(label, PRIVILEGED)
    if level in _LEVELS:
        return level
    problems.append(_problem(label, level, f"must be one of {', '.join(_LEVELS)}"))
    return RESTRICTED if mode == "enforce" else PRIVILEGED


def _minor(labels: Mapping[str, str], mode: str, problems: list[str]) -> int:
    label = f"{PREFIX}{mode}-version"
    version = labels.get(label, "latest")
    if version == "latest":
        return _LATEST
    found = _VERSION.fullmatch(version)
    if found is not None:
        return int(found[1])
    problems.append(_problem(label, version, 'must be "latest" or "v1.x"'))
    return _LATEST


def _problem(label: str, value: str, why: str) -> str:
    return invalid(f"metadata.labels[{label}]", value, why)


def described(found: Iterable[Violation]) -> str:
    """Returns violations in one line, with their details."""
    return ", ".join(f"{reason} ({detail})" for reason, detail in found)


def is_significant(pod: Document, before: Document) -> bool:
    """True if the update of a pod must be looked at: it changes images, or adds containers."""
    after, old = pod["spec"], before["spec"]
    for field in ("containers", "initContainers"):
        ours, theirs = after.get(field) or (), old.get(field) or ()
        if [each.get("image") for each in ours] != [each.get("image") for each in theirs]:
            return True
    known = {each.get("name"): each for each in old.get("ephemeralContainers") or ()}
    return any(
        each.get("name") not in known or known[each["name"]].get("image") != each.get("image")
        for each in after.get("ephemeralContainers") or ()
    )


def pod_warnings(namespace: str, enforce: LevelVersion, pods: Iterable[Document]) -> Iterator[str]:
    """Yields the warnings about pods that violate the new level of their namespace."""
    ordered = _by_priority(pods)
    checked = ordered[:MOST_PODS]
    by_reason = dict[str, list[str]]()
    for pod in checked:
        found = enforce.violations(pod["metadata"], pod["spec"])
        if found:
            reason = ", ".join(violation.reason for violation in found)
            by_reason.setdefault(reason, []).append(pod["metadata"]["name"])
    if len(checked) < len(ordered):
        yield (
            "new PodSecurity enforce level only checked against the first "
            f"{len(checked)} of {len(ordered)} existing pods"
        )
    if by_reason:
        yield (
            f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level '
            f'"{enforce}"'
        )
    yield from sorted(f"{_counted(names)}: {why}" for why, names in by_reason.items())


def _by_priority(pods: Iterable[Document]) -> list[Document]:
    """Returns the pods; those of which the controller has an earlier pod are the last."""
    first, others, seen = list[Document](), list[Document](), set[str]()
    for pod in pods:
        controller = (controller_in(pod) or {}).get("uid")
        (others if controller in seen else first).append(pod)
        if controller is not None:
            seen.add(controller)
    return first + others


def _counted(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other pod{'s' * (others > 1)})"
