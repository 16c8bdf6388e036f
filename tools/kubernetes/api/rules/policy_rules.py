"""Rules for admission policies and their bindings."""

from __future__ import annotations

import re
from collections.abc import Sequence

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

_ACTIONS = ("Audit", "Deny", "Warn")
_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
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
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_LABEL_1035}')"
)
_MOST_LABEL = 63


def policy(name: str, spec: Document) -> list[str]:
    problems = one_of("spec.failurePolicy", spec.get("failurePolicy"), _FAILURE_POLICIES)
    if spec.get("paramKind") is not None:
        problems += _param_kind("spec.paramKind", spec["paramKind"])
    path, constraints = "spec.matchConstraints", spec.get("matchConstraints")
    if constraints is None:
        problems.append(required(path))
    else:
        problems += _match_resources(path, constraints)
        if not constraints.get("resourceRules"):
            problems.append(required(f"{path}.resourceRules"))
    problems += _match_conditions("spec.matchConditions", spec.get("matchConditions") or ())
    for i, variable in enumerate(spec.get("variables") or ()):
        problems += _variable(f"spec.variables[{i}]", variable)
    validations, annotations = spec.get("validations"), spec.get("auditAnnotations")
    if not validations and not annotations:
        detail = "validations or auditAnnotations must contain at least one item"
        problems.append(required("spec.validations", detail))
        problems.append(required("spec.auditAnnotations", detail))
    for i, validation in enumerate(validations or ()):
        problems += _validation(f"spec.validations[{i}]", validation)
    problems += _audit_annotations("spec.auditAnnotations", name, annotations or ())
    return problems + [
        invalid(f"spec.{path}", text, detail) for path, text, detail in compiled(spec).problems
    ]


def status(status: Document) -> list[str]:
    """Returns the problems of a policy's type checking."""
    problems: list[str] = []
    checking = status.get("typeChecking") or {}
    for i, warning in enumerate(checking.get("expressionWarnings") or ()):
        path = f"status.typeChecking.expressionWarnings[{i}]"
        if not warning.get("warning"):
            problems.append(required(f"{path}.warning"))
        if _is_blank(warning.get("fieldRef")):
            problems.append(required(f"{path}.fieldRef"))
    return problems


def binding(spec: Document) -> list[str]:
    name = spec.get("policyName") or ""
    problems = (
        [invalid("spec.policyName", name, message) for message in dns_subdomain(name)]
        if name
        else [required("spec.policyName")]
    )
    if spec.get("paramRef") is not None:
        problems += _param_ref("spec.paramRef", spec["paramRef"])
    if spec.get("matchResources") is not None:
        problems += _match_resources("spec.matchResources", spec["matchResources"])
    return problems + _actions("spec.validationActions", spec.get("validationActions") or ())


def _is_blank(text: str | None) -> bool:
    return not (text or "").strip()


def _param_kind(path: str, reference: Document) -> list[str]:
    version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
    problems = _group_version(f"{path}.apiVersion", version)
    if not kind:
        return [*problems, required(f"{path}.kind")]
    reasons = ",".join(_dns_1035_label(kind.lower()))
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
    elif reasons := _dns_1035_label(version):
        problems.append(invalid(path, version, ",".join(reasons)))
    return problems


def _dns_1035_label(text: str) -> tuple[str, ...]:
    return (
        *((f"must be no more than {_MOST_LABEL} characters",) if len(text) > _MOST_LABEL else ()),
        *(() if re.fullmatch(_LABEL_1035, text) else (_LABEL_1035_RULE,)),
    )


def _match_resources(path: str, matched: Document) -> list[str]:
    problems = one_of(f"{path}.matchPolicy", matched.get("matchPolicy"), _MATCH_POLICIES)
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(matched.get(field) or ()):
            problems += _rule(f"{path}.{field}[{i}]", rule)
    return problems


def _rule(path: str, rule: Document) -> list[str]:
    problems: list[str] = []
    names = rule.get("resourceNames") or ()
    for i, name in enumerate(names):
        place = f"{path}.resourceNames[{i}]"
        problems += [invalid(place, name, message) for message in path_segment(name)]
        if name in names[:i]:
            problems.append(duplicate(place, name))
    operations = rule.get("operations") or ()
    problems += _values(f"{path}.operations", operations, "operations")
    for i, operation in enumerate(operations):
        problems += one_of(f"{path}.operations[{i}]", operation, _OPERATIONS)
    problems += _values(f"{path}.apiGroups", rule.get("apiGroups") or (), "API groups")
    versions = rule.get("apiVersions") or ()
    problems += _values(f"{path}.apiVersions", versions, "API versions")
    problems += [
        required(f"{path}.apiVersions[{i}]") for i, version in enumerate(versions) if not version
    ]
    problems += _resources(f"{path}.resources", rule.get("resources") or ())
    return problems + one_of(f"{path}.scope", rule.get("scope"), _SCOPES)


