"""The media types of bodies."""

from __future__ import annotations

from ..types.api_documents import PROTOBUF

__all__ = ["APPLY", "JSON", "JSON_PATCH", "MERGE", "PROTOBUF", "STRATEGIC", "YAML"]
JSON, YAML = "application/json", "application/yaml"

# The ways of a patch.
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
