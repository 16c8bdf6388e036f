"""The manager of the fields that a request writes, from its options or its user agent."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ..rules.fields import invalid
from ..types.api_documents import Document, RefusedError
from .list_options import is_on
from .media_types import APPLY

SERVER, CONTROLLERS, KUBELET = "kube-apiserver", "kube-controller-manager", "kubelet"
LONGEST = 128
_REASONS = {
    "Forbidden": "FieldValueForbidden",
    "Invalid value": "FieldValueInvalid",
    "Required value": "FieldValueRequired",
    "Too long": "FieldValueTooLong",
}
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def manager_of_request(
    method: str, query: Mapping[str, str], headers: Mapping[str, str], media_type: str
) -> str:
    """Returns the name of the manager. Raises RefusedError with 422 for invalid options."""
    name = query.get("fieldManager", "")
    problems = []
    if method == "PATCH":
        if media_type == APPLY and not name:
            problems.append("fieldManager: Required value: is required for apply patch")
        elif media_type != APPLY and "force" in query:
            problems.append("force: Forbidden: may not be specified for non-apply patch")
    if name:
        problems += _name_problems(name)
    if problems:
        why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        options = _OPTIONS.get(method, "DeleteOptions")
        details = {"group": "meta.k8s.io", "kind": options, "causes": list(map(_cause, problems))}
        raise RefusedError(422, "Invalid", f'{options}.meta.k8s.io "" is invalid: {why}', details)
    return name or _from_agent(headers.get("user-agent", ""))


def _cause(problem: str) -> Document:
    field, _, message = problem.partition(": ")
    return {"reason": _REASONS[message.partition(":")[0]], "message": message, "field": field}


def is_forced(query: Mapping[str, str]) -> bool:
    """True if an apply takes the fields of other managers."""
    return is_on(query, "force")


def _name_problems(name: str) -> list[str]:
    problems = []
    if len(name.encode()) > LONGEST:
        problems.append(f"fieldManager: Too long: may not be more than {LONGEST} bytes")
    at = 0
    for each in name:
        if not each.isprintable():
            place = f"U+{ord(each):04X} (at position {at})"
            problems.append(invalid("fieldManager", name, f"invalid character {place}"))
        at += len(each.encode())
    return problems


@lru_cache(maxsize=1024)
def _from_agent(agent: str) -> str:
    """Returns the product of a User-Agent, as far as it can be printed and is not too long."""
    product = "".join(filter(str.isprintable, agent.partition("/")[0]))
    while len(product.encode()) > LONGEST:
        product = product[:-1]
    return product
