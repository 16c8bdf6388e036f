"""What makes a CustomResourceDefinition invalid.

Mirrors k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation. Kubernetes reads a
definition whose versions have the same schema as one with a schema for all versions, and names it
so in its messages: spec.validation in place of spec.versions[0].schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from berth.actors.scheduling.kube.names import dns_subdomain

from ...types.api_documents import Document
from ...types.custom_decoding import Metadata, without_unknown
from ...types.structural import RULES, Structural, structural_of
from ..fields import IMMUTABLE, forbidden, invalid, required, too_many, unsupported
from ..value_forms import dns_1035_label
from .open_api_rules import open_api_problems, schema_at
from .schema_rules import problems_under, schema_problems
from .structural_rules import structural_problems

_MOST_SELECTABLE = 8
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    *("byte", "date", "date-time", "double", "float", "int32", "int64"),
    "password",
)
_REVIEWS = ("v1", "v1beta1")
_APPROVED = "api-approved.kubernetes.io"
_PROTECTED = ("k8s.io", "kubernetes.io")
_MIXED = "may have mixed case, but should otherwise match: "
_DROPPED = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in "
    "spec.versions until a storage migration ensures no data remains persisted in {0} and removes "
    "{0} from status.storedVersions"
)
# The words that a schema with a status subresource may have at its root.
_AT_ROOT = frozenset(
    (
        *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum"),
        *("exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems"),
        *("uniqueItems", "multipleOf", "required", "items", "properties", "externalDocs"),
        *("example", "x-kubernetes-preserve-unknown-fields", RULES),
    )
)


def definition_problems(definition: Document, before: Document | None) -> list[str]:
    """Returns the problems of a definition, beyond its metadata."""
    spec = definition.get("spec") or {}
    names, was = spec.get("names") or {}, None if before is None else before["spec"]
    problems = [*_name(definition, spec, names)] if before is None else []
    problems += _spec(spec, names, _rules(was))
    if was is not None:
        problems += _update(spec, was, is_settled=_is_established(before or {}))
    problems += _stored_versions(definition, spec)
    problems += _approval(definition, before)
    if spec.get("preserveUnknownFields") and not (was or {}).get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
        why += "spec.versions[*].schema instead"
        problems.append(invalid("spec.preserveUnknownFields", True, why))
    return problems


def _name(definition: Document, spec: Document, names: Document) -> Iterator[str]:
    name = definition["metadata"].get("name") or ""
    if name and name != f"{names.get('plural') or ''}.{spec.get('group') or ''}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _is_established(definition: Document) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _update(spec: Document, was: Document, *, is_settled: bool) -> Iterator[str]:
    names, old = spec.get("names") or {}, was.get("names") or {}
    if is_settled and spec.get("scope") != was.get("scope"):
        yield invalid("spec.scope", spec.get("scope"), IMMUTABLE)
    if is_settled and names.get("kind") != old.get("kind"):
        yield invalid("spec.names.kind", names.get("kind"), IMMUTABLE)
    if spec.get("group") != was.get("group"):
        yield invalid("spec.group", spec.get("group"), IMMUTABLE)
    if names.get("plural") != old.get("plural"):
        yield invalid("spec.names.plural", names.get("plural"), IMMUTABLE)


def _spec(spec: Document, names: Document, known: frozenset[str]) -> Iterator[str]:
    group = spec.get("group") or ""
    if not group:
        yield required("spec.group")
    elif wrong := dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    yield from _versions(versions, known)
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    yield from _names(names, "spec.names")
    yield from _conversion(spec.get("conversion") or {})


def _versions(versions: list[Document], known: frozenset[str]) -> Iterator[str]:
    same = {
        word: all(each.get(word) == versions[0].get(word) for each in versions)
        for word in ("schema", "subresources", "additionalPrinterColumns", "selectableFields")
    }
    for i, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{i}].schema.openAPIV3Schema")
    for i, version in enumerate(versions):
        path, name = f"spec.versions[{i}]", version.get("name") or ""
        if wrong := dns_1035_label(name):
            yield invalid(f"{path}.name", name, ",".join(wrong))
        yield from _deprecation(version, path)
        # what all versions share is told once
        at = {word: "spec" if is_same else path for word, is_same in same.items()}
        if i == 0 or not same["schema"]:
            place = "spec.validation" if same["schema"] else f"{path}.schema"
            yield from _schema(version, f"{place}.openAPIV3Schema", known)
        if i == 0 or not same["subresources"]:
            yield from _subresources(version, f"{at['subresources']}.subresources")
        if i == 0 or not same["additionalPrinterColumns"]:
            yield from _columns(
                version, f"{at['additionalPrinterColumns']}.additionalPrinterColumns"
            )
        if i == 0 or not same["selectableFields"]:
            yield from _selectable(version, f"{at['selectableFields']}.selectableFields")
    named = [version.get("name") for version in versions]
    if len({*named}) != len(named):
        shown = [_in_go(version, same) for version in versions]
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        shown = [_in_go(version, same) for version in versions]
        yield invalid("spec.versions", shown or None, why)
    first = versions[0].get("name") or "" if versions else ""
    if first and (wrong := dns_1035_label(first)):
        yield invalid("spec.version", first, ",".join(wrong))


def _in_go(version: Document, same: dict[str, bool]) -> Document:
    """Returns a version in the form in which Kubernetes shows it; what all versions share is not in
    it.
    """
    names = ("name", "served", "storage", "deprecated", "deprecationWarning")
    zeros: Document = {"name": "", "deprecationWarning": None}
    shown = {
        each[0].upper() + each[1:]: version.get(each, zeros.get(each, False)) for each in names
    }
    for word in ("schema", "subresources", "additionalPrinterColumns", "selectableFields"):
        shown[word[0].upper() + word[1:]] = None if same[word] else version.get(word)
    return shown


def _deprecation(version: Document, path: str) -> Iterator[str]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    path = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid(path, warning, "can only be set for deprecated versions")
    elif not warning:
        yield invalid(path, warning, "must not be an empty string")
    elif len(warning) > 256:
        yield invalid(path, warning, "must be <= 256 characters long")


def _schema(version: Document, path: str, known: frozenset[str]) -> list[str]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        return []
    problems: list[str] = []
    if "status" in (version.get("subresources") or {}):
        problems += _root_with_status(schema, path)
    if schema.get("nullable"):
        problems.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    structural = structural_problems(schema, path)
    structural = structural or [*_defaults(structural_of(schema), path, is_root=True)]
    return [
        *problems,
        *structural,
        *open_api_problems(schema, path, known, is_structural=not structural),
    ]


def _root_with_status(schema: Document, path: str) -> Iterator[str]:
    if schema.get("type") and schema["type"] != "object":
        why = 'only "object" is allowed as the type at the root of the schema if the status '
        yield invalid(f"{path}.type", schema["type"], f"{why}subresource is enabled")
    elif any(word not in _AT_ROOT for word, value in schema.items() if value):
        why = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum "
        why += "ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems "
        why += "MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
        why += "XValidations] fields are allowed at the root of the schema if the status "
        yield invalid(path, schema, f"{why}subresource is enabled")


def _defaults(schema: Structural, path: str, *, is_root: bool = False) -> Iterator[str]:
    """Yields the problems of defaults, which must be valid and have no unknown fields."""
    if "default" in schema.schema:
        default, at = schema.schema["default"], f"{path}.default"
        if isinstance(default, dict) and not is_root:
            pruned, unknown = without_unknown(default, schema)
            if unknown or pruned != default:
                yield invalid(at, default, "must not have unknown fields")
            metadata = Metadata()
            if schema.is_embedded:
                metadata.read(default, schema)
            if metadata.problem:
                yield f"{at}.{metadata.problem}"
        yield from problems_under(at, schema_problems(schema.schema, default))
    if schema.item is not None:
        yield from _defaults(schema.item, f"{path}.items")
    for name, below in schema.fields.items():
        yield from _defaults(below, f"{path}.properties[{name}]")


def _subresources(version: Document, path: str) -> Iterator[str]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    for field, under in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        text, place = scale.get(field) or "", f"{path}.scale.{field}"
        if not text:
            yield required(place)
        elif not text.startswith("."):
            yield invalid(place, text, "must be a simple json path starting with .")
        elif not text.startswith(under):
            yield invalid(place, text, f"should be a json path under {under.rstrip('.')}")
    text, place = scale.get("labelSelectorPath") or "", f"{path}.scale.labelSelectorPath"
    if text and not text.startswith("."):
        yield invalid(place, text, "must be a simple json path starting with .")
    elif text and not text.startswith((".spec.", ".status.")):
        yield invalid(place, text, "should be a json path under either .spec or .status")


def _columns(version: Document, path: str) -> Iterator[str]:
    types, forms = ",".join(_COLUMN_TYPES), ",".join(_COLUMN_FORMATS)
    for i, column in enumerate(version.get("additionalPrinterColumns") or ()):
        at, type_ = f"{path}[{i}]", column.get("type") or ""
        if not column.get("name"):
            yield required(f"{at}.name")
        if not type_:
            yield required(f"{at}.type", f"must be one of {types}")
        elif type_ not in _COLUMN_TYPES:
            yield invalid(f"{at}.type", type_, f"must be one of {types}")
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            yield invalid(f"{at}.format", column["format"], f"must be one of {forms}")
        text = column.get("jsonPath") or ""
        if not text:
            yield required(f"{at}.JSONPath")
        elif not text.startswith("."):
            yield invalid(f"{at}.JSONPath", text, "must be a simple json path starting with .")


def _selectable(version: Document, path: str) -> Iterator[str]:
    fields = version.get("selectableFields") or ()
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    seen = set[str]()
    for i, field in enumerate(fields):
        text, at = field.get("jsonPath") or "", f"{path}[{i}].jsonPath"
        if not text:
            yield required(at)
            continue
        found = schema_at(schema, text)
        if found is None:
            yield invalid(at, text, "is an invalid path: does not refer to a valid field")
            continue
        if text.startswith(".metadata"):
            yield invalid(at, text, "must not point to fields in metadata")
        if found.get("type") not in ("string", "boolean", "integer"):
            why = "must point to a field of type string, boolean or integer. Enum string fields "
            yield invalid(at, text, f"{why}and strings with formats are allowed.")
        if text in seen:
            yield f'{at}: Duplicate value: "{text}"'
        seen.add(text)
    if len(seen) > _MOST_SELECTABLE:
        yield too_many(path, len(seen), _MOST_SELECTABLE)


def _names(names: Document, path: str) -> Iterator[str]:
    for field in ("plural", "singular"):
        text = names.get(field) or ""
        if text and (why := dns_1035_label(text)):
            yield invalid(f"{path}.{field}", text, ",".join(why))
    for field in ("kind", "listKind"):
        text = names.get(field) or ""
        if text and (why := dns_1035_label(text.lower())):
            yield invalid(f"{path}.{field}", text, _MIXED + ",".join(why))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid(
            f"{path}.listKind", names["listKind"], "kind and listKind may not be the same"
        )
    for field in ("shortNames", "categories"):
        for i, text in enumerate(names.get(field) or ()):
            if why := dns_1035_label(text):
                yield invalid(f"{path}.{field}[{i}]", text, ",".join(why))


def _conversion(conversion: Document) -> Iterator[str]:
    path, strategy = "spec.conversion", conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield unsupported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy != "Webhook":
        for field, value in (
            ("webhookClientConfig", client),
            ("conversionReviewVersions", reviews),
        ):
            if value:
                why = "should not be set when strategy is not set to Webhook"
                yield forbidden(f"{path}.{field}", why)
        return
    if client is None:
        why = "required when strategy is set to Webhook"
        yield required(f"{path}.webhookClientConfig", why)
    elif (client.get("url") is None) == (client.get("service") is None):
        why = "exactly one of url or service is required"
        yield required(f"{path}.webhookClientConfig", why)
    if not reviews:
        yield required(f"{path}.conversionReviewVersions")
    elif not {*reviews} & {*_REVIEWS}:
        why = f"must include at least one of {', '.join(_REVIEWS)}"
        yield invalid(f"{path}.conversionReviewVersions", reviews, why)


def _stored_versions(definition: Document, spec: Document) -> Iterator[str]:
    stored = (definition.get("status") or {}).get("storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
    names = {version.get("name") for version in spec.get("versions") or ()}
    for version in spec.get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            yield invalid(path, stored, f"must have the storage version {version.get('name')}")
    for i, name in enumerate(stored):
        if name not in names:
            yield invalid(f"{path}[{i}]", name, _DROPPED.format(name))


def _approval(definition: Document, before: Document | None) -> Iterator[str]:
    group = (definition.get("spec") or {}).get("group") or ""
    if not any(group == each or group.endswith(f".{each}") for each in _PROTECTED):
        return
    state, text = _approval_state(definition)
    if before is not None and _approval_state(before)[0] == state:
        return
    path, link = f"metadata.annotations[{_APPROVED}]", "https://github.com/kubernetes/enhancements/"
    why = f'protected groups must have approval annotation "{_APPROVED}"'
    if state == "missing":
        yield required(path, f"{why}, see {link}pull/1111")
    elif state == "invalid":
        more = 'with either a URL or a reason starting with "unapproved"'
        yield invalid(path, text, f"{why} {more}, see {link}pull/1111")


def _approval_state(definition: Document) -> tuple[str, str]:
    text: str = (definition["metadata"].get("annotations") or {}).get(_APPROVED) or ""
    if not text:
        return "missing", text
    parts = urlsplit(text)
    good = text.startswith("unapproved") or (parts.scheme and parts.netloc)
    return ("good" if good else "invalid"), text


def _rules(spec: Document | None) -> frozenset[str]:
    """Returns the expressions of the rules of a definition."""
    return frozenset(_told(spec)) if spec is not None else frozenset()


def _told(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _told(each)
    elif isinstance(value, dict):
        for rule in value.get(RULES) or ():
            if isinstance(rule, dict):
                yield from (rule.get(field) or "" for field in ("rule", "messageExpression"))
        for each in value.values():
            yield from _told(each)
