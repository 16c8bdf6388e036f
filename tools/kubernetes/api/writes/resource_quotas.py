"""ResourceQuotas: refuses what exceeds them, and keeps in their status what is used.

Mirrors the admission plugin ResourceQuota and the controller of quotas in kube-controller-manager.
A write and its charge happen in one step, so that concurrent requests never exceed a quota. A
status that a client writes keeps its limits, but gets the server's own sums, counted anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ledger import FREE, Account, Charge, Ledger
from ..rules.fields import COMPUTE
from ..store import Store
from ..types.amounts import NOTHING, Sums, sums_of
from ..types.api_documents import Document, StoredObject, controller_in
from ..types.resources import BY_KIND, Kind
from .admission import CLAIMS
from .evictions import PODS
from .quota_usage import (
    DEVICES,
    SERVICES,
    counts_kind,
    device_classes,
    extended_requests,
    is_in_scope,
    is_terminating,
    object_usage,
    pod_usage,
    unspecified,
)
from .refusals import forbidden

QUOTAS = BY_KIND["v1", "ResourceQuota"]
DEVICE_CLASSES = BY_KIND["resource.k8s.io/v1", "DeviceClass"]
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"
_UNCOUNTED = ("Event",)


def open_ledgers(store: Store) -> None:
    """Finds the namespaces that have quotas, after a restart."""
    for stored in store.list(QUOTAS):
        store.ledgers.setdefault(stored.document["metadata"]["namespace"], None)


def with_status_limits(quota: Document) -> Document:
    """Returns a quota with the limits of its spec in its status."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    return {**quota, "status": {**(quota.get("status") or {}), "hard": hard}}


def check_quotas(
    store: Store, kind: Kind, document: Document, before: Document | None, subresource: str = ""
) -> None:
    """Raises RefusedError with 403 if a new or updated object exceeds a quota of its namespace, or
    lacks an amount that the quota limits.
    """
    ledger = _ledger(store, kind, document["metadata"].get("namespace", ""))
    if ledger is None or not _is_checked(kind, document, before, subresource):
        return
    charge = _charge(store, ledger, kind, document)
    problem = _unspecified(ledger, document, charge) if kind is PODS else ""
    name = document["metadata"].get("name", "")
    if not problem and ledger.exceeded(kind, name, charge):
        _settle_ending(store, ledger, document["metadata"]["namespace"])
        problem = ledger.exceeded(kind, name, charge)
    if problem:
        raise forbidden(kind, name, problem)


def settle_quotas(
    store: Store, kind: Kind, written: StoredObject, *, gone: bool = False
) -> StoredObject:
    """Charges an object to the quotas of its namespace after a write, or gives back the charge if
    it is `gone`.

    Returns the object; a quota is returned with its sums.
    """
    if kind is DEVICE_CLASSES:
        store.ledgers = dict.fromkeys(store.ledgers)  # device claims count by classes
        return written
    document = written.document
    namespace = document["metadata"].get("namespace", "")
    if kind is QUOTAS:
        store.ledgers[namespace] = None
        _ledger(store, kind, namespace)
        return written if gone else store.stored(kind, namespace, document["metadata"]["name"])
    ledger = _ledger(store, kind, namespace)
    if ledger is not None:
        _write_status(store, namespace, _enter(store, ledger, kind, document, gone=gone))
        if kind is PODS:
            _recharge_claim(store, ledger, document)
    return written


def _enter(
    store: Store, ledger: Ledger, kind: Kind, document: Document, *, gone: bool = False
) -> list[Account]:
    """Enters an object into the ledger. Returns the accounts whose sums change."""
    metadata = document["metadata"]
    name = metadata["name"]
    if kind is PODS:
        ledger.ending.discard(name)
        if "deletionTimestamp" in metadata and not gone:
            ledger.ending.add(name)
    elif kind is DEVICES and gone:
        uid = (controller_in(document) or {}).get("uid", "")
        if ledger.claims.get(uid) == name:
            del ledger.claims[uid]
    charge = FREE if gone else _charge(store, ledger, kind, document)
    return ledger.set_charge(kind, name, charge)


def _settle_ending(store: Store, ledger: Ledger, namespace: str) -> None:
    """Gives back the charges of pods that still exist after their grace periods."""
    for name in sorted(ledger.ending):
        settle_quotas(store, PODS, store.stored(PODS, namespace, name))


