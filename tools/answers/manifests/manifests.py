"""Reads manifests, and sorts their objects by kind: those of Kubernetes, those of plugins, and
others.

The check is as strict as kubectl's: a problem names the file, the line, the object, and the path of
an unknown field or of a value of the wrong type. The API server's rules check the values. An object
with a problem is left out, and the others are read, unless the findings are strict. Objects of
kinds that neither the scheduler nor a controller here reads, such as an Ingress, are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from berth.config.fields import suggestion

from ...kubernetes.api.types.resources import BY_KIND, Kind
from ...kubernetes.api.types.schema import unknown_and_mistyped
from .manifest_files import (
    NOTHING,
    STRICT,
    SUFFIXES,
    Document,
    Findings,
    ManifestError,
    Reading,
    Text,
    objects_of,
    place_of,
    texts_at,
)

__all__ = ["STRICT", "SUFFIXES", "Findings", "Manifest", "ManifestError", "Reading", "read"]
# Groups whose kinds went to other groups of Kubernetes.
_FORMER_GROUPS = ("extensions",)
_GROUPS = {kind.group for kind in BY_KIND.values()} | set(_FORMER_GROUPS)
_VERSIONS_OF: dict[str, list[str]] = {}
for _version, _name in BY_KIND:
    _VERSIONS_OF.setdefault(_name, []).append(_version)
# Groups and kinds that neither a scheduler nor what makes pods reads.
_UNREAD_GROUPS = frozenset(
    (
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "certificates.k8s.io",
        "discovery.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
    )
)
_UNREAD_KINDS = frozenset(
    (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "PodTemplate",
        "ValidatingWebhookConfiguration",
        "VolumeAttributesClass",
    )
)
DEFINITIONS = BY_KIND["apiextensions.k8s.io/v1", "CustomResourceDefinition"]
Place = tuple[str, str, str, str]


class Manifest(NamedTuple):
    """An object as it is written, with its place: a file and a line."""

    kind: Kind
    document: Document
    where: str


class Manifests(msgspec.Struct):
    """The objects in files: objects of berth's kinds, objects of `declared` kinds and, where
    everything is read, of those that the files define, the number of objects of each kind that is
    left out, and what is wrong with them.
    """

    objects: list[Manifest] = []
    others: list[Document] = []
    left_out: dict[str, int] = {}
    findings: Findings = msgspec.field(default_factory=Findings)

    @property
    def left_out_line(self) -> str:
        """A line about the objects that are left out; "" if there are none."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.left_out.items()))
        return f"left out: {kinds}: nothing for the scheduler" if kinds else ""


def read(
    paths: Iterable[Path],
    declared: Collection[tuple[str, str]] = (),
    reading: Reading = STRICT,
) -> Manifests:
    """Reads every object of the files and, for folders, of their *.yaml, *.yml and *.json files, as
    kubectl does. The path `-` is the standard input. `declared` are the apiVersions and names of
    further kinds.

    What is wrong goes to the findings. Raises ManifestError if they are strict, or if there is
    nothing to read in any of the paths.
    """
    findings = reading.findings
    sorting = _Sorting(declared, findings, everything=reading.everything)
    empty, found = [], False
    for path in paths:
        problems, holds = len(findings.problems), False
        for text in texts_at(path, sorting.is_read, reading):
            for document, where in text.objects(findings):
                holds = True
                sorting.take(document, where)
        found = found or holds or len(findings.problems) > problems
        if not holds and len(findings.problems) == problems:
            empty.append(f"{place_of(path)}: {NOTHING}")
    if empty and not found:
        raise ManifestError(empty[0])
    for nothing in empty:
        findings.warn(nothing, "the others are read")
    return sorting.manifests()


def read_objects(
    objects: Iterable[Any],
    where: str,
    declared: Collection[tuple[str, str]] = (),
    *,
    everything: bool = False,
) -> Manifests:
    """Sorts objects that are not in files; messages name their place. Raises ManifestError. With
    `everything`, objects that do not concern a scheduler count too. `declared` is as in `read`.
    """
    pairs = (
        objects_of(each, f"{where}[{number}]", STRICT.findings)
        for number, each in enumerate(objects)
    )
    return _sorted_out(chain.from_iterable(pairs), declared, everything=everything)


def read_text(content: bytes, where: str) -> Manifests:
    """Reads the objects of a text, which messages name `where`. Raises ManifestError, also without
    any.
    """
    text = Text(content, where, _Sorting((), STRICT.findings).is_read)
    pairs = list(text.objects(STRICT.findings))
    if not pairs:
        raise ManifestError(f"{where}: {NOTHING}")
    return _sorted_out(pairs)


def _sorted_out(
    objects: Iterable[tuple[Document, str]],
    declared: Collection[tuple[str, str]] = (),
    *,
    everything: bool = False,
) -> Manifests:
    sorting = _Sorting(declared, STRICT.findings, everything=everything)
    for document, where in objects:
        sorting.take(document, where)
    return sorting.manifests()


