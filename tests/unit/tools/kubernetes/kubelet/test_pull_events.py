"""What is told about the pulls of images."""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.kubelet.pull_events import first_fields, pulled_message


@pytest.mark.parametrize(
    ("seconds", "took"),
    [
        (0, "0s"),
        (0.0205, "20ms"),
        (1.5, "1.5s"),
        (70, "1m10s"),
        (3600, "1h0m0s"),
        (4096, "1h8m16s"),
    ],
)
def test_the_time_of_a_pull_is_told_as_go_prints_it(seconds: float, took: str) -> None:
    assert pulled_message("x", seconds, 5) == (
        f'Successfully pulled image "x" in {took} ({took} including waiting). Image size: 5 bytes.'
    )


def test_an_image_is_pulled_for_its_first_container() -> None:
    containers = [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]
    spec = {"initContainers": [{"name": "i", "image": "y"}], "containers": containers}
    fields = first_fields({"spec": spec}, ["x", "y"])
    assert fields == {"x": "spec.containers{a}", "y": "spec.initContainers{i}"}
    assert first_fields({"spec": spec}, []) == {}
