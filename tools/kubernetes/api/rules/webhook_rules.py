"""Rules for what asks other programs: admission webhooks, and the services behind API groups."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from berth.actors.scheduling.kube.names import dns_subdomain

from ..policy_expressions import compiled
from .fields import Document, duplicate, invalid, one_of, required, unsupported
from .policy_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION,
    match_conditions,
    operation_rule,
)
from .role_rules import path_segment
from .value_forms import dns_1035_label

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS = ("v1", "v1beta1")
_MOST_GROUP_PRIORITY, _MOST_VERSION_PRIORITY = 20_000, 1000
_URL_FORM = "; desired format: https://host[/path]"


def configuration(document: Document, _before: Document | None) -> Iterator[str]:
    """Checks a configuration of webhooks, validating or mutating."""
    names = set[str]()
    for i, hook in enumerate(document.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name") or ""
        yield from _webhook(path, hook)
        yield from _review_versions(
            f"{path}.admissionReviewVersions", hook.get("admissionReviewVersions") or ()
        )
        if name and name in names:
            yield duplicate(f"{path}.name", name)
        names.add(name)


def _webhook(path: str, hook: Document) -> Iterator[str]:
    yield from _full_name(f"{path}.name", hook.get("name") or "")
    for i, rule in enumerate(hook.get("rules") or ()):
        yield from operation_rule(f"{path}.rules[{i}]", rule)
    yield from one_of(f"{path}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES)
    yield from one_of(f"{path}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    else:
        yield from one_of(f"{path}.sideEffects", effects, _SIDE_EFFECTS)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, detail)
    yield from one_of(f"{path}.reinvocationPolicy", hook.get("reinvocationPolicy"), REINVOCATION)
    yield from _client(f"{path}.clientConfig", hook.get("clientConfig") or {})
    conditions = hook.get("matchConditions") or ()
    yield from match_conditions(f"{path}.matchConditions", conditions)
    for place, text, detail in compiled({"matchConditions": conditions}).problems:
        yield invalid(f"{path}.{place}", text, detail)


def _full_name(path: str, name: str) -> Iterator[str]:
    if not name:
        yield required(path)
    elif messages := dns_subdomain(name):
        yield invalid(path, name, ",".join(messages))
    elif name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        yield invalid(path, name, detail)


def _review_versions(path: str, versions: Sequence[str]) -> Iterator[str]:
    known = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        yield required(path, f"must specify one of {known}")
        return
    for i, version in enumerate(versions):
        if version in versions[:i]:
            yield invalid(f"{path}[{i}]", version, "duplicate version")
            continue
        yield from (invalid(f"{path}[{i}]", version, why) for why in dns_1035_label(version))
    if not {*versions} & {*_REVIEW_VERSIONS}:
        yield invalid(path, versions, f"must include at least one of {known}")


def _client(path: str, client: Document) -> Iterator[str]:
    """Checks that a webhook has an address: a URL or a service."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(f"{path}.url", url)
    else:
        yield from _service(f"{path}.service", service or {})


def _url(path: str, url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
    except ValueError as problem:
        yield required(path, f"url must be a valid URL: {problem}{_URL_FORM}")
        return
    if parts.scheme != "https":
        detail = f"'https' is the only allowed URL scheme{_URL_FORM}"
        yield invalid(path, parts.scheme, detail)
    user, _, host = parts.netloc.rpartition("@")
    if not host:
        yield invalid(path, host, f"host must be specified{_URL_FORM}")
    for value, noun in (
        (user, "user information is"),
        (parts.fragment, "fragments are"),
        (parts.query, "query parameters are"),
    ):
        if value:
            yield invalid(path, value, f"{noun} not permitted in the URL")


def _service(path: str, service: Document) -> Iterator[str]:
    yield from (
        required(f"{path}.{field}") for field in ("name", "namespace") if not service.get(field)
    )
    yield from _port(f"{path}.port", service)
    place, at = f"{path}.path", service.get("path") or "/"
    if at == "/":
        return
    if at[0] != "/":
        yield invalid(place, at, "must start with a '/'")
    for i, step in enumerate(at[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(place, at, f"segment[{i}] may not be empty")
        yield from (
            invalid(place, at, f"segment[{i}]: {why}")
            for why in (dns_subdomain(step) if step else ())
        )


def _port(path: str, service: Document) -> list[str]:
    port = service.get("port") or 0
    detail = "port is not valid: must be between 1 and 65535, inclusive"
    return [] if 1 <= port <= 65535 else [invalid(path, port, detail)]


def api_service(document: Document, _before: Document | None) -> Iterator[str]:
    """Checks the name, the priorities and the service of a group's version."""
    spec, name = document.get("spec") or {}, document["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    if not path_segment(name) and name != f"{version}.{group}":
        detail = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        yield invalid("metadata.name", name, detail)
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        yield required("spec.group", detail)
    if group:
        yield from (invalid("spec.group", group, why) for why in dns_subdomain(group))
    yield from (invalid("spec.version", version, why) for why in dns_1035_label(version))
    for field, most in (
        ("groupPriorityMinimum", _MOST_GROUP_PRIORITY),
        ("versionPriority", _MOST_VERSION_PRIORITY),
    ):
        value = spec.get(field) or 0
        if not 0 < value <= most:
            yield invalid(f"spec.{field}", value, f"must be positive and less than {most}")
    bundle, skips = spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    if (service := spec.get("service")) is not None:
        missing = [field for field in ("namespace", "name") if not service.get(field)]
        yield from (required(f"spec.service.{field}") for field in missing)
        yield from _port("spec.service.port", service)
        if bundle and skips:
            detail = "may not be true if caBundle is present"
            yield invalid("spec.insecureSkipTLSVerify", skips, detail)
        return
    if bundle:
        shown = f"{len(base64.b64decode(bundle))} bytes"
        yield invalid("spec.caBundle", shown, "local APIServices may not have a caBundle")
    if skips:
        detail = "local APIServices may not have insecureSkipTLSVerify"
        yield invalid("spec.insecureSkipTLSVerify", skips, detail)


def api_service_status(document: Document, _before: Document) -> Iterator[str]:
    states = ("True", "False", "Unknown")
    for i, condition in enumerate((document.get("status") or {}).get("conditions") or ()):
        state = condition.get("status") or ""
        if state not in states:
            yield unsupported(f"status.conditions[{i}].status", state, states)
