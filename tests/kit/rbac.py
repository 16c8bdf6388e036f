"""RBAC as Kubernetes' API server decides it: the attributes of a request, and roles and bindings.

Mirrors RequestInfo and the RBAC authorizer. Only service accounts are subjects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

Document = Mapping[str, Any]

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
OF_NAMESPACES = ("status", "finalize")
# The roles that every cluster has, and that the shipped bindings name.
BUILT_IN: Mapping[str, tuple[Document, ...]] = {
    "system:auth-delegator": (
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"],
         "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"],
         "verbs": ["create"]},
    ),
    "extension-apiserver-authentication-reader": (
        {"apiGroups": [""], "resources": ["configmaps"],
         "resourceNames": ["extension-apiserver-authentication"],
         "verbs": ["get", "list", "watch"]},
    ),
    # Every cluster binds these to everybody who is authenticated.
    "system:discovery": (
        {"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez",
                             "/openapi", "/openapi/*", "/readyz", "/version", "/version/"],
         "verbs": ["get"]},
    ),
    "system:basic-user": (
        {"apiGroups": ["authorization.k8s.io"],
         "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
         "verbs": ["create"]},
    ),
}  # fmt: skip
OF_EVERYBODY = ("system:discovery", "system:basic-user")


class Attributes(NamedTuple):
    """`resource` includes the subresource; for a URL that is no resource, `path` is set instead."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        place = f" in {self.namespace}" if self.namespace else ""
        what = ".".join(filter(None, (self.resource, self.group)))
        return f"{self.verb} {what} {self.name or '*'}{place}"


class Right(NamedTuple):
    """One verb on one resource, as one role grants it; an empty `names` means every name."""

    role: str
    verb: str
    group: str
    resource: str
    names: tuple[str, ...] = ()


class Grant(NamedTuple):
    """`namespace` is that of the role's binding; "" grants in all of them."""

    right: Right
    namespace: str


@lru_cache(maxsize=4096)
def attributes_of(method: str, url: str) -> Attributes:
    """Returns the attributes of a request to an API server."""
    split = urlsplit(url)
    parts = [unquote(part) for part in split.path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, rest = parts[1], parts[3:]
    else:
        return Attributes("get" if method == "HEAD" else method.lower(), path=split.path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in OF_NAMESPACES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = "/".join((rest[0], *rest[2:3]))
    query = parse_qs(split.query)
    verb = VERBS.get(method, "get")
    if not name and verb == "get":
        verb = "watch" if query.get("watch", [""])[0] in ("true", "1") else "list"
        selected = query.get("fieldSelector", [""])[0].partition("metadata.name=")
        name = "" if selected[0] else selected[2].partition(",")[0]
    elif not name and verb == "delete":
        verb = "deletecollection"
    return Attributes(verb, group, resource, namespace, name)


def implied(attributes: Attributes, body: Any) -> Iterator[Attributes]:
    """Yields the further rights that the API server asks for because of a request's body: to write
    an allocation, and to block the deletion of an owner.
    """
    if not isinstance(body, Mapping):
        return
    verb, group, resource, namespace, name, _ = attributes
    status = body.get("status") or {}
    if (group, resource) == ("resource.k8s.io", "resourceclaims/status") and (
        "allocation" in status or "reservedFor" in status
    ):
        yield Attributes(verb, group, "resourceclaims/binding", namespace, name)
    for owner in (body.get("metadata") or {}).get("ownerReferences") or ():
        if owner.get("blockOwnerDeletion"):
            of_owner = owner["apiVersion"].rpartition("/")[0]
            finalizers = f"{owner['kind'].lower()}s/finalizers"
            yield Attributes("update", of_owner, finalizers, namespace, owner["name"])


class Authorizer:
    """What one service account may do. `documents` are roles and bindings.

    `shipped` are the rights of its own roles, and `roles` the names of all roles bound to it.
    """

    def __init__(self, documents: Iterable[Document], namespace: str, account: str) -> None:
        manifests = tuple(documents)
        rules = {
            role["metadata"]["name"]: role["rules"]
            for role in manifests
            if role["kind"] in ("ClusterRole", "Role")
        }
        self._grants: dict[tuple[str, str, str], list[Grant]] = {}
        self._urls: list[tuple[str, Document]] = []
        self.shipped: list[Right] = []
        self.roles: list[str] = []
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        for binding in manifests:
            if binding["kind"].endswith("Binding") and subject in binding["subjects"]:
                role = binding["roleRef"]["name"]
                self.roles.append(role)
                within = (
                    binding["metadata"]["namespace"] if binding["kind"] == "RoleBinding" else ""
                )
                if role in rules:
                    self.shipped += self._grant(role, rules[role], within)
                else:
                    self._grant(role, BUILT_IN[role], within)
        for role in OF_EVERYBODY:
            self._grant(role, BUILT_IN[role], "")

    def granting(self, access: Attributes) -> list[Right]:
        """Returns the rights that allow the request; none if it is not allowed."""
        if access.path:
            return [
                Right(role, access.verb, "", access.path)
                for role, rule in self._urls
                if access.verb in rule["verbs"] and _matches(rule["nonResourceURLs"], access.path)
            ]
        grants = self._grants.get((access.verb, access.group, access.resource), ())
        return [
            right
            for right, within in grants
            if within in ("", access.namespace) and (not right.names or access.name in right.names)
        ]

    def _grant(self, role: str, rules: Iterable[Document], within: str) -> list[Right]:
        """Raises AssertionError for wildcards, which no role of ours may have."""
        granted = []
        for rule in rules:
            if "nonResourceURLs" in rule:
                self._urls.append((role, rule))
                continue
            names = tuple(rule.get("resourceNames", ()))
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        assert "*" not in (group, resource, verb), f"{role}: {rule}"
                        right = Right(role, verb, group, resource, names)
                        self._grants.setdefault((verb, group, resource), []).append(
                            Grant(right, within)
                        )
                        granted.append(right)
        return granted


def _matches(patterns: Iterable[str], path: str) -> bool:
    return any(
        path.startswith(each[:-1]) if each.endswith("*") else path == each for each in patterns
    )
