"""The pages /healthz, /livez and /readyz: the checks by name, and what a request asks of them.

The server answers only while everything works, so each check passes. The names are those of
Kubernetes, for programs that ask for one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

_REGISTERED = "autoregister-completion"
_HOOKS = tuple(
    f"poststarthook/{name}"
    for name in (
        "start-apiserver-admission-initializer",
        "generic-apiserver-start-informers",
        "priority-and-fairness-config-consumer",
        "priority-and-fairness-filter",
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
        "start-system-namespaces-controller",
        "start-cluster-authentication-info-controller",
        "start-kube-apiserver-identity-lease-controller",
        "start-kube-apiserver-identity-lease-garbage-collector",
        "storage-readiness",
        "start-legacy-token-tracking-controller",
        "start-service-ip-repair-controllers",
        "rbac/bootstrap-roles",
        "scheduling/bootstrap-system-priority-classes",
        "priority-and-fairness-config-producer",
        "bootstrap-controller",
        "start-kubernetes-service-cidr-controller",
        "start-kube-aggregator-informers",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "apiservice-registration-controller",
        "apiservice-discovery-controller",
        "kube-apiserver-autoregistration",
        "apiservice-openapi-controller",
        "apiservice-openapiv3-controller",
    )
)
_LIVE = ("ping", "log", "etcd", *_HOOKS, _REGISTERED)
CHECKS: Mapping[str, Sequence[str]] = {
    "healthz": _LIVE,
    "livez": _LIVE,
    "readyz": ("ping", "log", "etcd", "informer-sync", *_HOOKS, _REGISTERED, "shutdown"),
}


class HealthPage(msgspec.Struct, frozen=True):
    """A page as text, and its HTTP code."""

    text: str
    code: int = 200


def health_page(path: str, query: Mapping[str, str]) -> HealthPage | None:
    """Returns the page at a path, which may name one check; None if it is no such path."""
    name, _, check = path.removeprefix("/").partition("/")
    checks = CHECKS.get(name)
    if checks is None:
        return None
    if check:
        return HealthPage("ok") if check in checks else HealthPage("404 page not found\n", 404)
    if "verbose" not in query:
        return HealthPage("ok")
    excluded = query.get("exclude", "")
    lines = [f"[+]{each} excluded: ok" if each == excluded else f"[+]{each} ok" for each in checks]
    if excluded and excluded not in checks:
        missing = f'no matches for "{excluded}"'
        lines.append(f"warn: some health checks cannot be excluded: {missing}")
    return HealthPage("\n".join([*lines, f"{name} check passed\n"]))
