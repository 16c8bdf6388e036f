"""The answers of packages' plugins about a pod on its chosen node, before it is bound."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.actors.client.extender.calls import manages_resource
from berth.actors.scheduling.decision.outcome import Choice, Outcome
from berth.actors.scheduling.framework.status import Code, Status
from berth.actors.scheduling.plugins.in_tree import IN_TREE

from .decider import Attempt
from .words import listed

DEFAULT_BINDER = "DefaultBinder"


class OnNode(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of a pod on its `node` after the decision.

    Reserve, Permit or PreBindPreFlight of the plugin `rejected_by` refuses it with a `message`; or
    it waits until the Permit plugins `waits_for` permit it. `untried` are those who have a say
    after that, such as "PreBind of Labels": they may write, and are not tried.
    """

    node: str
    rejected_by: str = ""
    message: str = ""
    waits_for: list[str] = []
    untried: list[str] = []

    @property
    def rejected(self) -> bool:
        return bool(self.message)


def on_node(attempt: Attempt, outcome: Outcome) -> OnNode | None:
    """Returns what becomes of a pod on its node; None if the decision has the last word. What
    plugins reserve is undone.
    """
    if not isinstance(outcome, Choice) or not may_refuse(attempt):
        return None
    answer = reserve_and_permit(attempt, outcome)
    if not answer.rejected:
        attempt.profile.unreserve(outcome.state, attempt.info, outcome.node)
    said = answer.rejected or answer.waits_for or answer.untried
    return answer if said else None


def may_refuse(attempt: Attempt) -> bool:
    """True if a plugin of a package, or an extender that binds, may still refuse or delay the
    pod.
    """
    return bool(attempt.profile.of_packages) or any(_binding_extenders(attempt))


def reserve_and_permit(attempt: Attempt, choice: Choice) -> OnNode:
    """Asks the plugins of Reserve, Permit and PreBindPreFlight. What they reserve stays, unless one
    rejects the pod.
    """
    profile, info, node, state = attempt.profile, attempt.info, choice.node, choice.state
    status = profile.reserve(state, info, node)
    if not status.ok:
        return _rejected(status, node)
    status, waits = profile.permit(state, info, node)
    if status.ok or status.code is Code.WAIT:
        status = profile.pre_bind_pre_flight(state, info, node)
        if status.ok or status.code is Code.SKIP:
            return OnNode(
                node, waits_for=sorted(waits), untried=list(_untried_plugins(attempt, choice))
            )
    profile.unreserve(state, info, node)
    return _rejected(status, node)


def words_of(answer: OnNode, several: str, *, now: bool) -> tuple[str, str]:
    """Returns the two parts of a conclusion about a pod that is not simply bound to its node.
    `several` says if other nodes tie with this one. Unless `now`, something else has to happen
    first.
    """
    if answer.rejected:
        by = f" by the plugin {answer.rejected_by}" if answer.rejected_by else ""
        why = f": it is rejected on {answer.node}{several}{by}: {answer.message}"
        return "stays pending" if now else "would stay pending", why
    if answer.waits_for:
        waits = "waits" if now else "would wait"
        return f"{waits} on {answer.node} until {listed(answer.waits_for)} permits it", several
    refuse = f"{listed(answer.untried)} refuses, which is not tried here"
    return f"{'goes' if now else 'would go'} to {answer.node}", f"{several}, unless {refuse}"


def _rejected(status: Status, node: str) -> OnNode:
    return OnNode(node, status.plugin, status.message or status.code.label)


def _untried_plugins(attempt: Attempt, choice: Choice) -> Iterator[str]:
    for plugin in attempt.profile.pre_binders(choice.state):
        if plugin not in IN_TREE:
            yield f"PreBind of {plugin}"
    for extender in _binding_extenders(attempt):
        yield f"Bind of the extender {extender}"
        return
    for plugin in attempt.profile.binders:
        if plugin == DEFAULT_BINDER:
            return
        yield f"Bind of {plugin}"


def _binding_extenders(attempt: Attempt) -> Iterator[str]:
    for extender in attempt.configuration.extenders:
        if extender.bind_verb and manages_resource(extender, attempt.info.pod):
            yield extender.url_prefix
