"""The order in which a new or updated object is admitted, from the first step to the last.

Mirrors the API server: its strategies prepare the object, admission plugins change it, it is
validated, and then plugins and policies may still refuse it. The last is the quota, which every
other refusal must precede. Statuses, bindings, evictions and deletions take other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from ..rules.pod_resize import with_resized_resources
from ..rules.quota_rules import quota_warnings
from ..rules.validation import problems, resize_problems
from ..store import Store
from ..types.api_documents import Document, RefusedError
from ..types.resources import BY_KIND, KINDS, Kind
from ..types.schema import same
from .admission import (
    CLAIMS,
    DEVICE_CLAIMS,
    NAMESPACES,
    PRIORITY_CLASSES,
    admin_access_problems,
    admitted_claim,
    admitted_pod,
    check_default_class,
    qos_class,
    readmitted_pod,
    with_both_sources,
)
from .caller import Caller
from .evictions import PODS
from .limit_ranges import check_limits, with_default_limits
from .refusals import refuse_invalid
from .resource_quotas import QUOTAS, check_quotas, with_status_limits
from .service_addresses import SERVICES, with_addresses
from .template_generation import DAEMON_SETS, with_template_generation

CREATE, UPDATE = "CREATE", "UPDATE"
TAINT_RULES = BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"]


class AdmissionAttributes(msgspec.Struct):
    """A create or update before its admission. Checks of the user need a caller."""

    store: Store
    caller: Caller | None
    warnings: list[str]
    kind: Kind
    after: Document
    before: Document | None
    subresource: str = ""


Step = Callable[[AdmissionAttributes], Document | None]  # returns the object if it changes it


def admitted(attempt: AdmissionAttributes) -> Document:
    """Returns the object as it is to be stored. Raises RefusedError if a step refuses it."""
    operation = CREATE if attempt.before is None else UPDATE
    for step in _STEPS.get((attempt.kind, operation)) or _STEPS_OF_OTHERS[operation]:
        attempt.after = step(attempt) or attempt.after
    return attempt.after


def _readmit_pod(write: AdmissionAttributes) -> Document:
    after, before = write.after, write.before or {}
    if after["spec"].get("nodeName") != before["spec"].get("nodeName"):
        why = "a pod is bound through its binding subresource only"
        name = before["metadata"]["name"]
        message = f'Pod "{name}" is invalid: spec.nodeName: Forbidden: {why}'
        raise RefusedError(422, "Invalid", message)
    after = readmitted_pod(after, before)
    return with_resized_resources(after, before) if write.subresource == "resize" else after


def _keep_spec(write: AdmissionAttributes) -> Document | None:
    if write.subresource == "finalize":
        return None
    return {**write.after, "spec": (write.before or {}).get("spec") or {}}


def _keep_status(write: AdmissionAttributes) -> None:
    if write.kind.status and write.before and "status" in write.before:
        write.after["status"] = write.before["status"]


def _date_taint(write: AdmissionAttributes) -> Document | None:
    """Updates the time of a rule's taint when its effect changes, unless the write sets a time."""
    spec = write.after.get("spec") or {}
    taint, was = spec.get("taint") or {}, (write.before or {})["spec"]["taint"]
    if taint.get("effect") == was["effect"] or taint.get("timeAdded") != was.get("timeAdded"):
        return None
    now = write.store.outside.now()
    return {**write.after, "spec": {**spec, "taint": {**taint, "timeAdded": now}}}


def _count_generation(write: AdmissionAttributes) -> None:
    kind, after, before = write.kind, write.after, write.before or {}
    if kind.counts_generations:
        stored = (kind.stored_as or kind).type_name
        changed = not same(stored, after.get("spec"), before.get("spec"), "spec")
        after["metadata"]["generation"] = before["metadata"].get("generation", 1) + changed


def _check_admin_access(write: AdmissionAttributes) -> None:
    why = admin_access_problems(write.store, write.kind, write.after, None)
    refuse_invalid(write.kind, write.after, why)


def _validate(write: AdmissionAttributes) -> None:
    kind, after, before = write.kind, write.after, write.before
    if write.subresource == "resize" and before:
        refuse_invalid(kind, after, resize_problems(after, before, qos_class(after["spec"])))
    else:
        refuse_invalid(kind, after, problems(kind.type_name, after, before))


def _check_new_limits(write: AdmissionAttributes) -> None:
    changes_amounts = write.kind == CLAIMS or write.subresource == "resize"
    if changes_amounts and "deletionTimestamp" not in write.after["metadata"]:
        check_limits(write.store, write.kind, write.after)


def _state_quota(write: AdmissionAttributes) -> Document | None:
    if write.before is None:
        write.warnings += quota_warnings(write.after)
    elif write.after.get("spec") == write.before.get("spec"):
        return None
    return with_status_limits(write.after)


def _ask_policies(write: AdmissionAttributes) -> None:
    if write.caller is not None:
        metadata, operation = write.after["metadata"], UPDATE if write.before else CREATE
        place = metadata.get("namespace", ""), metadata["name"]
        write.warnings += write.caller.warnings(
            write.store, operation, write.kind, place, write.after, write.before, write.subresource
        )


def _check_quotas(write: AdmissionAttributes) -> None:
    check_quotas(write.store, write.kind, write.after, write.before, write.subresource)


# The operations (all if empty), the kinds (likewise), and the step.
ORDER: tuple[tuple[str, Collection[Kind], Step], ...] = (
    # what the object keeps and is given
    (CREATE, [PODS], lambda write: with_default_limits(write.store, write.after)),  # LimitRanger
    (CREATE, [PODS], lambda write: admitted_pod(write.store, write.after)),
    (UPDATE, [PODS], _readmit_pod),
    ("", [CLAIMS], lambda write: with_both_sources(write.after, write.before)),
    (CREATE, [CLAIMS], lambda write: admitted_claim(write.store, write.after)),
    ("", [DAEMON_SETS], lambda write: with_template_generation(write.after, write.before)),
    ("", [SERVICES], lambda write: with_addresses(write.store, write.after, write.before)),
    (UPDATE, [NAMESPACES], _keep_spec),
    (UPDATE, (), _keep_status),
    (UPDATE, [TAINT_RULES], _date_taint),
    (UPDATE, (), _count_generation),
    # what may refuse it
    (CREATE, DEVICE_CLAIMS, _check_admin_access),
    ("", (), _validate),
    (CREATE, [PODS, CLAIMS], lambda write: check_limits(write.store, write.kind, write.after)),
    (UPDATE, [PODS, CLAIMS], _check_new_limits),
    ("", [QUOTAS], _state_quota),
    ("", [PRIORITY_CLASSES], lambda write: check_default_class(write.store, write.after)),
    ("", (), _ask_policies),  # ValidatingAdmissionPolicy
    ("", (), _check_quotas),
)


def _steps(operation: str, kind: Kind | None) -> list[Step]:
    """Returns the steps for a kind; without one, those that every kind takes."""
    return [
        step
        for of_operation, kinds, step in ORDER
        if of_operation in ("", operation) and (not kinds or kind in kinds)
    ]


_STEPS = {
    (kind, operation): _steps(operation, kind) for kind in KINDS for operation in (CREATE, UPDATE)
}
_STEPS_OF_OTHERS = {operation: _steps(operation, None) for operation in (CREATE, UPDATE)}
