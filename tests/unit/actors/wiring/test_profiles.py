"""Profiles as they are made from a whole configuration."""

from __future__ import annotations

from berth.actors.wiring.profiles import completed_profiles
from berth.config.load import from_mapping
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration


def read(**fields: object) -> KubeSchedulerConfiguration:
    return from_mapping({"apiVersion": API_VERSION, "kind": KIND, **fields})


def test_a_profile_has_what_it_gets_from_the_rest_of_the_configuration() -> None:
    profiles = completed_profiles(
        read(
            percentageOfNodesToScore=30,
            profiles=[
                {"schedulerName": "a"},
                {"schedulerName": "b", "percentageOfNodesToScore": 0},
            ],
        )
    )
    assert {name: profile.percentage_of_nodes_to_score for name, profile in profiles.items()} == {
        "a": 30,
        "b": 0,
    }
