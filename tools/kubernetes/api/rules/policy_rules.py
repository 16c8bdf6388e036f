"""Rules for admission policies, validating and mutating, and their bindings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from berth.actors.scheduling.kube.names import dns_subdomain, qualified_name

from ..policy_expressions import compiled
from .fields import (
    Document,
    duplicate,
    forbidden,
    invalid,
    one_of,
    required,
    too_many,
    unsupported,
)
from .role_rules import path_segment
from .value_forms import dns_1035_label

_ACTIONS = ("Audit", "Deny", "Warn")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MUTATING = ("*", "CONNECT", "CREATE", "UPDATE")
REINVOCATION = ("IfNeeded", "Never")
_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_SCOPES = ("*", "Cluster", "Namespaced")
_MISSING_PARAMETER = ("Deny", "Allow")
_MOST_CONDITIONS = 64
_MOST_ANNOTATIONS = 20
_MOST_BYTES = 5 << 10
_LINE_BREAK = re.compile(r"[\n\r]")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for"),
        *("function", "if", "import", "let", "loop", "package", "namespace", "return", "var"),
        *("void", "while"),
    )
)


def policy(document: Document) -> Iterator[str]:
    name, spec = document["metadata"].get("name") or "", document.get("spec") or {}
    yield from _of_any_policy(spec, _match_resources)
    validations, annotations = spec.get("validations"), spec.get("auditAnnotations")
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", detail)
        yield required("spec.auditAnnotations", detail)
    for i, validation in enumerate(validations or ()):
        yield from _validation(f"spec.validations[{i}]", validation)
    yield from _audit_annotations("spec.auditAnnotations", name, annotations or ())
    yield from (
        invalid(f"spec.{path}", text, detail) for path, text, detail in compiled(spec).problems
    )


def policy_status(document: Document) -> list[str]:
    """Returns the problems of the type checking in a policy's status."""
    problems: list[str] = []
    checking = (document.get("status") or {}).get("typeChecking") or {}
    for i, warning in enumerate(checking.get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{i}]"
        if not warning.get("warning"):
            problems.append(required(f"{path}.warning"))
        if _is_blank(warning.get("fieldRef")):
            problems.append(required(f"{path}.fieldRef"))
    return problems


def binding(spec: Document) -> Iterator[str]:
    yield from _policy_name(spec)
    if spec.get("paramRef") is not None:
        yield from _param_ref("spec.paramRef", spec["paramRef"])
    if spec.get("matchResources") is not None:
        yield from _match_resources("spec.matchResources", spec["matchResources"])
    yield from _actions("spec.validationActions", spec.get("validationActions") or ())


def _policy_name(spec: Document) -> Iterator[str]:
    name = spec.get("policyName") or ""
    if not name:
        yield required("spec.policyName")
    else:
        yield from (invalid("spec.policyName", name, message) for message in dns_subdomain(name))


def _of_any_policy(
    spec: Document, matching: Callable[[str, Document], Iterator[str]]
) -> Iterator[str]:
    """Checks what policies of both sorts have. `matching` checks what a policy is asked about."""
    yield from one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        yield from _param_kind("spec.paramKind", spec["paramKind"])
    path, constraints = "spec.matchConstraints", spec.get("matchConstraints")
    if constraints is None:
        yield required(path)
    else:
        yield from matching(path, constraints)
        if not constraints.get("resourceRules"):
            yield required(f"{path}.resourceRules")
    yield from match_conditions("spec.matchConditions", spec.get("matchConditions") or ())
    for i, variable in enumerate(spec.get("variables") or ()):
        yield from _variable(f"spec.variables[{i}]", variable)


def mutating_policy(spec: Document) -> Iterator[str]:
    """Checks a policy that changes objects."""
    yield from _of_any_policy(spec, _mutable)
    if not spec.get("mutations"):
        yield required("spec.mutations", "mutations must contain at least one item")
    for i, mutation in enumerate(spec.get("mutations") or ()):
        yield from _mutation(f"spec.mutations[{i}]", mutation)
    if not spec.get("reinvocationPolicy"):
        yield required("spec.reinvocationPolicy")
    else:
        yield from one_of("spec.reinvocationPolicy", spec["reinvocationPolicy"], REINVOCATION)
    yield from (
        invalid(f"spec.{path}", text, detail) for path, text, detail in compiled(spec).problems
    )


