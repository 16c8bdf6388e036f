"""The form of an answer that a client accepts: its media type, and what becomes of the object.

Mirrors NegotiateMediaTypeOptions of Kubernetes' apiserver, and the routes before it, which look at
the media type alone.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from ..types.api_documents import RefusedError
from .media_types import JSON, PROTOBUF, YAML

OFFERED = (JSON, YAML, PROTOBUF)
TABLE, PARTIAL, PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
GROUP_LIST = "APIGroupDiscoveryList"
_META = "meta.k8s.io"
# The group and the versions of what an object may become.
_CONVERSIONS = {
    TABLE: (_META, ("v1", "v1beta1")),
    PARTIAL: (_META, ("v1", "v1beta1")),
    PARTIAL_LIST: (_META, ("v1", "v1beta1")),
    GROUP_LIST: ("apidiscovery.k8s.io", ("v2",)),
}
_IN_PROTOBUF = (PARTIAL, PARTIAL_LIST)
_STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")


class AcceptedForm(msgspec.Struct, frozen=True):
    """A media type, and the kind and version that an object becomes; "" for its own."""

    media_type: str = JSON
    as_kind: str = ""
    version: str = ""


@lru_cache(maxsize=512)
def accepted_form(
    accept: str,
    *,
    of_groups: bool = False,
    tables: bool = True,
    streams: bool = False,
    is_list: bool = False,
) -> AcceptedForm:
    """Returns the form that an Accept header prefers, of those that objects have or, if
    `of_groups`, the list of the groups; reviews have no `tables`, and `streams` are in protobuf for
    who accepts nothing else. Raises RefusedError with 406 if there is none; the refusal of a list
    names the streams too.
    """
    if not accept.strip():
        return AcceptedForm()
    ranges = [_range(part) for part in accept.split(",") if part.strip()]
    ranges.sort(key=lambda each: -each[2])  # those of one quality keep their order
    if not any(media_type in (*OFFERED, "*/*") for media_type, _, _ in ranges):
        offered = ", ".join((*OFFERED, *_STREAMS) if is_list else OFFERED)
        message = f"406: Not Acceptable\n\nAvailable representations: {offered}"
        raise RefusedError(406, "NotAcceptable", message, {})
    last: AcceptedForm | None = None
    for media_type, parameters, _ in ranges:
        form = _form(JSON if media_type == "*/*" else media_type, parameters)
        if form is None or (form.as_kind == TABLE and not tables):
            continue
        if streams and form.media_type == PROTOBUF:
            last = last or form
            continue
        if not form.as_kind or of_groups == (form.as_kind == GROUP_LIST):
            return form
    if last is not None:
        return last
    if any(
        media_type == PROTOBUF and "as" not in parameters for media_type, parameters, _ in ranges
    ):
        return AcceptedForm(PROTOBUF)  # of JSON there is a copy, and this is made anew each time
    raise RefusedError(406, "NotAcceptable", _only(OFFERED))


def check_accepts(accept: str, media_type: str) -> None:
    """Raises RefusedError with 406 if a client does not accept this media type."""
    ranges = {_range(part)[0] for part in accept.split(",") if part.strip()}
    if ranges and not ranges & {media_type, "application/*", "*/*"}:
        raise RefusedError(406, "NotAcceptable", _only((media_type,)), {})


def stream_type(accept: str) -> str:
    """Returns the media type of a watch. Raises RefusedError with 406 if a client accepts neither
    JSON nor protobuf.
    """
    form = accepted_form(accept, streams=True)
    if form.media_type == YAML:
        raise RefusedError(406, "NotAcceptable", _only(_STREAMS))
    return JSON if form.media_type == JSON else _STREAMS[1]


def _only(media_types: tuple[str, ...]) -> str:
    return f"only the following media types are accepted: {', '.join(media_types)}"


def _range(part: str) -> tuple[str, dict[str, str], float]:
    """Returns a media range: the type, the parameters and the quality."""
    media_type, *parameters = (piece.strip() for piece in part.split(";"))
    pairs = {}
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        pairs[key.strip().lower()] = value.strip().strip('"')
    try:
        quality = float(pairs.pop("q", 1))
    except ValueError:
        quality = 1.0
    return media_type.lower(), pairs, quality


def _form(media_type: str, parameters: dict[str, str]) -> AcceptedForm | None:
    """Returns the form of a media range; None if the server does not have it, or, as objects in
    protobuf, only for who accepts nothing else.
    """
    kind, version = parameters.get("as", ""), parameters.get("v", "")
    if media_type not in (JSON, YAML) and (media_type != PROTOBUF or kind not in _IN_PROTOBUF):
        return None
    if not kind:
        return AcceptedForm(media_type)
    group, versions = _CONVERSIONS.get(kind, ("", ()))
    if parameters.get("g", "") != group or version not in versions:
        return None
    return AcceptedForm(media_type, kind, version)
