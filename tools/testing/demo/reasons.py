"""Why pods are pending at the end of a demo, in the words of `berth explain`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from berth.config.types import KubeSchedulerConfiguration

from ...answers.explain.cluster_source import SourceError
from ...answers.explain.decider import Explainer
from ...answers.explain.decision_report import sentence_of
from ...answers.explain.pending_pods import pending
from ...cluster.controllers.embedded_access import EmbeddedAccess
from .page_source import objects_of
from .placements import Summary

MOST_PODS = 200  # each is decided
UNFIT = re.compile(r"\d+/\d+ nodes are available: ")  # the beginning of Kubernetes' message


async def with_reasons(
    summary: Summary,
    access: EmbeddedAccess,
    configuration: KubeSchedulerConfiguration,
    gates: Mapping[str, bool],
) -> Summary:
    """Returns the summary with a sentence for each pod that fits nowhere, unless there are too
    many.
    """
    unfit = [row for row in summary.pods if UNFIT.match(row.message)]
    if not unfit or summary.pending > MOST_PODS:
        return summary
    objects = await objects_of(access)
    try:
        pods = pending(Explainer(configuration, gates), configuration, objects, None).pods
    except SourceError:
        return summary
    told = {(pod.namespace, pod.name): sentence_of(pod.standing, pod.decision) for pod in pods}
    rows = [
        msgspec.structs.replace(row, sentence=told.get((row.namespace, row.name), ""))
        if row in unfit
        else row
        for row in summary.pods
    ]
    return msgspec.structs.replace(summary, pods=rows)
