"""What a swap takes into use while the scheduler runs, and what it leaves for a restart."""

from __future__ import annotations

from berth.actors.wiring.swap import with_live_fields
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration


def read(**fields: object) -> KubeSchedulerConfiguration:
    return from_mapping({"apiVersion": API_VERSION, "kind": KIND, **fields})


def test_only_profiles_and_backoff_are_changed_while_it_runs() -> None:
    running = read(parallelism=3)
    new = read(
        parallelism=4,
        leaderElection={"resourceName": "x"},
        extenders=[{"urlPrefix": "http://h"}],
        podMaxBackoffSeconds=30,
        profiles=[{"schedulerName": "a"}],
    )
    configuration, kept = with_live_fields(running, new)
    assert configuration == read(
        parallelism=3, podMaxBackoffSeconds=30, profiles=[{"schedulerName": "a"}]
    )
    assert kept == ("parallelism", "leaderElection", "extenders")
