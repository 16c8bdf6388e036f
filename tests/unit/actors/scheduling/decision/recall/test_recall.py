"""Recall keeps no more of heavy templates, in bytes, than it may."""

from __future__ import annotations

from random import Random
from weakref import ref

import pytest

from berth.actors.scheduling.decision.recall.recall import MOST_BYTES, MOST_HEAVY
from berth.actors.scheduling.decision.scheduler import Scheduler
from berth.actors.scheduling.model.pod_info import PodInfo
from berth.actors.scheduling.model.pod_template import PodTemplate
from berth.tools.bench.decision import make_cache
from tests.kit.profiles import profile_of
from tests.kit.structs import pod


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.01, MOST_HEAVY), (0.15, MOST_HEAVY), (0.25, 3), (0.6, 1), (1.1, 0)],
)
def test_heavy_templates_without_pods_are_kept_up_to_so_many_bytes(share: float, kept: int) -> None:
    scheduler, profile, snapshot = Scheduler(Random(1)), profile_of(), make_cache(3).snapshot()
    templates: list[ref[PodTemplate]] = []
    for number in range(8):
        annotations = {"number": str(number), "text": "x" * int(MOST_BYTES * share + (1 << 14))}
        info = PodInfo(pod(f"p{number}", annotations=annotations))
        for _ in range(3):
            scheduler.schedule(profile, info, snapshot)
        templates.append(ref(info.template))
    del info
    scheduler.schedule(profile, PodInfo(pod("small")), snapshot)
    assert [template() is not None for template in templates[8 - kept :]] == [True] * kept
    assert [template() is not None for template in templates[: 8 - kept]] == [False] * (8 - kept)
