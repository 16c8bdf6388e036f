"""The refusal of a request whose options are invalid, and the rules that several methods share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..rules.fields import one_of
from ..rules.validation import details_of_kind, message_of_kind
from ..types.api_documents import RefusedError

GROUP = "meta.k8s.io"
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


def options_of(method: str) -> str:
    """Returns the name of the type of a method's options."""
    return _OPTIONS.get(method, "DeleteOptions")


def invalid_options(options: str, problems: list[str]) -> RefusedError:
    """Returns the refusal of options of this type. There is at least one problem."""
    details: dict[str, Any] = details_of_kind(GROUP, options, "", problems)
    return RefusedError(422, "Invalid", message_of_kind(GROUP, options, "", problems), details)


def field_validation(method: str, query: Mapping[str, str]) -> str:
    """Returns the fieldValidation of a request. Raises RefusedError with 422 for an unknown one."""
    value = query.get("fieldValidation") or "Warn"
    problems = one_of("fieldValidation", value, _VALIDATIONS) if method != "DELETE" else []
    if problems:
        raise invalid_options(options_of(method), problems)
    return value
