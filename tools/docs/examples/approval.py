"""The Approval plugin: pods of a team run once an HTTP service says that they may, and where.

PreFilter must not wait. It looks the answer up; while there is none, the pod is rejected, tasks ask
the service, and the pod is tried again as soon as there is another answer. Meanwhile other pods are
placed. Pods with the same question share an answer for a while, also when the service is down.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import aiohttp
import msgspec

from berth.plugin import (
    SKIP,
    Action,
    ClusterEvent,
    CycleState,
    Handle,
    PluginScope,
    Pod,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    Registration,
    Resource,
    Snapshot,
    Status,
    read_args,
    unresolvable,
)

Seconds = Annotated[float, msgspec.Meta(gt=0)]
LOOK_SECONDS = 1.0
LONGEST_BACKOFF = 60.0
AT_ONCE = 16  # requests


class ApprovalArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Who has the label is asked about at `url`. An answer counts for `cache_seconds`. While the
    service is down, pods wait (Fail), or are placed without its answer (Ignore).
    """

    url: str
    label: str = "example.com/team"
    timeout_seconds: Seconds = 2.0
    cache_seconds: Seconds = 60.0
    failure_policy: Literal["Fail", "Ignore"] = "Fail"


class ApprovalQuestion(msgspec.Struct, frozen=True):
    """The body of the request."""

    namespace: str
    team: str


class ApprovalAnswer(msgspec.Struct, frozen=True):
    """The body of the answer. Without `nodes`, the pods may run on any."""

    allowed: bool
    reason: str = ""
    nodes: tuple[str, ...] = ()


class ServiceError(Exception):
    """The service gave no answer; the message says why."""


class _Known:
    """What is known about a question.

    `outcome` is the latest answer, or the reason why there is none, and counts until the time
    `until`. `failures` is the number of requests in a row without an answer. `waiting` are the pods
    (namespace/name) that were rejected, each with what it was told. `is_asked`: a request is on its
    way.
    """

    def __init__(self) -> None:
        self.outcome: ApprovalAnswer | str = ""
        self.until = 0.0
        self.failures = 0
        self.waiting: dict[str, Status] = {}
        self.is_asked = False


class Approval(PreFilterPlugin):
    name = "Approval"
    args_type = ApprovalArgs

    def __init__(self, args: dict[str, Any], handle: Handle) -> None:
        super().__init__({}, handle)
        self.args = read_args(args, ApprovalArgs)
        self._known: dict[ApprovalQuestion, _Known] = {}
        self._questions: asyncio.Queue[ApprovalQuestion] = asyncio.Queue()
        self._session: aiohttp.ClientSession | None = None
        self._requests = handle.metrics.counter(
            "approval_requests_total", "Requests to the service.", ("outcome",)
        )

    # ----------------------------------------------------------------------------- its life

    async def start(self, scope: PluginScope) -> None:
        """Asks about the pods that wait already, so that they need no second attempt."""
        timeout = aiohttp.ClientTimeout(total=self.args.timeout_seconds)
        connector = aiohttp.TCPConnector(limit=AT_ONCE)
        self._session = aiohttp.ClientSession(timeout=timeout, connector=connector)
        pending = (pod for pod in self.handle.objects.every(Pod) if not pod.spec.node_name)
        questions = {question for pod in pending if (question := self._question(pod)) is not None}
        await asyncio.gather(*map(self._ask, questions))
        scope.run(self._ask_all)
        scope.every(LOOK_SECONDS, self._look)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _ask_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._ask(await self._questions.get()))

    def _look(self) -> None:
        """Asks again about pods that wait, and forgets what is old and concerns nobody."""
        now = self.handle.now()
        for question, known in list(self._known.items()):
            if known.is_asked or now < known.until:
                continue
            known.waiting = {key: told for key, told in known.waiting.items() if self._waits(key)}
            if known.waiting:
                self._want(question, known)
            elif now >= known.until + LONGEST_BACKOFF:
                del self._known[question]

    def _waits(self, key: str) -> bool:
        namespace, _, name = key.partition("/")
        pod = self.handle.objects.get(Pod, name, namespace)
        return pod is not None and not pod.spec.node_name

    # --------------------------------------------------------------------------- the attempt

    def pre_filter(
        self, state: CycleState, info: PodInfo, snapshot: Snapshot
    ) -> Status | PreFilterResult:
        question = self._question(info.pod)
        if question is None:
            return SKIP
        known = self._known.setdefault(question, _Known())
        if self.handle.now() >= known.until and not known.is_asked:
            self._want(question, known)
        answer = self._verdict(known)
        if isinstance(answer, Status):
            known.waiting[info.key] = answer
        return answer

    def events_to_register(self) -> tuple[Registration, ...]:
        """The plugin activates its pods itself."""
        return (Registration(ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL)),)

    def _question(self, pod: Pod) -> ApprovalQuestion | None:
        team = pod.metadata.labels.get(self.args.label)
        return ApprovalQuestion(pod.metadata.namespace, team) if team else None

    def _verdict(self, known: _Known) -> Status | PreFilterResult:
        outcome = known.outcome
        if isinstance(outcome, ApprovalAnswer) and self.handle.now() < known.until:
            if not outcome.allowed:
                return unresolvable(f"not approved: {outcome.reason or 'no reason given'}")
            return PreFilterResult(frozenset(outcome.nodes) if outcome.nodes else None, True)
        if not isinstance(outcome, str) or not outcome:
            return unresolvable("waits for the approval service")
        if self.args.failure_policy == "Ignore":
            return PreFilterResult(passes_all=True)
        return unresolvable(f"the approval service is down: {outcome}")

    # --------------------------------------------------------------------------- the service

    def _want(self, question: ApprovalQuestion, known: _Known) -> None:
        known.is_asked = True
        self._questions.put_nowait(question)

    async def _ask(self, question: ApprovalQuestion) -> None:
        known = self._known.setdefault(question, _Known())
        known.is_asked = True
        try:
            known.outcome = await self.answer(question)
            known.failures, counts = 0, self.args.cache_seconds
        except ServiceError as problem:
            known.outcome = str(problem)
            counts = min(2.0 ** min(known.failures, 30), LONGEST_BACKOFF)
            known.failures += 1
        finally:
            known.is_asked = False
        known.until = self.handle.now() + counts
        self._requests.inc("answered" if known.failures == 0 else "failed")
        if known.failures == 1:
            self.handle.log.warning("no approval", team=question.team, error=known.outcome)
        verdict = self._verdict(known)
        for key in [key for key, told in known.waiting.items() if told != verdict]:
            del known.waiting[key]
            self.handle.activate(key)

    async def answer(self, question: ApprovalQuestion) -> ApprovalAnswer:
        """Asks the service. Raises ServiceError."""
        assert self._session is not None
        try:
            async with self._session.post(
                self.args.url, json=msgspec.to_builtins(question)
            ) as response:
                body = await response.read()
            if response.status != 200:
                raise ServiceError(f"it answered {response.status}")
            return msgspec.json.decode(body, type=ApprovalAnswer)
        except TimeoutError:
            raise ServiceError(f"no answer in {self.args.timeout_seconds:g} s") from None
        except (aiohttp.ClientError, msgspec.MsgspecError) as problem:
            raise ServiceError(str(problem)) from None