def mutating_binding(spec: Document) -> Iterator[str]:
    yield from _policy_name(spec)
    if spec.get("paramRef") is not None:
        yield from _param_ref("spec.paramRef", spec["paramRef"])
    if spec.get("matchResources") is not None:
        yield from _mutable("spec.matchResources", spec["matchResources"])


def _mutable(path: str, matched: Document) -> Iterator[str]:
    """Checks rules that match no deletion, which cannot be changed."""
    yield from _match_resources(path, matched)
    for rule in matched.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTATING:
                yield unsupported(f"{path}.resourceRules.operations", operation, _MUTATING)


def _mutation(path: str, mutation: Document) -> Iterator[str]:
    type_ = mutation.get("patchType") or ""
    if not type_:
        yield required(f"{path}.patchType")
        return
    if type_ not in _PATCHES:
        yield unsupported(f"{path}.patchType", type_, tuple(_PATCHES))
        return
    own = _PATCHES[type_]
    if (patch := mutation.get(own)) is None:
        yield required(f"{path}.{own}", f"must be specified when patchType is {type_}")
    elif _is_blank(patch.get("expression")):
        yield required(f"{path}.{own}.expression")
    for field in _PATCHES.values():
        if field != own and mutation.get(field) is not None:
            detail = f"must not be specified when patchType is {type_}"
            yield invalid(f"{path}.{field}", f"{{{field}}}", detail)


def _is_blank(text: str | None) -> bool:
    return not (text or "").strip()


def _param_kind(path: str, reference: Document) -> list[str]:
    version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
    problems = _group_version(f"{path}.apiVersion", version)
    if not kind:
        return [*problems, required(f"{path}.kind")]
    reasons = ",".join(dns_1035_label(kind.lower()))
    if reasons:
        detail = f"may have mixed case, but should otherwise match: {reasons}"
        problems.append(invalid(f"{path}.kind", kind, detail))
    return problems


def _group_version(path: str, text: str) -> list[str]:
    if not text:
        return [required(path)]
    if text.count("/") > 1:
        return [invalid(path, text, f"unexpected GroupVersion string: {text}")]
    group, _, version = text.rpartition("/")
    problems: list[str] = []
    if group and (reasons := dns_subdomain(group)):
        problems.append(invalid(path, group, ",".join(reasons)))
    if not version:
        problems.append(invalid(path, text, "version must be specified"))
    elif reasons := dns_1035_label(version):
        problems.append(invalid(path, version, ",".join(reasons)))
    return problems


def _match_resources(path: str, matched: Document) -> Iterator[str]:
    yield from one_of(f"{path}.matchPolicy", matched.get("matchPolicy"), MATCH_POLICIES)
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(matched.get(field) or ()):
            yield from operation_rule(f"{path}.{field}[{i}]", rule)


def operation_rule(path: str, rule: Document) -> Iterator[str]:
    names = rule.get("resourceNames") or ()
    for i, name in enumerate(names):
        place = f"{path}.resourceNames[{i}]"
        yield from (invalid(place, name, message) for message in path_segment(name))
        if name in names[:i]:
            yield duplicate(place, name)
    operations = rule.get("operations") or ()
    yield from _values(f"{path}.operations", operations, "operations")
    for i, operation in enumerate(operations):
        yield from one_of(f"{path}.operations[{i}]", operation, _OPERATIONS)
    yield from _values(f"{path}.apiGroups", rule.get("apiGroups") or (), "API groups")
    versions = rule.get("apiVersions") or ()
    yield from _values(f"{path}.apiVersions", versions, "API versions")
    yield from (
        required(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version
    )
    yield from _resources(f"{path}.resources", rule.get("resources") or ())
    yield from one_of(f"{path}.scope", rule.get("scope"), _SCOPES)


def _values(path: str, values: Sequence[str], noun: str) -> list[str]:
    """Checks that the list is not empty, and that * is its only value."""
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]
    return []


