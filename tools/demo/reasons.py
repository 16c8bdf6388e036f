"""Why pods are pending at the end of a demo, in the words of `berth explain`."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from berth.config.types import KubeSchedulerConfiguration

from ..explain.answering import Explainer
from ..explain.pending import pending
from ..explain.report import sentence_of
from ..explain.source import SourceError
from ..hollow.embedded import Embedded
from ..page.embedded import objects_of
from .placements import Summary

MOST_PODS = 200  # each is decided
UNFIT = re.compile(r"\d+/\d+ nodes are available: ")  # the beginning of Kubernetes' message


async def with_reasons(
    summary: Summary,
    access: Embedded,
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
