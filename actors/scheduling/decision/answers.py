"""The checks of a plugin's answers at each extension point, and the messages about invalid ones.

Plugins are other people's code, and Python checks no types. A forgotten `return` must show at the
plugin, and not later in the queue or in an array of scores. Every check raises WrongAnswerError
with the expected and the actual answer.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence, Set
from math import isnan
from numbers import Real

import numpy as np
from msgspec.structs import replace

from ..framework.events import KINDS, Action, ClusterEvent, Concerns, Hint, Registration, Resource
from ..framework.interface import MAX_NODE_SCORE, PreFilterResult
from ..framework.post_filter import Deletion, FailedAttempt, Nomination, Patch, PostFiltered
from ..framework.questions import Pause, PreemptVictims
from ..framework.status import SKIP, SUCCESS, Code, Status, encodable
from ..framework.verdicts import Verdicts
from ..model.pod_info import PodInfo
from ..model.snapshot import NodeView
from ..model.vectors import Bools, Ints, highest

MOST_NODE_SCORE = 1 << 62
MOST_REASONS = 1_000  # of a status: people read them
_repr = reprlib.Repr()
_repr.maxother = _repr.maxstring = 120


class WrongAnswerError(Exception):
    """An invalid answer of a plugin; the message has the expected and the actual answer."""


class ScoreRangeError(WrongAnswerError):
    """A final score that is out of range."""


def expected(what: str, came: object) -> WrongAnswerError:
    return WrongAnswerError(f"expected {what}, got {_shown(came)}")


def _shown(value: object) -> str:
    """Returns the repr of a value, shortened; the name of the type if the repr fails."""
    if type(value) is np.ndarray:
        return f"{value.dtype} {value.shape}"
    try:
        return _repr.repr(value)
    except BaseException as exception:
        if isinstance(exception, KeyboardInterrupt):
            raise
        return f"a {type(value).__name__} that cannot be shown"


def as_status(answer: object, what: str = "a Status") -> Status:
    """Returns the answer if it is a Status. Raises WrongAnswerError, often for a forgotten
    `return`; `what` is expected in its words.
    """
    if answer is SUCCESS or answer is SKIP:
        return answer
    if not isinstance(answer, Status):
        raise expected(what, answer)
    code: object = answer.code
    if not isinstance(code, Code):
        raise expected("a Status with a Code", code)
    reasons = as_reasons(answer.reasons)
    if reasons is answer.reasons and type(answer) is Status:
        return answer
    return Status(code, reasons, answer.plugin)  # properties of another class may raise


def as_reasons(reasons: object) -> tuple[str, ...]:
    """Returns the reasons in a form that can be written anywhere."""
    if not isinstance(reasons, tuple) or not all(isinstance(reason, str) for reason in reasons):
        raise expected("reasons as a tuple of strings", reasons)
    if len(reasons) > MOST_REASONS:
        raise expected(f"{MOST_REASONS} reasons at most", len(reasons))
    if all(type(reason) is str and reason.isascii() for reason in reasons):
        return reasons
    return tuple(map(encodable, reasons))


def node_names_of(answer: PreFilterResult) -> frozenset[str] | None:
    names: object = answer.node_names
    if names is None or isinstance(names, frozenset):
        return names
    if isinstance(names, set):
        return frozenset(names)
    raise expected("node_names as a frozenset of names", names)


def as_verdicts(answer: object, nodes: NodeView, _hook: object = None) -> Verdicts:
    """Returns the answer if it is Verdicts of the right size. The codes are checked later, when
    they are used.
    """
    if not isinstance(answer, Verdicts):
        raise expected("Verdicts, or None where every node passes", answer)
    for name, array in (("codes", answer.codes), ("keys", answer.keys)):
        if not _is_vector(array, nodes.size, "iu"):
            raise expected(f"{name} of {nodes.size} nodes as integers", array)
    codes = answer.codes
    if codes.dtype.itemsize > 1:  # those that do not fit into int8 would be others there
        for position in np.flatnonzero(codes.astype(np.int8) != codes)[:1].tolist():
            wrong = expected("the code of Success or of a rejection", int(codes[position]))
            raise WrongAnswerError(f"{wrong} (node {nodes.name(position)})")
    return answer


def as_passing(answer: Bools | None, nodes: NodeView, _hook: object = None) -> Bools | None:
    if answer is not None and not _is_vector(answer, nodes.size, "b"):
        raise expected(f"a bool for each of {nodes.size} nodes, or None", answer)
    return answer


def as_raw_scores(answer: Ints, nodes: NodeView, _hook: object = None) -> Ints:
    """Returns int64[nodes.size]: the scores before normalisation."""
    if type(answer) is np.ndarray and answer.dtype == np.int64 and answer.shape == (nodes.size,):
        return answer
    if not _is_vector(answer, nodes.size, "iu"):
        raise expected(f"an integer for each of {nodes.size} nodes", answer)
    return answer.astype(np.int64)


def _is_vector(array: object, size: int, kinds: str) -> bool:
    """True for an array of this form. Other classes of arrays have operations of their own."""
    return type(array) is np.ndarray and array.shape == (size,) and array.dtype.kind in kinds


def as_raw_score(answer: object, _about: object = None, _hook: object = None) -> int:
    """Returns the score of a node before normalisation, which may be a fraction."""
    if isinstance(answer, int | np.integer) or (
        isinstance(answer, float | np.floating) and not isnan(answer)
    ):
        return answer  # type: ignore[return-value]  # the type leaves out fractions and numpy's numbers
    raise expected("a number", answer)


def as_final_scores(answer: Ints, nodes: NodeView, _hook: object = None) -> Ints:
    """Returns the scores of a plugin that does not normalise them."""
    return check_range(as_raw_scores(answer, nodes), nodes)


def as_normalized(answer: object, raw: tuple[object, NodeView], _hook: object = None) -> Ints:
    """Returns the scores of nodes as int64[nodes.size], given the raw scores and the nodes."""
    nodes = raw[1]
    scores = answer if type(answer) is np.ndarray else np.asarray(answer)
    if scores.shape != (nodes.size,):
        raise expected(f"a score for each of {nodes.size} nodes", answer)
    if scores.dtype.kind not in "iu":
        for position, score in enumerate(scores.tolist()):
            if type(score) is not int:
                raise WrongAnswerError(
                    f"expected an integer, got {_shown(score)} (node {nodes.name(position)})"
                )
        scores = np.clip(scores, -MOST_NODE_SCORE, MOST_NODE_SCORE)  # some may not fit into 64 bits
    return check_range(scores.astype(np.int64, copy=False), nodes)


def check_range(scores: Ints, nodes: NodeView) -> Ints:
    """Returns the final scores if they are in range; the message is kube-scheduler's."""
    if (
        nodes.size and highest(scores.view(np.uint64)) > MAX_NODE_SCORE
    ):  # a negative number is large when read without its sign
        position = int(((scores < 0) | (scores > MAX_NODE_SCORE)).argmax())
        limits = f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        raise ScoreRangeError(
            f"returns an invalid score {scores[position]}, {limits} (node {nodes.name(position)})"
        )
    return scores


