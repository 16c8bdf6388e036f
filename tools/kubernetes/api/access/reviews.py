"""The reviews of users and their rights, such as SubjectAccessReviews."""

from __future__ import annotations

from ..rules.fields import invalid
from ..store import Store
from ..types.api_documents import Document, RefusedError
from .checks import check_types, refuse_problems
from .rights import Act, authorize, grants, may_all
from .tokens import ISSUER, bearer_of
from .users import Requester

_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_OF_RESOURCES = ("verbs", "apiGroups", "resources", "resourceNames")
RIGHTS = "authorization.k8s.io"
_OF_PATHS = ("verbs", "nonResourceURLs")


def review(
    store: Store, user: Requester, kind: str, namespace: str, document: Document
) -> Document:
    """Answers a review of this kind that a user sent. Raises RefusedError."""
    check_types(kind, document)
    spec: Document = document.get("spec") or {}
    match kind:
        case "TokenReview":
            status = _authenticated(store, spec)
        case "SelfSubjectReview":
            status = {"userInfo": user.info()}
        case "SelfSubjectRulesReview":
            status = _rules(store, user, spec)
        case _:
            status = _access(store, user, kind, namespace, document)
    return {"metadata": {}, **document, "status": status}


def _authenticated(store: Store, spec: Document) -> Document:
    token = spec.get("token", "")
    if not token:
        why = "token is required for TokenReview in authentication"
        raise RefusedError(400, "BadRequest", why)
    try:
        user, audiences = bearer_of(store, token, spec.get("audiences") or [ISSUER])
    except RefusedError:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.info(), "audiences": audiences}


def _rules(store: Store, user: Requester, spec: Document) -> Document:
    namespace = spec.get("namespace")
    if not namespace:
        raise RefusedError(400, "BadRequest", "no namespace on request")
    if may_all(store, user):
        return dict(_EVERYTHING)
    of_resources, of_paths, problems = [], [], []
    for grant in grants(store, user, namespace):
        if grant.problem:
            problems.append(grant.problem)
        for rule in grant.rules:
            if rule.get("resources"):
                of_resources.append(
                    {field: rule[field] for field in _OF_RESOURCES if field in rule}
                )
            if rule.get("nonResourceURLs"):
                of_paths.append({field: rule[field] for field in _OF_PATHS if field in rule})
    error = {"evaluationError": "; ".join(problems)} if problems else {}
    return {
        "resourceRules": of_resources,
        "nonResourceRules": of_paths,
        "incomplete": bool(problems),
        **error,
    }


def _access(
    store: Store, user: Requester, kind: str, namespace: str, document: Document
) -> Document:
    spec: Document = document.get("spec") or {}
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    asks_for_other = kind != "SelfSubjectAccessReview"
    problems = []
    if resource is not None and other is not None:
        why = "cannot be specified in combination with resourceAttributes"
        problems.append(invalid("spec.nonResourceAttributes", _in_go(other), why))
    if resource is None and other is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        problems.append(invalid("spec.resourceAttributes", None, why))
    if asks_for_other and not spec.get("user") and not spec.get("groups"):
        problems.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    if kind == "LocalSubjectAccessReview":
        where = (resource or {}).get("namespace", "")
        if resource is not None and where != namespace:
            path = "spec.resourceAttributes.namespace"
            problems.append(invalid(path, where, "must match metadata.namespace"))
        if other is not None:
            why = "disallowed on this kind of request"
            problems.append(invalid("spec.nonResourceAttributes", _in_go(other), why))
    # As in Kubernetes, whose refusals do not name the kind of the review.
    refuse_problems("", (document.get("metadata") or {}).get("name", ""), problems, RIGHTS)
    if asks_for_other:
        user = Requester(
            spec.get("user") or "",
            spec.get("uid") or "",
            tuple(spec.get("groups") or ()),
            spec.get("extra") or {},
        )
    verdict = authorize(store, user, _act(resource or {}, other))
    answer: Document = {"allowed": verdict.allowed}
    if verdict.reason:
        answer["reason"] = verdict.reason
    return answer


def _in_go(other: Document) -> Document:
    """Returns the attributes of a path by the names of Go's struct, which refusals show."""
    return {"Path": other.get("path") or "", "Verb": other.get("verb") or ""}


def _act(resource: Document, other: Document | None) -> Act:
    if other is not None:
        return Act(other.get("verb") or "", path=other.get("path") or "")
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Act(**{field: resource.get(field) or "" for field in fields})
