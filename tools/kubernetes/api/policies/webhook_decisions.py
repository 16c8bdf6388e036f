"""Which admission webhooks a write concerns, what they are asked, and what follows from what they
say. Mirrors the plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

Nothing is asked here. A write whose webhooks have not been asked yet raises CallsNeededError; who
has asked them tries the write again, with their answers.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.conversion import stored_form
from ..types.resources import Kind
from .policy_writes import (
    MUTATING,
    POLICY_KINDS,
    SYSTEM_FIELDS,
    VALIDATING,
    Write,
    matched_kind,
    request_of,
    values_of,
    with_system_fields,
)
from .reinvocation import Reinvocation

# What decides about writes is not decided about.
_EXEMPT = frozenset((MUTATING, VALIDATING, *POLICY_KINDS))
_LEAST_CODE = 400
# Returns a document of a kind with a JSON patch applied. Raises RefusedError.
Patched = Callable[[Kind, Document, Any], Document]


class WebhookCall(msgspec.Struct, frozen=True):
    """A question to a webhook, which its rules `matched` by this kind. `key` is the same when the
    write is tried again.
    """

    key: str
    hook: Document
    review: Document
    matched: Kind


class WebhookAnswer(msgspec.Struct, frozen=True):
    """The AdmissionReview that came back for the one of this uid, or why none did."""

    uid: str
    review: Document | None
    failure: str = ""


class CallsNeededError(Exception):
    """The write cannot go on before these webhooks are asked."""

    def __init__(self, calls: Sequence[WebhookCall]) -> None:
        super().__init__("webhooks are to be asked")
        self.calls = calls


class WebhookAnswers(msgspec.Struct):
    """The answers for one request, by the keys of their calls."""

    answers: dict[str, WebhookAnswer] = {}

    def mutated(
        self,
        store: Store,
        write: Write,
        patched: Patched,
        decoded: Callable[[Document], Document],
        rounds: Reinvocation,
    ) -> tuple[Document | None, list[str]]:
        """Returns the object as the mutating webhooks change it, None if they do not, and their
        warnings. `patched` applies a JSON patch, `decoded` decodes a stored object that it made.
        Raises RefusedError and CallsNeededError.
        """
        before, warnings, asked = write.after, list[str](), rounds.webhooks
        if rounds.is_again:
            asked.begin(before)
        for call in _calls(store, MUTATING, write):
            if rounds.is_again and not asked.is_due(call.key):
                continue
            key = f"{call.key} again" if rounds.is_again else call.key
            if key not in self.answers:
                raise CallsNeededError([msgspec.structs.replace(call, key=key)])
            response = _response(call, self.answers[key])
            warnings += response.get("warnings") or ()
            patch = response.get("patch")
            after = decoded(_patched(call, write, patch, patched)) if patch else write.after
            if after != write.after:
                write = msgspec.structs.replace(write, after=after)
                asked.changed()
                rounds.is_needed = True
            asked.asked(call.key, call.hook.get("reinvocationPolicy"))
        asked.end(write.after)
        return None if write.after is before else write.after, warnings

    def warnings(self, store: Store, write: Write) -> list[str]:
        """Returns the warnings of the validating webhooks. Raises RefusedError if one of them
        refuses the write, and CallsNeededError.
        """
        calls = list(_calls(store, VALIDATING, write))
        missing = [call for call in calls if call.key not in self.answers]
        if missing:
            raise CallsNeededError(missing)
        warnings: list[str] = []
        for call in calls:
            warnings += _response(call, self.answers[call.key]).get("warnings") or ()
        return warnings


def _calls(store: Store, kind: Kind, write: Write) -> Iterator[WebhookCall]:
    """Yields the calls to the webhooks of a kind of configurations that match a write."""
    if write.kind in _EXEMPT:
        return
    for stored in store.list(kind):
        configuration = stored.document["metadata"]
        for hook in stored.document.get("webhooks") or ():
            matched = matched_kind({**hook, "resourceRules": hook.get("rules") or [{}]}, write)
            if matched is None or not _conditions_hold(hook, write, matched):
                continue
            # A generated name is another one when the write is tried again.
            name = "" if write.operation == "CREATE" else write.name
            place = (write.operation, write.kind.plural, write.place, name, write.subresource)
            key = "/".join((kind.kind, configuration["name"], hook["name"], *place))
            yield WebhookCall(key, hook, _review(store, write, matched, kind), matched)


def _conditions_hold(hook: Document, write: Write, kind: Kind) -> bool:
    """True if all matchConditions hold. Raises RefusedError if one fails, unless failures are to be
    ignored.
    """
    conditions = hook.get("matchConditions") or ()
    if not conditions:
        return True
    from berth.actors.scheduling.cel import CelError  # few webhooks have conditions

    failed = ""
    values = values_of(write, kind)
    for expression in _compiled(tuple((each["name"], each["expression"]) for each in conditions)):
        try:
            if expression.value(values, lambda _: None) is False:
                return False
        except CelError as problem:
            failed = failed or str(problem)
    if failed and hook.get("failurePolicy") != "Ignore":
        raise RefusedError(403, "Forbidden", f"{_named(write)} is forbidden: {failed}")
    return not failed


@lru_cache(maxsize=256)
def _compiled(conditions: tuple[tuple[str, str], ...]) -> tuple[Any, ...]:
    """Returns expressions, of which each has a value."""
    from ..policy_expressions import compiled

    listed = [{"name": name, "expression": expression} for name, expression in conditions]
    return compiled({"matchConditions": listed}).conditions


def _named(write: Write) -> str:
    return f'{write.kind.resource} "{write.name}"'


def _review(store: Store, write: Write, matched: Kind, kind: Kind) -> Document:
    """Returns the AdmissionReview to send. Mutating webhooks see an object before the server has
    given it a uid.
    """
    values = values_of(write, matched)
    request = {
        **request_of(write, matched),
        "uid": store.outside.new_uid(),
        "object": values["object"],
        "oldObject": values["oldObject"],
    }
    if kind is MUTATING and write.operation == "CREATE":
        request["object"] = _without_system_fields(values["object"])
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _without_system_fields(document: Any) -> Any:
    if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
        return document
    metadata = {k: v for k, v in document["metadata"].items() if k not in SYSTEM_FIELDS}
    return {**document, "metadata": metadata}


def _response(call: WebhookCall, answer: WebhookAnswer) -> Document:
    """Returns what a webhook answered; {} if it did not and that is ignored. Raises RefusedError if
    it refuses the write, or did not answer.
    """
    name, failure = call.hook["name"], answer.failure
    review = answer.review or {}
    if not failure:
        failure = _malformed(answer.uid, review, review.get("response"))
    if failure:
        if call.hook.get("failurePolicy") == "Ignore":
            return {}
        why = f'failed calling webhook "{name}": {failure}'
        message = f"Internal error occurred: {why}"
        raise RefusedError(500, "InternalError", message, {"causes": [{"message": why}]})
    response: Document = review["response"]
    if response.get("allowed") is True:
        return response
    raise _refusal(name, response.get("status") or {})


def _malformed(uid: str, review: Document, response: Any) -> str:
    """Returns what is wrong with an answer, or ""."""
    from ..types.webhook_responses import AdmissionResponse, wrong_types  # few servers ask webhooks

    if wrong := wrong_types(response, AdmissionResponse):
        return f"received invalid webhook response: {wrong}"
    if review.get("kind") != "AdmissionReview" or not response:
        return "received invalid webhook response: webhook response is empty"
    if response.get("uid") != uid:
        return (
            "received invalid webhook response: expected response.uid="
            f'"{uid}", got "{response.get("uid") or ""}"'
        )
    if response.get("patch") and response.get("patchType") != "JSONPatch":
        return (
            "received invalid webhook response: webhook response has patch but "
            f'patchType is "{response.get("patchType") or ""}"'
        )
    return ""


def _refusal(name: str, status: Document) -> RefusedError:
    why = status.get("message") or status.get("reason") or ""
    denied = f'admission webhook "{name}" denied the request'
    message = f"{denied}: {why}" if why else f"{denied} without explanation"
    code = status.get("code")
    code = code if isinstance(code, int) and code >= _LEAST_CODE else _LEAST_CODE
    details = status.get("details")
    return RefusedError(code, status.get("reason") or "", message, details)


def _patched(call: WebhookCall, write: Write, patch: str, patched: Patched) -> Document:
    """Returns the object with the patch of a webhook. Raises RefusedError."""
    sent = call.review["request"]["object"]
    try:
        after = patched(call.matched, sent, msgspec.json.decode(b64decode(patch)))
    except (ValueError, RefusedError) as problem:
        message = f"Internal error occurred: {problem}"
        raise RefusedError(500, "InternalError", message) from None
    return stored_form(call.matched, with_system_fields(call.matched, after, write.after or {}))