def _values(path: str, values: Sequence[str], noun: str) -> list[str]:
    """Checks that there are values, and that * is alone."""
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]
    return []


def _resources(path: str, resources: Sequence[str]) -> list[str]:
    """Checks that no resource is among those that another one with a * stands for."""
    problems = [] if resources else [required(path)]
    whole, anywhere = set[str](), set[str]()  # those of `pods/*`, and those of `*/status`
    for i, text in enumerate(resources):
        place = f"{path}[{i}]"
        if not text:
            problems.append(required(place))
            continue
        resource, slash, subresource = text.partition("/")
        if not slash:
            continue
        if resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {text}"
            problems.append(invalid(place, text, detail))
        if subresource in anywhere:
            detail = f"if '*/{subresource}' is present, must not specify {text}"
            problems.append(invalid(place, text, detail))
        if subresource == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        detail = "if '*/*' is present, must not specify other resources"
        problems.append(invalid(path, resources, detail))
    plain = [text for text in resources if text and "/" not in text]
    if "*" in plain and plain[-1] != "*":  # only the last one counts, as in Kubernetes
        detail = "if '*' is present, must not specify other resources without subresources"
        problems.append(invalid(path, resources, detail))
    return problems


def _match_conditions(path: str, conditions: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    if len(conditions) > _MOST_CONDITIONS:
        problems.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    names = set[str]()
    for i, condition in enumerate(conditions):
        if _is_blank(condition.get("expression")):
            problems.append(required(f"{path}[{i}].expression"))
        name, place = condition.get("name") or "", f"{path}[{i}].name"
        if not name:
            problems.append(required(place))
            continue
        problems += [invalid(place, name, message) for message in qualified_name(name)]
        if name in names:
            problems.append(duplicate(place, name))
        names.add(name)
    return problems


def _variable(path: str, variable: Document) -> list[str]:
    name = variable.get("name") or ""
    problems: list[str] = []
    if _is_blank(name):
        problems.append(required(f"{path}.name", "name is not specified"))
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        problems.append(invalid(f"{path}.name", name, "must be a valid CEL identifier"))
    if _is_blank(variable.get("expression")):
        problems.append(required(f"{path}.expression", "expression is not specified"))
    return problems


def _validation(path: str, validation: Document) -> list[str]:
    problems: list[str] = []
    if _is_blank(validation.get("expression")):
        problems.append(required(f"{path}.expression", "expression is not specified"))
    for field in ("messageExpression", "message"):
        text = validation.get(field)
        if text and _is_blank(text):
            problems.append(invalid(f"{path}.{field}", text, "must be non-empty if specified"))
        elif field == "message" and _LINE_BREAK.search((text or "").strip()):
            problems.append(invalid(f"{path}.{field}", text, "must not contain line breaks"))
    return problems + one_of(f"{path}.reason", validation.get("reason"), _REASONS)


def _audit_annotations(path: str, name: str, annotations: Sequence[Document]) -> list[str]:
    problems: list[str] = []
    if len(annotations) > _MOST_ANNOTATIONS:
        detail = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
        problems.append(invalid(path, annotations, detail))
    keys = set[str]()
    for i, annotation in enumerate(annotations):
        key, place = annotation.get("key") or "", f"{path}[{i}].key"
        full = f"{name}/{key}"
        problems += [invalid(place, full, message) for message in qualified_name(full)]
        expression = (annotation.get("valueExpression") or "").strip()
        if not expression:
            detail = "valueExpression is not specified"
            problems.append(required(f"{path}[{i}].valueExpression", detail))
        elif len(expression.encode()) > _MOST_BYTES:
            detail = f"must not exceed {_MOST_BYTES} bytes in length"
            problems.append(required(f"{path}[{i}].valueExpression", detail))
        if key in keys:
            problems.append(duplicate(place, key))
        keys.add(key)
    return problems


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


def _actions(path: str, actions: Sequence[str]) -> list[str]:
    if not actions:
        return [required(path, "at least one validation action is required")]
    problems: list[str] = []
    for i, action in enumerate(actions):
        if action not in _ACTIONS:
            problems.append(unsupported(f"{path}[{i}]", action, _ACTIONS))
        if action in actions[:i]:
            problems.append(duplicate(f"{path}[{i}]", action))
    if "Deny" in actions and "Warn" in actions:
        detail = (
            "must not contain both Deny and Warn (repeating the same validation failure "
            "information in the API response and headers serves no purpose)"
        )
        problems.append(invalid(path, actions, detail))
    return problems
