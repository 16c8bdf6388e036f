"""What would change the decision about a pending pod, and whether it does."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import msgspec

from berth.config.load import from_mapping
from berth.tools.answers.explain.changes.change import Suggestion
from berth.tools.answers.explain.changes.proof_search import is_pending, search
from berth.tools.answers.explain.changes.world import edited
from berth.tools.answers.explain.cluster_source import ClusterQuestion
from berth.tools.answers.explain.decider import Explainer, decided
from berth.tools.answers.explain.decision import Decision, Failure
from berth.tools.answers.explain.tried_cluster import asked
from tests.kit.documents import Document

CONFIGURATION = from_mapping(None)
EXPLAINER = Explainer(CONFIGURATION)


def suggested(objects: Sequence[Document], pod: Document) -> list[Suggestion] | None:
    """Returns what would change the decision, None if the pod is not pending. The search has to
    leave the cluster as it was.
    """
    question = ClusterQuestion(pod, list(objects), CONFIGURATION)
    of = asked(EXPLAINER, question)
    explained = decided(of.attempt)
    if not is_pending(of, explained.decision):
        return None
    result = search(of, explained.outcome, inf)
    again = decided(of.attempt).decision
    # Among equally important victims, the last to come to the node counts, also if it came back.
    assert _without_victims(again) == _without_victims(explained.decision)
    return result.suggestions


def fits_after(
    change: Suggestion,
    objects: Sequence[Document],
    pending: Document,
    explainer: Explainer | None = None,
) -> list[str]:
    """Returns the nodes that the pod fits on, sorted, once the objects are read again after the
    change; none if it still has a gate.
    """
    documents = {_place(document): document for document in (*objects, pending)}
    for edit in change.edits:
        result = edited(edit, documents.pop(edit.place, None))
        if result is not None:
            documents[edit.place] = result
    changed = documents.pop(_place(pending))
    if changed["spec"].get("schedulingGates"):
        return []
    question = ClusterQuestion(changed, list(documents.values()), CONFIGURATION)
    decision = decided((explainer or Explainer(CONFIGURATION)).attempt(question)).decision
    assert not isinstance(decision, Failure), decision
    assert bool(decision.hosts) == bool(decision.total)
    return sorted(decision.total)


def _place(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace") or "", metadata["name"]


def _without_victims(decision: Decision | Failure) -> Decision | Failure:
    if isinstance(decision, Failure):
        return decision
    return msgspec.structs.replace(decision, preemption=None)