def _resources(path: str, resources: Sequence[str]) -> Iterator[str]:
    """Checks that no resource is repeated by another with a *, which already includes it."""
    if not resources:
        yield required(path)
    whole, anywhere = set[str](), set[str]()  # those of `pods/*`, and those of `*/status`
    for i, text in enumerate(resources):
        place = f"{path}[{i}]"
        if not text:
            yield required(place)
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        if resource in whole:
            yield invalid(place, text, f"if '{resource}/*' is present, must not specify {text}")
        if subresource in anywhere:
            yield invalid(place, text, f"if '*/{subresource}' is present, must not specify {text}")
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":  # only the last one counts, as in Kubernetes
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, resources, detail)


def match_conditions(path: str, conditions: Sequence[Document]) -> Iterator[str]:
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
    names = set[str]()
    for i, condition in enumerate(conditions):
        if _is_blank(condition.get("expression")):
            yield required(f"{path}[{i}].expression")
        name, place = condition.get("name") or "", f"{path}[{i}].name"
        if not name:
            yield required(place)
            continue
        yield from (invalid(place, name, message) for message in qualified_name(name))
        if name in names:
            yield duplicate(place, name)
        names.add(name)


def _variable(path: str, variable: Document) -> Iterator[str]:
    name = variable.get("name") or ""
    if _is_blank(name):
        yield required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
    if _is_blank(variable.get("expression")):
        yield required(f"{path}.expression", "expression is not specified")


def _validation(path: str, validation: Document) -> Iterator[str]:
    if _is_blank(validation.get("expression")):
        yield required(f"{path}.expression", "expression is not specified")
    for field in ("messageExpression", "message"):
        text = validation.get(field)
        if text and _is_blank(text):
            yield invalid(f"{path}.{field}", text, "must be non-empty if specified")
        elif field == "message" and _LINE_BREAK.search((text or "").strip()):
            yield invalid(f"{path}.{field}", text, "must not contain line breaks")
    yield from one_of(f"{path}.reason", validation.get("reason"), _REASONS)


def _audit_annotations(path: str, name: str, annotations: Sequence[Document]) -> Iterator[str]:
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        yield invalid(path, annotations, detail)
    keys = set[str]()
    for i, annotation in enumerate(annotations):
        key, place = annotation.get("key") or "", f"{path}[{i}].key"
        full = f"{name}/{key}"
        yield from (invalid(place, full, message) for message in qualified_name(full))
        expression = (annotation.get("valueExpression") or "").strip()
        if not expression:
            yield required(f"{path}[{i}].valueExpression", "valueExpression is not specified")
        elif len(expression.encode()) > _MOST_BYTES:
            detail = f"must not exceed {_MOST_BYTES} bytes in length"
            yield required(f"{path}[{i}].valueExpression", detail)
        if key in keys:
            yield duplicate(place, key)
        keys.add(key)


def _param_ref(path: str, reference: Document) -> list[str]:
    name, selector = reference.get("name") or "", reference.get("selector")
    problems = [invalid(f"{path}.name", name, message) for message in path_segment(name)]
    if name and selector is not None:
        detail = "name and selector are mutually exclusive"
        problems += [forbidden(f"{path}.{field}", detail) for field in ("name", "selector")]
    if not name and selector is None:
        problems.append(required(path, "one of name or selector must be specified"))
    action = reference.get("parameterNotFoundAction")
    if not action:
        return [*problems, required(f"{path}.parameterNotFoundAction")]
    return problems + one_of(f"{path}.parameterNotFoundAction", action, _MISSING_PARAMETER)


def _actions(path: str, actions: Sequence[str]) -> Iterator[str]:
    if not actions:
        yield required(path, "at least one validation action is required")
        return
    for i, action in enumerate(actions):
        if action not in _ACTIONS:
            yield unsupported(f"{path}[{i}]", action, _ACTIONS)
        if action in actions[:i]:
            yield duplicate(f"{path}[{i}]", action)
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        yield invalid(path, actions, detail)
