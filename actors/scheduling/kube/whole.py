"""Pods and nodes with their whole JSON, for readers of fields that scheduling ignores."""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

from .core import Node, Pod

T = TypeVar("T")
_DOCUMENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PART = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_ENCODER = msgspec.json.Encoder(enc_hook=dict)


class WholePod(Pod, frozen=True, kw_only=True):
    """A pod with the JSON that the API server sent. A copy with changed fields keeps the JSON."""

    json: bytes


class WholeNode(Node, frozen=True, kw_only=True):
    """A node with the JSON that the API server sent."""

    json: bytes


def with_json(item: T, raw: bytes | msgspec.Raw) -> T:
    """Returns a pod or a node together with its JSON, any other object as it is.

    As in kube-scheduler, the JSON has neither a kind nor an apiVersion, and the JSON of a pod has
    no managedFields.
    """
    if not isinstance(item, Pod | Node):
        return item
    document = _DOCUMENT.decode(raw)
    document.pop("kind", None)
    document.pop("apiVersion", None)
    if isinstance(item, Node):
        json = _ENCODER.encode(document)
        node = WholeNode(metadata=item.metadata, spec=item.spec, status=item.status, json=json)
        return cast("T", node)
    metadata = _DOCUMENT.decode(document["metadata"])
    metadata.pop("managedFields", None)
    json = _ENCODER.encode({**document, "metadata": metadata})
    return cast(
        "T", WholePod(metadata=item.metadata, spec=item.spec, status=item.status, json=json)
    )


def json_of(item: Pod | Node) -> msgspec.Raw:
    """Returns the whole JSON of an object, or only the fields that scheduling reads if the JSON was
    not kept.

    A pod has the node on which it is assumed.
    """
    if isinstance(item, WholePod) and item.spec.node_name:
        return msgspec.Raw(_json_with_node(item.json, item.spec.node_name))
    if isinstance(item, WholePod | WholeNode):
        return msgspec.Raw(item.json)
    return msgspec.Raw(_ENCODER.encode(item))


def _json_with_node(json: bytes, node: str) -> bytes:
    """Returns a pod's JSON with this node as its nodeName."""
    document = _DOCUMENT.decode(json)
    spec = _PART.decode(document.get("spec", b"null")) or {}
    return _ENCODER.encode({**document, "spec": {**spec, "nodeName": node}})
