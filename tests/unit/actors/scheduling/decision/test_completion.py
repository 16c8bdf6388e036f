"""What is written of the arguments of plugins that are not in-tree."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from berth.actors.scheduling.decision.completion import completed
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.plugin import FilterPlugin, PluginArgs


class Bare(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    least_percent: int = 20
    strict: bool = True
    zones: tuple[str, ...] = ("a",)


class Whole(PluginArgs, frozen=True):
    percent: int = 20
    strict: bool = True


class Judged(FilterPlugin):
    name = "Judged"


@pytest.mark.parametrize(
    ("args_type", "args", "written"),
    [
        (Bare, {}, {"leastPercent": 20, "strict": True, "zones": ["a"]}),
        (
            Bare,
            {"strict": False, "zones": []},
            {"leastPercent": 20, "strict": False, "zones": []},
        ),
        (Whole, {"strict": False}, {"percent": 20, "strict": False}),
        (None, {"any": ["thing"]}, {"any": ["thing"]}),
    ],
)
def test_arguments_are_written_with_their_defaults_and_nothing_is_lost(
    args_type: type[Any] | None, args: dict[str, Any], written: dict[str, Any]
) -> None:
    kind = type("Judged", (Judged,), {"args_type": args_type})
    plugins = {"multiPoint": {"enabled": [{"name": "Judged"}]}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": "Judged", "args": args}]}
    configuration = from_mapping(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )
    document = completed(configuration, {**IN_TREE, "Judged": kind}, DEFAULTS)
    (entry,) = (
        each for each in document["profiles"][0]["pluginConfig"] if each["name"] == "Judged"
    )
    assert {k: v for k, v in entry["args"].items() if k not in ("apiVersion", "kind")} == written
