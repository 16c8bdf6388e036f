"""The order in which a new or updated object is admitted, from the first step to the last.

Mirrors the API server: admission plugins change the object, the strategy of its kind prepares it,
it is validated, and then plugins and policies may still refuse it. The last is the quota, which
every other refusal must precede. Statuses, bindings, evictions and deletions take other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from itertools import takewhile

import msgspec

from ..access.escalation import BINDING_KINDS, ROLE_KINDS, check_escalation
from ..policies.reinvocation import Reinvocation
from ..rules.fields import invalid
from ..rules.quota_rules import quota_warnings
from ..rules.validation import ephemeral_problems, resize_problems
from ..store import DEFINITIONS, Store
from ..types.admission_plugins import (
    NODE_RESTRICTION,
    RESOURCE_QUOTA,
    STORAGE_PROTECTION,
    VALIDATING_POLICY,
)
from ..types.api_documents import Document, names_of
from ..types.resources import BY_KIND, Kind
from ..types.schema import same
from .admission import (
    CLAIMS,
    DEVICE_CLAIMS,
    NAMESPACES,
    PRIORITY_CLASSES,
    VOLUMES,
    admin_access_problems,
    admitted_claim,
    check_default_class,
    check_overhead,
    qos_class,
    with_both_sources,
    with_first_status,
    with_kept_priority,
    with_priority,
    with_protection,
    with_runtime_class,
    with_tolerations,
)
from .caller import Caller
from .certificate_requests import REQUESTS, requested_by, with_kept_request
from .custom_objects import changes_more_than_metadata
from .evictions import PODS
from .further_admission import (
    INGRESSES,
    check_anti_affinity,
    check_expansion,
    check_external_addresses,
    check_owners,
    refuse_everything,
    with_images_pulled,
    with_ingress_class,
    with_not_ready_taint,
    with_selector_of_namespace,
    with_tolerated_resources,
)
from .limit_ranges import check_limits, with_default_limits
from .node_restriction import RESTRICTED
from .object_rules import problems_of, warnings_of
from .pod_accounts import with_account
from .pod_security_admission import (
    TEMPLATED,
    check_namespace_labels,
    check_pod,
    template_warnings,
)
from .refusals import refuse_invalid
from .resource_quotas import QUOTAS, check_quotas, with_status_limits
from .service_addresses import SERVICES, with_addresses
from .template_generation import DAEMON_SETS, with_template_generation

CREATE, UPDATE = "CREATE", "UPDATE"
NODES = BY_KIND["v1", "Node"]
TAINT_RULES = BY_KIND["resource.k8s.io/v1", "DeviceTaintRule"]
# The fields whose versions are counted, for kinds that have no spec.
_COUNTED_FIELDS = {
    "EndpointSlice": ("endpoints", "ports"),
    "MutatingWebhookConfiguration": ("webhooks",),
    "PodTemplate": ("template",),
    "ValidatingWebhookConfiguration": ("webhooks",),
}


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
    kind = attempt.kind if attempt.kind.custom is None else None
    for step in _steps(kind, operation, attempt.store.plugins):
        attempt.after = step(attempt) or attempt.after
    return attempt.after


def _keep_priority(write: AdmissionAttributes) -> Document:
    return with_kept_priority(write.after, write.before or {})


def _tolerate(write: AdmissionAttributes) -> Document:
    return with_tolerations(write.store, write.after)


def _keep_the_rest(write: AdmissionAttributes) -> Document | None:
    """Takes from a write of a subresource of a pod what that one is for."""
    after, before = write.after, write.before or {}
    if write.subresource == "ephemeralcontainers":
        from ..rules.ephemeral_containers import with_ephemeral_containers

        return with_ephemeral_containers(after, before)
    if write.subresource == "resize":
        from ..rules.pod_resize import with_resized_resources

        return with_resized_resources(after, before)
    return None


def _keep_spec(write: AdmissionAttributes) -> Document | None:
    if write.subresource == "finalize":
        return None
    return {**write.after, "spec": (write.before or {}).get("spec") or {}}


def _keep_status(write: AdmissionAttributes) -> None:
    if write.kind.status and write.before and "status" in write.before:
        write.after["status"] = write.before["status"]


def _name_user(write: AdmissionAttributes) -> Document | None:
    return None if write.caller is None else requested_by(write.after, write.caller.user)


def _keep_request(write: AdmissionAttributes) -> Document:
    return with_kept_request(write.after, write.before or {})


def _add_stored_version(write: AdmissionAttributes) -> Document:
    """Adds the version in which objects are stored now to those in which some may be."""
    after, status = write.after, write.after.get("status") or {}
    stored = status.get("storedVersions") or []
    versions = write.after["spec"].get("versions") or ()
    names = [each.get("name") for each in versions if each.get("storage")]
    new = [name for name in names if name and name not in stored]
    return {**after, "status": {**status, "storedVersions": [*stored, *new[:1]]}}


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
    if kind.custom is not None:
        changed = changes_more_than_metadata(after, before)
        after["metadata"]["generation"] = before["metadata"].get("generation", 1) + changed
    elif kind.counts_generations:
        stored = (kind.stored_as or kind).type_name
        fields = _COUNTED_FIELDS.get(kind.kind, ("spec",))
        changed = not all(same(stored, after.get(f), before.get(f), f) for f in fields)
        after["metadata"]["generation"] = before["metadata"].get("generation", 1) + changed


def _check_admin_access(write: AdmissionAttributes) -> None:
    why = admin_access_problems(write.store, write.kind, write.after, None)
    refuse_invalid(write.kind, write.after, why)


def _check_escalation(write: AdmissionAttributes) -> None:
    if write.caller is not None:
        check_escalation(write.store, write.caller.user, write.kind, write.after, write.before)


def _validate(write: AdmissionAttributes) -> None:
    kind, after, before = write.kind, write.after, write.before
    if write.subresource == "resize" and before:
        refuse_invalid(kind, after, resize_problems(after, before, qos_class(after["spec"])))
    elif write.subresource == "ephemeralcontainers" and before:
        refuse_invalid(kind, after, ephemeral_problems(after, before))
    else:
        refuse_invalid(kind, after, problems_of(kind, after, before))
    write.warnings += warnings_of(kind, after, before)


def _check_new_limits(write: AdmissionAttributes) -> None:
    changes_amounts = write.kind == CLAIMS or write.subresource == "resize"
    if changes_amounts and "deletionTimestamp" not in write.after["metadata"]:
        check_limits(write.store, write.kind, write.after)


def _check_pod_security(write: AdmissionAttributes) -> None:
    write.warnings += check_pod(write.store, write.after, write.before)


def _warn_of_template(write: AdmissionAttributes) -> None:
    write.warnings += template_warnings(write.store, write.kind, write.after)


def _check_security_labels(write: AdmissionAttributes) -> None:
    if not write.subresource:
        write.warnings += check_namespace_labels(write.store, write.after, write.before)


def _restrict_nodes(write: AdmissionAttributes) -> None:
    if write.caller is not None:
        place = write.after["metadata"].get("namespace", ""), write.after["metadata"]["name"]
        operation = CREATE if write.before is None else UPDATE
        write.caller.check_node(
            write.store, operation, write.kind, place, write.after, write.before, write.subresource
        )


def _check_owners(write: AdmissionAttributes) -> None:
    if write.caller is not None:
        check_owners(write.store, write.caller.user, write.kind, write.after, write.before)


def _check_expansion(write: AdmissionAttributes) -> None:
    if write.before is not None:
        check_expansion(write.store, write.after, write.before)


def _state_quota(write: AdmissionAttributes) -> Document | None:
    if write.before is None:
        write.warnings += quota_warnings(write.after)
    elif write.after.get("spec") == write.before.get("spec"):
        return None
    return with_status_limits(write.after)


def _ask_mutating_plugins(write: AdmissionAttributes) -> Document | None:
    """Asks mutating policies and webhooks. If one of them changes the object, the plugins before
    them run again, and those that want it are asked again.
    """
    if write.caller is None or not write.caller.changes_objects(write.store):
        return None
    rounds = Reinvocation()
    write.after = _mutated(write, write.caller, rounds)
    if rounds.is_needed:
        rounds.is_again = True
        for step in () if write.subresource == "status" else _plugins_before(write):
            write.after = step(write) or write.after
        write.after = _mutated(write, write.caller, rounds)
    _check_name(write)
    return write.after


def _check_name(write: AdmissionAttributes) -> None:
    """Raises RefusedError with 422 if an update gives an object another name."""
    if write.before is not None:
        name = write.after["metadata"].get("name") or ""
        if name != write.before["metadata"]["name"]:
            problem = invalid("metadata.name", name, "field is immutable")
            refuse_invalid(write.kind, write.before, [problem])


def with_mutated_status(write: AdmissionAttributes) -> Document:
    """Returns an object with the status that mutating policies and webhooks make of it."""
    after = write.after
    changed = _ask_mutating_plugins(write) or after
    return {**after, "status": changed.get("status") or {}}


def _mutated(write: AdmissionAttributes, caller: Caller, rounds: Reinvocation) -> Document:
    operation = UPDATE if write.before else CREATE
    after, warnings = caller.mutated(
        write.store,
        operation,
        write.kind,
        write.after,
        write.before,
        write.subresource,
        rounds,
    )
    write.warnings += warnings
    return after


def _plugins_before(write: AdmissionAttributes) -> Iterator[Step]:
    kind = write.kind if write.kind.custom is None else None
    steps = _steps(kind, UPDATE if write.before else CREATE, write.store.plugins)
    return takewhile(lambda step: step is not _ask_mutating_plugins, steps)


def _check_overhead(write: AdmissionAttributes) -> None:
    if write.after["spec"].get("overhead") is not None:
        check_overhead(write.store, write.after)


def _check_resize(write: AdmissionAttributes) -> None:
    if write.subresource == "resize" and write.before:
        from .pod_resize_admission import check_resize  # few pods are resized

        check_resize(write.store, write.after, write.before)


def _ask_policies(write: AdmissionAttributes) -> None:
    if write.caller is not None:
        place, operation = names_of(write.after), UPDATE if write.before else CREATE
        write.warnings += write.caller.warnings(
            write.store, operation, write.kind, place, write.after, write.before, write.subresource
        )


def _check_quotas(write: AdmissionAttributes) -> None:
    check_quotas(write.store, write.kind, write.after, write.before, write.subresource)


# The plugin (or what the server itself does, which runs always), the operations (all if empty), the
# kinds (likewise), and the step. A create or an update goes through them from top to bottom.
STRATEGY, VALIDATION = "", ""
MUTATING_PLUGINS = ""  # MutatingAdmissionPolicy, and then MutatingAdmissionWebhook
ORDER: tuple[tuple[str, str, Collection[Kind], Step], ...] = (
    # Plugins that change the object, in Kubernetes' order. NamespaceLifecycle has been asked.
    ("LimitRanger", CREATE, [PODS], lambda write: with_default_limits(write.store, write.after)),
    ("ServiceAccount", CREATE, [PODS], lambda write: with_account(write.store, write.after)),
    (NODE_RESTRICTION, "", RESTRICTED, _restrict_nodes),
    ("TaintNodesByCondition", CREATE, [NODES], lambda write: with_not_ready_taint(write.after)),
    ("AlwaysPullImages", "", [PODS], lambda write: with_images_pulled(write.after)),
    (
        "PodNodeSelector",
        CREATE,
        [PODS],
        lambda write: with_selector_of_namespace(write.store, write.after),
    ),
    ("Priority", CREATE, [PODS], lambda write: with_priority(write.store, write.after)),
    ("Priority", UPDATE, [PODS], _keep_priority),
    ("DefaultTolerationSeconds", "", [PODS], _tolerate),
    (
        "ExtendedResourceToleration",
        CREATE,
        [PODS],
        lambda write: with_tolerated_resources(write.after),
    ),
    (
        "DefaultStorageClass",
        CREATE,
        [CLAIMS],
        lambda write: admitted_claim(write.store, write.after),
    ),
    (
        STORAGE_PROTECTION,
        CREATE,
        [CLAIMS, VOLUMES],
        lambda write: with_protection(write.kind, write.after),
    ),
    ("RuntimeClass", CREATE, [PODS], lambda write: with_runtime_class(write.store, write.after)),
    (
        "DefaultIngressClass",
        CREATE,
        [INGRESSES],
        lambda write: with_ingress_class(write.store, write.after),
    ),
    (MUTATING_PLUGINS, "", (), _ask_mutating_plugins),
    # What the server itself changes: the strategy of the kind.
    (STRATEGY, CREATE, [PODS], lambda write: with_first_status(write.store, write.after)),
    (STRATEGY, UPDATE, [PODS], _keep_the_rest),
    (STRATEGY, "", [CLAIMS], lambda write: with_both_sources(write.after, write.before)),
    (
        STRATEGY,
        "",
        [DAEMON_SETS],
        lambda write: with_template_generation(write.after, write.before),
    ),
    (
        STRATEGY,
        "",
        [SERVICES],
        lambda write: with_addresses(write.store, write.after, write.before),
    ),
    (STRATEGY, UPDATE, [NAMESPACES], _keep_spec),
    (STRATEGY, CREATE, [REQUESTS], _name_user),
    (STRATEGY, UPDATE, [REQUESTS], _keep_request),
    (STRATEGY, UPDATE, (), _keep_status),
    (STRATEGY, UPDATE, [DEFINITIONS], _add_stored_version),
    (STRATEGY, UPDATE, [TAINT_RULES], _date_taint),
    (STRATEGY, UPDATE, (), _count_generation),
    (VALIDATION, CREATE, DEVICE_CLAIMS, _check_admin_access),
    (VALIDATION, "", (*ROLE_KINDS, *BINDING_KINDS), _check_escalation),
    (VALIDATION, "", (), _validate),
    # Plugins that may refuse it, in Kubernetes' order.
    (
        "LimitPodHardAntiAffinityTopology",
        "",
        [PODS],
        lambda write: check_anti_affinity(write.after),
    ),
    (
        "LimitRanger",
        CREATE,
        [PODS, CLAIMS],
        lambda write: check_limits(write.store, write.kind, write.after),
    ),
    ("LimitRanger", UPDATE, [PODS, CLAIMS], _check_new_limits),
    (VALIDATION, "", [QUOTAS], _state_quota),
    ("PodSecurity", "", [PODS], _check_pod_security),
    ("PodSecurity", "", TEMPLATED, _warn_of_template),
    ("PodSecurity", "", [NAMESPACES], _check_security_labels),
    (
        "Priority",
        "",
        [PRIORITY_CLASSES],
        lambda write: check_default_class(write.store, write.after),
    ),
    ("OwnerReferencesPermissionEnforcement", "", (), _check_owners),
    ("PersistentVolumeClaimResize", UPDATE, [CLAIMS], _check_expansion),
    ("RuntimeClass", CREATE, [PODS], _check_overhead),
    (
        "DenyServiceExternalIPs",
        "",
        [SERVICES],
        lambda write: check_external_addresses(write.after, write.before),
    ),
    ("PodResizeValidator", UPDATE, [PODS], _check_resize),
    (VALIDATING_POLICY, "", (), _ask_policies),
    (RESOURCE_QUOTA, "", (), _check_quotas),
    ("AlwaysDeny", "", (), lambda write: refuse_everything(write.kind, write.after)),
)


@lru_cache(maxsize=4096)
def _steps(kind: Kind | None, operation: str, plugins: frozenset[str]) -> tuple[Step, ...]:
    """Returns the steps for a kind; without one, those of every custom kind."""
    stored = None if kind is None else kind.stored_as or kind
    return tuple(
        step
        for plugin, of_operation, kinds, step in ORDER
        if (not plugin or plugin in plugins)
        and of_operation in ("", operation)
        and (not kinds or stored in kinds)
    )
