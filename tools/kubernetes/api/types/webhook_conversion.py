"""The conversion of custom objects by a webhook.

Nothing is asked here. What needs an object in another version raises ConversionsNeededError; who
has asked the webhook tells what it answered (`learn`), and tries again. A conversion is remembered
by what is converted, without the metadata that only the server sets: that stays as it is, but for
labels and annotations. So a write can be tried again, although it then has another uid.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from .api_documents import Document, RefusedError

GROUP = "apiextensions.k8s.io"
MOST_REMEMBERED = 20_000  # conversions of the objects of a definition
_SENT = ("name", "generateName", "namespace", "labels", "annotations")


class ConversionsNeededError(Exception):
    """What was asked for cannot go on before a webhook has converted these documents."""

    def __init__(
        self, webhook: ConversionWebhook, documents: Sequence[Document], version: str
    ) -> None:
        super().__init__("a webhook is to convert objects")
        self.webhook = webhook
        self.documents = documents
        self.version = version

    def review(self, uid: str) -> Document:
        """Returns the ConversionReview to send."""
        request = {
            "uid": uid,
            "desiredAPIVersion": self.version,
            "objects": list(self.documents),
        }
        head = {"apiVersion": f"{GROUP}/{self.webhook.review_version}", "kind": "ConversionReview"}
        return {**head, "request": request}


class ConversionWebhook:
    """The webhook of a definition. `client` says where it is."""

    def __init__(self, told: Document) -> None:
        """Takes spec.conversion.webhook."""
        self.client: Document = told.get("clientConfig") or {}
        versions = told.get("conversionReviewVersions") or ["v1"]
        self.review_version: str = next((v for v in versions if v in ("v1", "v1beta1")), "v1")
        self._known: dict[bytes, Document] = {}
        self._failed: dict[bytes, str] = {}

    def converted(self, document: Document, version: str) -> Document:
        """Returns a document in a version. Raises ConversionsNeededError, and RefusedError with 500
        if the webhook did not convert it.
        """
        key = _key(document, version)
        if (failure := self._failed.pop(key, None)) is not None:
            kind = f"{document['apiVersion']}, Kind={document['kind']}"
            raise RefusedError(500, "", f"conversion webhook for {kind} failed: {failure}")
        answer = self._known.get(key)
        if answer is None:
            raise ConversionsNeededError(self, [document], version)
        told = answer["metadata"]
        metadata = {k: v for k, v in document["metadata"].items() if k not in _SENT[-2:]}
        metadata |= {field: told[field] for field in _SENT[-2:] if told.get(field)}
        return {**answer, "metadata": metadata}

    def prepare(self, documents: Sequence[Document], version: str) -> None:
        """Raises ConversionsNeededError with those documents that are not converted yet."""
        missing = [
            each
            for each in documents
            if each["apiVersion"] != version
            and (key := _key(each, version)) not in self._known
            and key not in self._failed
        ]
        if missing:
            raise ConversionsNeededError(self, missing, version)

    def learn(
        self, needed: ConversionsNeededError, uid: str, review: Document | None, failure: str
    ) -> None:
        """Takes the answer to the review of this uid, or why there is none."""
        keys = [_key(each, needed.version) for each in needed.documents]
        response = (review or {}).get("response") or {}
        failure = failure or _problem(needed, uid, response)
        if failure:
            self._failed |= dict.fromkeys(keys, failure)
            return
        self._known |= dict(zip(keys, response["convertedObjects"], strict=True))
        while len(self._known) > max(MOST_REMEMBERED, len(keys)):
            del self._known[next(iter(self._known))]


def _problem(needed: ConversionsNeededError, uid: str, response: Any) -> str:
    """Returns why an answer is of no use, or ""."""
    from .webhook_responses import ConversionResponse, wrong_types  # few servers ask webhooks

    if not response:
        return "no response provided"
    if wrong := wrong_types(response, ConversionResponse):
        return f"invalid response: {wrong}"
    if response.get("uid") != uid:
        return f'expected response.uid="{uid}", got "{response.get("uid") or ""}"'
    result = response.get("result") or {}
    if result.get("status") != "Success":
        status = result.get("status") or ""
        return result.get("message") or f"response.result.status was '{status}', not 'Success'"
    converted = response.get("convertedObjects") or []
    if len(converted) != len(needed.documents):
        return f"returned {len(converted)} objects, expected {len(needed.documents)}"
    for i, (before, after) in enumerate(zip(needed.documents, converted, strict=True)):
        if why := _misconverted(before, after, needed.version):
            return f"returned invalid converted object at index {i}: {why}"
    return ""


def _misconverted(before: Document, after: Any, version: str) -> str:
    from .webhook_responses import ConvertedMetadata, wrong_types

    if not isinstance(after, dict) or not isinstance(after.get("metadata"), dict):
        return "missing metadata in converted object"
    if wrong := wrong_types(after["metadata"], ConvertedMetadata):
        return f"invalid metadata in converted object: {wrong}"
    told = after.get("apiVersion")
    if told != version:
        return f"invalid groupVersion (expected {version}, received {told})"
    if after.get("kind") != before["kind"]:
        return f"invalid kind (expected {before['kind']}, received {after.get('kind')})"
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        was, now = (each["metadata"].get(field) or "" for each in (before, after))
        if was != now:
            return f"must have the same {shown}: {was} != {now}"
    return ""


def _key(document: Document, version: str) -> bytes:
    metadata = document["metadata"]
    sent = {field: metadata[field] for field in _SENT if field in metadata}
    told = [version, {**document, "metadata": sent}]
    return blake2b(msgspec.json.encode(told), digest_size=16).digest()
