"""What the OpenAPI documents say of patches, from which kubectl computes its own."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.types.openapi import document


@pytest.mark.parametrize(
    ("group", "component", "field", "strategy"),
    [
        ("policy/v1", "policy.v1.PodDisruptionBudgetSpec", "selector", ("replace", None)),
        ("apps/v1", "apps.v1.DeploymentSpec", "strategy", ("retainKeys", None)),
        ("apps/v1", "core.v1.PodSpec", "volumes", ("merge,retainKeys", "name")),
        ("apps/v1", "core.v1.PodSpec", "containers", ("merge", "name")),
        ("apps/v1", "core.v1.PodSpec", "tolerations", (None, None)),
    ],
)
def test_how_a_patch_merges_a_field(
    group: str, component: str, field: str, strategy: tuple[str | None, str | None]
) -> None:
    described = document(f"/openapi/v3/apis/{group}")
    assert described is not None
    schema = described["components"]["schemas"][f"io.k8s.api.{component}"]["properties"][field]
    assert strategy == (
        schema.get("x-kubernetes-patch-strategy"),
        schema.get("x-kubernetes-patch-merge-key"),
    )