def _ledger(store: Store, kind: Kind, namespace: str) -> Ledger | None:
    """Returns the ledger of a namespace, which is counted if necessary; None if no quota limits
    anything.
    """
    if namespace not in store.ledgers or kind.kind in _UNCOUNTED:
        return None
    ledger = store.ledgers[namespace]
    if ledger is not None:
        return ledger
    quotas = [stored.document for stored in store.list(QUOTAS, namespace)]
    if not quotas:
        del store.ledgers[namespace]
        return None
    kinds = _counted_kinds(store)
    ledger = Ledger(_account(quota, kinds) for quota in quotas)
    for counted in kinds:
        for stored in store.list(counted, namespace):
            _enter(store, ledger, counted, stored.document)
    store.ledgers[namespace] = ledger
    _write_status(store, namespace, list(ledger.accounts.values()))
    return ledger


def _counted_kinds(store: Store) -> list[Kind]:
    return [kind for kind in store.catalog.kinds if kind.namespaced and kind.kind not in _UNCOUNTED]


def _account(quota: Document, counted_kinds: Sequence[Kind]) -> Account:
    spec, hard = quota.get("spec") or {}, sums_of((quota.get("status") or {}).get("hard") or {})
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    counted = {kind: {name for name in hard if counts_kind(kind, name)} for kind in counted_kinds}
    kinds = frozenset(kind for kind, names in counted.items() if names)
    used = dict.fromkeys(set().union(*counted.values()), NOTHING)
    return Account(quota["metadata"]["name"], kinds, scopes, hard, used)


def _charge(store: Store, ledger: Ledger, kind: Kind, document: Document) -> Charge:
    quotas = frozenset(
        account.name
        for account in ledger.accounts.values()
        if kind in account.kinds
        and all(is_in_scope(kind, document, scope) for scope in account.scopes)
    )
    if not quotas:
        return FREE
    amounts = object_usage(kind, document, store.outside.wall())
    if kind is DEVICES:
        classes = device_classes(amounts)
        of_pod = _charged_to_pod(store, ledger, document)
        extended = extended_requests(classes, lambda name: _resource_of(store, name), of_pod)
        amounts = {**amounts, **extended}
    return Charge(amounts, quotas)


def _is_checked(kind: Kind, document: Document, before: Document | None, subresource: str) -> bool:
    if before is None:
        return True
    if kind is PODS:
        return subresource == "resize" or is_terminating(document) != is_terminating(before)
    return kind in (SERVICES, CLAIMS, DEVICES)


def _unspecified(ledger: Ledger, pod: Document, charge: Charge) -> str:
    for quota in sorted(charge.quotas):
        missing = unspecified(pod, COMPUTE & ledger.accounts[quota].hard.keys())
        if missing:
            return f"failed quota: {quota}: must specify {missing}"
    return ""


def _write_status(store: Store, namespace: str, accounts: list[Account]) -> None:
    """Writes the sums of these accounts into the status of their quotas."""
    for account in accounts:
        quota = store.get(QUOTAS, namespace, account.name)
        used = {name: account.used[name].text() for name in account.hard if name in account.used}
        store.update(QUOTAS, {**quota, "status": {**(quota.get("status") or {}), "used": used}})


def _resource_of(store: Store, device_class: str) -> str:
    """Returns the extended resource that a device class stands for, or ""."""
    document = store.find(DEVICE_CLASSES, "", device_class)
    return str((document or {}).get("spec", {}).get("extendedResourceName") or "")


def _charged_to_pod(store: Store, ledger: Ledger, claim: Document) -> Sums:
    """Returns the usage of the pod for whose extended resources the scheduler made a claim."""
    metadata = claim["metadata"]
    owner = controller_in(claim) or {}
    if (metadata.get("annotations") or {}).get(EXTENDED_CLAIM) != "true" or (
        owner.get("apiVersion"),
        owner.get("kind"),
    ) != ("v1", "Pod"):
        return {}
    pod = store.find(PODS, metadata["namespace"], owner.get("name", ""))
    if pod is None or pod["metadata"]["uid"] != owner.get("uid"):
        return {}
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    name = status.get("resourceClaimName") or ledger.claims.setdefault(
        owner["uid"], metadata["name"]
    )
    return pod_usage(pod, store.outside.wall()) if name == metadata["name"] else {}


def _recharge_claim(store: Store, ledger: Ledger, pod: Document) -> None:
    """Charges the claim for a pod's extended resources anew, once the pod is no longer charged for
    them.
    """
    namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    name = status.get("resourceClaimName") or ledger.claims.get(uid)
    if name and store.find(DEVICES, namespace, name) is not None:
        settle_quotas(store, DEVICES, store.stored(DEVICES, namespace, name))