class _Sorting:
    """Sorts objects one by one. Of two that are the same object, the later one wins."""

    def __init__(
        self,
        declared: Collection[tuple[str, str]],
        findings: Findings,
        *,
        everything: bool = False,
    ) -> None:
        self._declared = declared
        self._everything = everything
        self._findings = findings
        self._objects: dict[Place | int, Manifest] = {}
        self._unknown: list[tuple[Document, str]] = []  # until all definitions are read
        self._manifests = Manifests(findings=findings)

    def is_read(self, version: str, name: str) -> bool:
        """False if objects of this kind are only counted."""
        return self._everything or self._is_known(version, name)

    def _is_known(self, version: str, name: str) -> bool:
        of = version, name
        return (
            name.endswith("List")
            or (of in BY_KIND and (self._everything or _concerns_scheduler(version, name)))
            or of in self._declared
            or is_unknown_version(version, name)
        )

    def take(self, document: Document, where: str) -> None:
        version, name = document["apiVersion"], document["kind"]
        if not self._is_known(version, name):
            if self._everything:
                self._unknown.append((document, where))
            else:
                self._leave_out(version, name)
            return
        try:
            if (version, name) in self._declared and (version, name) not in BY_KIND:
                self._add_other(document, where)
            else:
                self._keep(kind_of(document, where), document, where)
        except ManifestError as problem:
            self._findings.problem(str(problem))

    def _add_other(self, document: Document, where: str) -> None:
        _named_object(document, where)
        self._manifests.others.append(document)

    def _leave_out(self, version: str, name: str) -> None:
        known = (version, name) in BY_KIND
        of = f"{version} {name}" if name in _VERSIONS_OF and not known else name
        shown = of if known else f"{of}{_near_kind(version, name)}"
        left_out = self._manifests.left_out
        left_out[shown] = left_out.get(shown, 0) + 1

    def _take_defined(self) -> None:
        """Takes the objects of kinds that are defined in the same files, wherever."""
        definitions = [of.document for of in self._objects.values() if of.kind is DEFINITIONS]
        defined = {kind for document in definitions for kind in _kinds_of(document)}
        for document, where in self._unknown:
            version, name = document["apiVersion"], document["kind"]
            try:
                if (version, name) in defined:
                    self._add_other(document, where)
                else:
                    self._leave_out(version, name)
            except ManifestError as problem:
                self._findings.problem(str(problem))

    def _keep(self, kind: Kind, document: Document, where: str) -> None:
        name = document["metadata"].get("name")
        if not name:  # The API server gives it a name of its own, or refuses it.
            self._objects[len(self._objects)] = Manifest(kind, document, where)
            return
        namespace = document["metadata"].get("namespace") or "default" if kind.namespaced else ""
        place = kind.group, kind.kind, namespace, name
        if place in self._objects:
            _, before, elsewhere = self._objects.pop(place)
            if before != document or self._findings.strict:
                named = "/".join(filter(None, place[2:]))
                self._findings.warn(
                    f"{where}: {kind.kind} {named} is in {elsewhere} too", "the later one counts"
                )
        self._objects[place] = Manifest(kind, document, where)

    def manifests(self) -> Manifests:
        self._take_defined()
        manifests = self._manifests
        manifests.objects = list(self._objects.values())
        if not (manifests.objects or manifests.others or manifests.left_out):
            problems = self._findings.problems
            if problems:
                raise ManifestError("\n".join(problems))
        return manifests


def _concerns_scheduler(version: str, name: str) -> bool:
    return version.rpartition("/")[0] not in _UNREAD_GROUPS and name not in _UNREAD_KINDS


def is_unknown_version(version: str, name: str) -> bool:
    """True if Kubernetes has a kind of this name, but not in this version. A custom resource may
    have the name of a kind of Kubernetes.
    """
    group = version.rpartition("/")[0]
    return name in _VERSIONS_OF and group in _GROUPS and (version, name) not in BY_KIND


def _near_kind(version: str, name: str) -> str:
    """Returns " (did you mean X?)" for a kind X of the same apiVersion with a similar name, or
    "".
    """
    near = suggestion(name, (kind for of, kind in BY_KIND if of == version))
    return f" ({near.removeprefix(', ')})" if near else ""


def _named_object(document: Document, where: str) -> None:
    if not isinstance(document.get("metadata"), dict):
        raise ManifestError(f"{where}: metadata: expected an object with a name")


def _kinds_of(definition: Document) -> set[tuple[str, str]]:
    """Returns the apiVersions and names that a definition defines."""
    spec = definition.get("spec")
    if not isinstance(spec, dict):
        return set()
    names, versions = spec.get("names"), spec.get("versions")
    if not isinstance(names, dict) or not isinstance(versions, list):
        return set()
    served = (each.get("name") for each in versions if isinstance(each, dict))
    return {(f"{spec.get('group')}/{version}", str(names.get("kind"))) for version in served}


def kind_of(document: Document, where: str) -> Kind:
    """Returns the kind of an object. Raises ManifestError if berth does not know the kind, or if
    the object has fields that the kind does not have.
    """
    _named_object(document, where)
    version, name = str(document["apiVersion"]), str(document["kind"])
    kind = BY_KIND.get((version, name))
    if kind is None:
        versions = " or ".join(_VERSIONS_OF.get(name, ()))
        expected = f": expected {versions}" if versions else ""
        raise ManifestError(
            f"{_name_in_words(where, document)}: unknown kind {version} {name}{expected}"
        )
    problems = unknown_and_mistyped(kind.type_name, document)
    if problems.mistyped:
        raise ManifestError(
            f"{_name_in_words(where, document)}: {problems.where}: {problems.mistyped}"
        )
    if problems.unknown:
        raise ManifestError(f"{_name_in_words(where, document)}: {', '.join(problems.unknown)}")
    return kind


def _name_in_words(where: str, document: Document) -> str:
    return f"{where}, {shown_name(document)}"


def shown_name(document: Document) -> str:
    """Returns the kind, namespace and name of an object as it is written."""
    metadata = document["metadata"]
    names = metadata.get("namespace"), metadata.get("name") or metadata.get("generateName")
    name = "/".join(part for part in names if isinstance(part, str) and part)
    return f"{document['kind']} {name}" if name else str(document["kind"])
