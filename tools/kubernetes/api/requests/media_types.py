"""The media types of bodies."""

JSON, YAML = "application/json", "application/yaml"

# The ways of a patch.
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