def as_permission(answer: object) -> tuple[Status, float]:
    """Returns the status, and the seconds of a WAIT."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise expected("a Status and seconds, as a pair", answer)
    status, seconds = as_status(answer[0]), answer[1]
    if status.code is not Code.WAIT:
        return status, 0.0
    if not _is_number(seconds) or seconds < 0:
        raise expected("seconds to wait, from 0", seconds)
    return status, float(seconds)


def as_question(question: object) -> PreemptVictims | Pause:
    """Returns the question, if a plugin may yield it."""
    if not isinstance(question, (PreemptVictims, Pause)):
        raise expected("PreemptVictims to be asked", question)
    return question


def _is_number(value: object) -> bool:
    """True for real numbers except NaN, which is not equal to itself."""
    return isinstance(value, Real) and value == value


def as_hint(answer: object) -> Hint:
    if not isinstance(answer, Hint):
        raise expected("Hint.QUEUE or Hint.SKIP", answer)
    return answer


def as_keys(answer: object) -> tuple[str, ...]:
    """Returns the answer if it is the keys of a pod or of a change."""
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise expected("strings as keys", answer)
    keys = tuple(answer)
    if not all(isinstance(key, str) for key in keys):
        raise expected("strings as keys", answer)
    return tuple(map(encodable, keys))


def as_registrations(answer: object, others: Set[str]) -> tuple[Registration, ...]:
    """Returns the registrations. `others` are the names of the kinds whose events happen besides
    those of Resource. Raises WrongAnswerError.
    """
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        raise expected("a sequence of Registration", answer)
    for registration in answer:
        if not isinstance(registration, Registration):
            raise expected("a sequence of Registration", registration)
        event: object = registration.event
        if not isinstance(event, ClusterEvent):
            raise expected("a Registration of a ClusterEvent", event)
        resource: object = event.resource
        if not isinstance(resource, str) or not isinstance(event.action, Action):
            raise expected("a ClusterEvent of a Resource and an Action", (resource, event.action))
        if not isinstance(resource, Resource) and (resource in KINDS or "/" in resource):
            raise expected("a member of Resource, or the name of a kind that it lacks", resource)
        if not isinstance(resource, Resource) and resource not in others:
            raise expected("a ClusterEvent of a kind that is in lookups, by its name", resource)
        if registration.hint is not None and not callable(registration.hint):
            raise expected("a Registration with a hint function or None", registration.hint)
        concerns: object = registration.concerns
        if concerns is not None and not isinstance(concerns, Concerns):
            raise expected("a Registration with Concerns or None", concerns)
    return tuple(answer)


def _check_patch(patch: Patch | Deletion) -> None:
    kind: object = patch.kind
    if not isinstance(kind, type):
        raise expected(f"a {type(patch).__name__} with the type of a kind", kind)
    if isinstance(patch, Deletion):
        for text in (patch.name, patch.namespace, patch.uid):
            written: object = text
            if not isinstance(written, str):
                raise expected("a Deletion with strings as name, namespace and uid", written)
        return
    for text in (patch.name, patch.namespace, patch.subresource):
        content: object = text
        if not isinstance(content, str):
            raise expected("a Patch with strings as name, namespace and subresource", content)
    changes: object = patch.changes
    if not isinstance(changes, Mapping):
        raise expected("a Patch with a mapping as changes", changes)


def as_post_filtered(answer: object, attempt: FailedAttempt, _hook: object = None) -> PostFiltered:
    """Returns the answer of a PostFilter plugin about an attempt, if it is valid."""
    if not isinstance(answer, PostFiltered):
        raise expected("PostFiltered", answer)
    status = as_status(answer.status)
    if status is not answer.status:
        answer = replace(answer, status=status)
    patches: object = answer.patches
    if not isinstance(patches, tuple) or not all(
        isinstance(patch, Patch | Deletion) for patch in patches
    ):
        raise expected("patches as a tuple of Patch and Deletion", patches)
    for patch in patches:
        _check_patch(patch)
    rejected_by: object = answer.rejected_by
    if not isinstance(rejected_by, frozenset) or not all(
        isinstance(name, str) for name in rejected_by
    ):
        raise expected("rejected_by as a frozenset of names of plugins", rejected_by)
    nomination: object = answer.nomination
    if nomination is None:
        return answer
    if not isinstance(nomination, Nomination):
        raise expected("a Nomination, or None", nomination)
    node: object = nomination.node
    if not isinstance(node, str) or node not in attempt.snapshot.columns.row_of:
        raise expected("a nomination to a node of the cluster", node)
    for name, pods in (("victims", nomination.victims), ("displaced", nomination.displaced)):
        if not isinstance(pods, tuple) or not all(isinstance(pod, PodInfo) for pod in pods):
            raise expected(f"{name} as a tuple of PodInfo", pods)
    return answer
