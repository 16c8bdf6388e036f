"""The cluster as a viewer knows it, from the frames and glances of the feed. Nothing here waits.

It holds the rows of the nodes and pods there are, SECONDS of throughput and MOST_NEWS of news.
"""

from __future__ import annotations

from collections import Counter, deque

import msgspec

from berth.actors.wiring.glance import Glance

from ...answers.feed.feed import Frame
from ...answers.feed.rows import NodeRow, PodRow

SECONDS = 60
RATE_SECONDS = 5
MOST_NEWS = 200
STILL_SECONDS = 2.0  # without a turn of the event loop, after which it counts as blocked
STALE_SECONDS = 5.0  # without an event of the feed


class FeedBegan(msgspec.Struct, frozen=True):
    """An event: the feed begins anew, and the whole cluster follows."""


Event = FeedBegan | Frame | Glance


class News(msgspec.Struct, frozen=True):
    """A sentence, and its time in seconds since 1970."""

    at: float
    text: str


class ClusterModel:
    """The nodes and pods, the requests of the pods, and the state of the scheduler.

    `now` is in seconds since 1970; `version` grows with each change.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRow] = {}
        self.pods: dict[str, PodRow] = {}
        self.glance: Glance | None = None
        self.news: deque[News] = deque(maxlen=MOST_NEWS)
        self.version = 0
        self.lost = ""  # why there is no connection
        self.heard: float | None = None  # when the last event came
        self._placed: dict[int, tuple[int, float]] = {}  # pods and their waits, by the second
        self._use: dict[str, Counter[str]] = {}
        self._on: dict[str, dict[str, None]] = {}  # the keys of pods that are not finished

    def take(self, event: Event, now: float) -> None:
        if self.lost:
            self.tell("The scheduler answers again.", now)
        self.heard, self.lost = now, ""
        self.version += 1
        match event:
            case FeedBegan():
                for rows in (self.nodes, self.pods, self._use, self._on):
                    rows.clear()
            case Frame():
                for node in event.nodes:
                    self.nodes[node.name] = node
                for pod in event.pods:
                    self._put_pod(pod, now)
                for key in event.gone_pods:
                    self._remove_pod(key)
                for name in event.gone_nodes:
                    self.nodes.pop(name, None)
            case Glance():
                self._compare(event, now)
                self.glance = event

    def lose(self, reason: str, now: float) -> None:
        """Notes that the connection broke, or that it could not be made again."""
        if not self.lost:
            self.tell(f"No connection: {reason}", now)
        self.lost = reason
        self.version += 1

    def tell(self, text: str, now: float) -> None:
        self.news.append(News(now, text))
        self.version += 1

    def on(self, node: str) -> list[str]:
        """Returns the keys of the unfinished pods on a node."""
        return list(self._on.get(node, ()))

    def use(self, node: str, resource: str) -> int:
        return self._use[node][resource] if node in self._use else 0

    def pending(self) -> int:
        return sum(not pod.node and pod.phase in ("", "Pending") for pod in self.pods.values())

    def placed(self, now: float) -> list[int]:
        """Returns the number of pods placed in each of the last SECONDS whole seconds."""
        last = int(now)
        return [self._placed.get(second, (0, 0.0))[0] for second in range(last - SECONDS, last)]

    def waited(self, now: float) -> float | None:
        """Returns the mean seconds from creation to placement of these pods; None without any."""
        recent = [each for at, each in self._placed.items() if at >= int(now) - SECONDS]
        pods = sum(number for number, _ in recent)
        return sum(seconds for _, seconds in recent) / pods if pods else None

    def rate(self, now: float) -> float:
        return sum(self.placed(now)[-RATE_SECONDS:]) / RATE_SECONDS

    def quiet(self, now: float) -> float:
        """Returns the seconds since the last event; 0 if less than STALE_SECONDS."""
        if self.heard is None or now - self.heard < STALE_SECONDS:
            return 0.0
        return now - self.heard

    def problems(self) -> list[str]:
        """Returns the scheduler's problems."""
        return [] if self.glance is None else problems_of(self.glance)

    def _put_pod(self, pod: PodRow, now: float) -> None:
        before = self.pods.get(pod.key)
        self._remove_pod(pod.key)
        self.pods[pod.key] = pod
        if pod.node and pod.requests:
            self._on.setdefault(pod.node, {})[pod.key] = None
            use = self._use.setdefault(pod.node, Counter())
            for resource, amount in pod.requests.items():
                use[resource] += amount
        is_new = before is None or not before.scheduled
        if pod.scheduled and is_new and pod.scheduled > now - SECONDS - 1:
            number, waits = self._placed.get(int(pod.scheduled), (0, 0.0))
            wait = max(0.0, pod.scheduled - pod.created)
            self._placed[int(pod.scheduled)] = number + 1, waits + wait
            for second in [each for each in self._placed if each < now - SECONDS - 1]:
                del self._placed[second]

    def _remove_pod(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        if pod is None or key not in self._on.get(pod.node, ()):
            return
        del self._on[pod.node][key]
        self._use[pod.node].subtract(pod.requests)
        if not self._on[pod.node]:
            del self._on[pod.node], self._use[pod.node]

    def _compare(self, glance: Glance, now: float) -> None:
        """Adds news about the differences from the last glance."""
        before = self.glance
        if before is None or before.leads != glance.leads:
            self.tell("The scheduler leads." if glance.leads else "The scheduler stands by.", now)
        old = [] if before is None else problems_of(before)
        new = problems_of(glance)
        for problem in new:
            if problem not in old:
                self.tell(problem, now)
        for problem in old:
            if problem not in new:
                self.tell(f"No longer: {problem}", now)


def problems_of(glance: Glance) -> list[str]:
    blocked = ["the event loop is blocked"] * (glance.still_seconds > STILL_SECONDS)
    outdated = [glance.outdated] if glance.outdated else []
    return [*glance.problems, *outdated, *blocked]
