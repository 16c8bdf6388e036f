"""The media type of an answer, from the Accept header, as /flagz and /statusz negotiate it.

Text is the default. A client gets JSON and YAML only if it names the kind of the object, as in
`application/json;as=Statusz;g=config.k8s.io;v=v1beta1`.
"""

from __future__ import annotations

from typing import NamedTuple

GROUP = "config.k8s.io"
VERSIONS = ("v1beta1", "v1alpha1")
DEPRECATED = "v1alpha1"
STRUCTURED = ("application/json", "application/yaml")
PLAIN = "text/plain"


class MediaType(NamedTuple):
    """A media type. `version` is the version of the object; "" for text."""

    media_type: str
    version: str = ""


TEXT = MediaType(PLAIN)


def negotiate(accept: str, kind: str) -> MediaType | None:
    """Returns the first type that can be sent, in the client's order of preference, or None."""
    if not accept.strip():
        return TEXT
    clauses = [_clause(part) for part in accept.split(",") if part.strip()]
    # As with Go's sort, clauses of the same weight keep their order.
    for media_range, parameters in sorted(clauses, key=lambda clause: -_weight(clause[1])):
        for media_type in (*STRUCTURED, PLAIN):
            if media_range in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
                accepted = _accepted_type(media_type, parameters, kind)
                if accepted is not None:
                    return accepted
    return None


def _accepted_type(media_type: str, parameters: dict[str, str], kind: str) -> MediaType | None:
    version = parameters.get("v", "")
    named = parameters.get("as"), parameters.get("g"), version in VERSIONS
    if media_type == PLAIN:
        return TEXT if "as" not in parameters else None
    return MediaType(media_type, version) if named == (kind, GROUP, True) else None


def _clause(part: str) -> tuple[str, dict[str, str]]:
    media_type, *parameters = (word.strip() for word in part.split(";"))
    pairs = (word.partition("=") for word in parameters)
    return media_type.lower(), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _weight(parameters: dict[str, str]) -> float:
    try:
        return float(parameters.get("q", 1.0))
    except ValueError:
        return 1.0
