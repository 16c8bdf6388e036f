"""A trial keeps to its time, also while it looks at the pods of drained nodes."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf

import pytest

from berth.config.feature_gates import DEFAULTS
from berth.config.load import from_mapping
from berth.tools.answers.manifests.manifest_files import STRICT
from berth.tools.answers.whatif.placement import Placing, TooLongError
from berth.tools.answers.whatif.trial import Trial
from berth.tools.answers.whatif.tried_documents import Documents
from tests.kit import documents


def test_the_pods_of_a_drained_node_are_looked_at_while_there_is_time() -> None:
    objects = [documents.node("n"), documents.pod("p", node="n")]
    cluster = Documents(objects, from_mapping(None), DEFAULTS)
    with cluster.trial():
        for until in (inf, 0.0):
            trial = Trial(cluster, Placing(cluster, 1, until), "default", STRICT)
            trial.drained["n"] = {}
            with nullcontext() if until else pytest.raises(TooLongError):
                assert [of.pod for of in trial.returned()] == ["default/p"]
