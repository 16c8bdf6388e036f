"""The pods between Permit and Bind in random histories, against a model that keeps each pod's whole
story.
"""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from berth.actors.binding.state import MOST_WAIT_SECONDS, PodsInBinding
from berth.actors.scheduling.framework.status import SUCCESS, Code, Status, error
from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.model.pod_info import PodInfo
from tests.kit.examples import examples

UIDS = st.sampled_from(["u1", "u2", "u3"])
PLUGINS = st.sampled_from(["A", "B", "C"])


def make_info(uid: str) -> PodInfo:
    return PodInfo(msgspec.convert({"metadata": {"namespace": "ns", "name": uid, "uid": uid}}, Pod))


class Story(msgspec.Struct):
    """When each plugin gives up, which plugins have allowed the pod, and the first verdict."""

    until: dict[str, float]
    seconds: dict[str, float]
    allowed: set[str] = msgspec.field(default_factory=set)
    verdict: Status | None = None
    woken: int = 0
    pre_bind: bool = False

    @property
    def open(self) -> bool:
        return self.verdict is None and not self.pre_bind

    @property
    def holding(self) -> list[str]:
        return [plugin for plugin in self.until if plugin not in self.allowed]


class BindingHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pods = PodsInBinding()
        self.now = 0.0
        self.stories: dict[str, Story] = {}

    def watched(self, uid: str) -> None:
        def wake(story: Story) -> None:
            story.woken += 1

        story = self.stories[uid]
        self.pods.wake_by(uid, lambda: wake(story))

    @rule(
        uid=UIDS, waits=st.dictionaries(PLUGINS, st.sampled_from([1.0, 10.0, 10_000.0]), min_size=1)
    )
    def waits(self, uid: str, waits: dict[str, float]) -> None:
        if uid in self.stories:
            return
        self.pods.wait(make_info(uid), "n", waits, self.now)
        seconds = {plugin: min(wait, MOST_WAIT_SECONDS) for plugin, wait in waits.items()}
        self.stories[uid] = Story(
            {plugin: self.now + wait for plugin, wait in seconds.items()}, seconds
        )
        self.watched(uid)

    @rule(uid=UIDS, plugin=PLUGINS)
    def allowed(self, uid: str, plugin: str) -> None:
        story = self.stories.get(uid)
        last = story is not None and story.open and story.holding == [plugin]
        assert self.pods.allow(uid, plugin) == last
        if story is not None and story.open and plugin in story.until:
            story.allowed.add(plugin)
            story.verdict = SUCCESS if last else None

    @rule(uid=UIDS, plugin=PLUGINS)
    def rejected(self, uid: str, plugin: str) -> None:
        story = self.stories.get(uid)
        assert self.pods.reject(uid, plugin, "no") == (story is not None and story.open)
        if story is not None and story.open:
            story.verdict = Status(Code.UNSCHEDULABLE, ("no",), plugin)

    @rule(uid=UIDS, plugin=PLUGINS)
    def preempted(self, uid: str, plugin: str) -> None:
        story = self.stories.get(uid)
        assert self.pods.preempt(uid, plugin, "preempted") == (story is not None)
        if story is not None and (story.verdict is None or story.verdict.ok):
            told = (
                f"preempted by {plugin}"
                if story.pre_bind
                else "waiting on permit for pod: preempted"
            )
            story.verdict = error(told).by(plugin)

    @rule(uid=UIDS, seconds=st.sampled_from([0.5, 5.0, 1000.0]))
    def time_passes(self, uid: str, seconds: float) -> None:
        self.now += seconds
        story = self.stories.get(uid)
        late = (
            []
            if story is None
            else [plugin for plugin in story.holding if story.until[plugin] <= self.now]
        )
        expired = story is not None and story.open and bool(late)
        assert self.pods.expire(uid, self.now) == expired
        if story is not None and expired:
            plugin = min(late)
            shown = {1.0: "1s", 10.0: "10s", MOST_WAIT_SECONDS: "15m0s"}[story.seconds[plugin]]
            message = f"rejected due to timeout after waiting {shown} at plugin {plugin}"
            story.verdict = Status(Code.UNSCHEDULABLE, (message,), plugin)

    @rule(uid=UIDS)
    def taken(self, uid: str) -> None:
        """The binding cycle reads its verdict, and goes on to PreBind or ends."""
        story = self.stories.get(uid)
        if story is None or story.pre_bind:
            return
        assert self.pods.take(uid) == story.verdict
        if story.verdict is None:
            assert self.pods.deadline(uid) == min(story.until[plugin] for plugin in story.holding)
            return
        assert story.woken == 1
        del self.stories[uid]
        if story.verdict.ok:
            self.stories[uid] = new = Story({}, {}, pre_bind=True)

            def cancel() -> None:
                new.woken += 1

            self.pods.start_pre_bind(uid, cancel)

    @rule(uid=UIDS)
    def pre_bound(self, uid: str) -> None:
        story = self.stories.get(uid)
        if story is None or not story.pre_bind:
            return
        assert self.pods.finish_pre_bind(uid) == (story.verdict or SUCCESS)
        assert story.woken == (story.verdict is not None), "a verdict cancels once"
        del self.stories[uid]

    @precondition(lambda self: self.stories)
    @rule(uid=UIDS)
    def cancelled(self, uid: str) -> None:
        self.pods.forget(uid)
        self.stories.pop(uid, None)

    @invariant()
    def lists_the_waiting_pods(self) -> None:
        self.pods.validate()
        open_ = {uid: story for uid, story in self.stories.items() if story.open}
        assert [pod.info.uid for pod in self.pods.each()] == list(open_)
        for uid in ("u1", "u2", "u3"):
            told = self.pods.get(uid)
            assert (told is not None) == (uid in open_)
            assert told is None or set(told.plugins) == set(open_[uid].holding)
        statistics = self.pods.statistics()
        waiting = sum(not story.pre_bind for story in self.stories.values())
        assert (statistics.waiting, statistics.in_pre_bind) == (
            waiting,
            len(self.stories) - waiting,
        )


TestBinding = BindingHistory.TestCase
TestBinding.settings = examples()
