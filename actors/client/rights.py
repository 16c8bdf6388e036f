"""The rights that the API server refuses to this process, reported in one line.

There are three sources: a SelfSubjectRulesReview at the start, which compares the granted rights
with the needed ones; the informers, which say which kinds they may not list; and refused requests.
The line is repeated once a minute while any right is missing. A refused request counts until the
same request succeeds, or until it has not been refused for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import anyio
import msgspec
from anyio.abc import TaskStatus

from berth.config.types import RESOURCE_LOCKS, LeaderElectionConfiguration

from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.meta import HasMetadata
from .access import Access, Calls, Source
from .rest import ApiError, ConnectionFailedError

log = get_logger(__name__)

T = TypeVar("T")
Kept = TypeVar("Kept", bound=HasMetadata)
Work = Callable[[Calls], Awaitable[None]]
LEASES = "leases"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
FIRST_SECONDS = 1.0
POLL_SECONDS = 5.0
REPEAT_SECONDS = 60.0
KEPT_SECONDS = 300.0  # a refusal, without another one
MOST_NAMESPACES = 3
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Right(msgspec.Struct, frozen=True, order=True):
    """The right to a kind of request. `resource` includes the subresource, such as `pods/binding`.
    Without a `namespace`, it is a right in the whole cluster. Only locks have a `name`, because
    roles usually grant them by name.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, method: str, path: str) -> Right:
        """Returns the right that a request needs."""
        parts = path.partition("?")[0].strip("/").split("/")
        group = parts[1] if parts[0] == "apis" else ""
        segments = parts[3:] if group else parts[2:]
        namespace = ""
        if len(segments) > 2 and segments[0] == "namespaces":
            namespace, segments = segments[1], segments[2:]
        verb = _VERBS.get(method) or ("get" if len(segments) > 1 else "list")
        resource = "/".join((*segments[:1], *segments[2:]))
        name = segments[1] if resource == LEASES and len(segments) > 1 else ""
        return cls(group, resource, verb, namespace, name)

    @property
    def full_resource(self) -> str:
        """The resource as kubectl names it, such as `leases.coordination.k8s.io`."""
        name, slash, subresource = self.resource.partition("/")
        named = f" named {self.name}" if self.name else ""
        return f"{name}{'.' if self.group else ''}{self.group}{slash}{subresource}{named}"


class _Spec(msgspec.Struct, frozen=True):
    namespace: str


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    spec: _Spec
    kind: str = "SelfSubjectRulesReview"
    api_version: str = "authorization.k8s.io/v1"


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()

    def grants(self, right: Right) -> bool:
        """True if the rule grants the right for its name or, if it has none, for some names."""
        if right.name and self.resource_names and right.name not in self.resource_names:
            return False
        subresource = right.resource.partition("/")[2]
        resources = {"*", right.resource, *([f"*/{subresource}"] if subresource else ())}
        return (
            not {"*", right.verb}.isdisjoint(self.verbs)
            and not {"*", right.group}.isdisjoint(self.api_groups)
            and not resources.isdisjoint(self.resources)
        )


class _Rules(msgspec.Struct, frozen=True, rename="camel"):
    resource_rules: tuple[_Rule, ...] = ()
    incomplete: bool = False


class _ReviewStatus(msgspec.Struct, frozen=True):
    status: _Rules = _Rules()


class Refusals:
    """The requests that were refused lately. Any thread may add requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_right: dict[Right, tuple[float, str]] = {}  # time and message of the last

    def refused(self, right: Right, failure: ApiError) -> None:
        """Notes a refusal, unless an admission plugin refused, which is a 403 as well."""
        message = str(failure)
        if failure.code == 401 or (failure.code == 403 and "cannot " in message):
            self._by_right[right] = self._clock.now(), message

    def succeeded(self, method: str, path: str) -> None:
        """Notes that a right is granted again."""
        if self._by_right:
            self._by_right.pop(Right.of(method, path), None)

    def rights(self) -> frozenset[Right]:
        """Returns the rights that are refused; forgets refusals from long ago."""
        oldest = self._clock.now() - KEPT_SECONDS
        for right, (at, _) in [*self._by_right.items()]:
            if at < oldest:
                self._by_right.pop(right, None)
        return frozenset(self._by_right)

    def last_message(self) -> str:
        """Returns the API server's message about one of the refused rights; "" if none is."""
        messages = [message for _, message in [*self._by_right.values()]]
        return messages[-1] if messages else ""


class Rights:
    """A comparison of the granted rights with the needed ones, which reports the missing ones.

    `paths` returns the paths that the informers list, and `unlisted` the rights that they lack.
    `run_apart` gives calls that need no tenure, see Access.
    """

    def __init__(
        self,
        refusals: Refusals,
        paths: Callable[[], Iterable[str]],
        unlisted: Callable[[], Iterable[Right]],
        election: LeaderElectionConfiguration,
        run_apart: Callable[[Work], Awaitable[None]],
        clock: Clock,
    ) -> None:
        self._refusals = refusals
        self._paths = paths
        self._unlisted = unlisted
        self._namespace = election.resource_namespace
        self._election = election
        self._run_apart = run_apart
        self._clock = clock
        self._ungranted: frozenset[Right] = frozenset()
        self._reported: frozenset[Right] = frozenset()
        self._reported_at = 0.0

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Reports until cancelled."""
        task_status.started()
        await self._review()
        self._report()
        await self._clock.sleep(FIRST_SECONDS)
        while True:
            if self._is_due():
                await self._review()
            self._report()
            await self._clock.sleep(POLL_SECONDS)

    async def _review(self) -> None:
        """Asks the API server which rights are granted."""
        await self._run_apart(self._compare)

    async def _compare(self, calls: Calls) -> None:
        """Compares granted and needed rights; without a full answer, uses the refusals."""
        try:
            body = _Review(_Spec(self._namespace))
            answer = await calls.call("POST", REVIEWS, _ReviewStatus, body)
        except (ApiError, ConnectionFailedError):
            self._ungranted = frozenset()
            return
        rules = answer.status
        self._ungranted = frozenset(
            right
            for right in needed(self._paths(), self._election)
            if not rules.incomplete and not any(rule.grants(right) for rule in rules.resource_rules)
        )

    def _is_due(self) -> bool:
        return bool(self._reported) and self._clock.now() - self._reported_at >= REPEAT_SECONDS

    def _report(self) -> None:
        missing = self._ungranted | self._refusals.rights() | frozenset(self._unlisted())
        gone = self._reported - missing
        if gone:
            log.info("rights are no longer refused", rights=in_words(gone))
        if missing - self._reported or (missing and self._is_due()):
            message = self._refusals.last_message()
            last = {"error": message} if message else {}
            log.error("rights are missing", rights=in_words(missing), **last)
            self._reported_at = self._clock.now()
        self._reported = missing


def needed(paths: Iterable[str], election: LeaderElectionConfiguration) -> list[Right]:
    """Returns the rights without which scheduling is impossible, with informers of these paths."""
    read = [Right.of("GET", path) for path in paths]
    rules = [
        *((right.group, right.resource, ("list", "watch")) for right in read),
        ("events.k8s.io", "events", ("create", "patch")),
        ("", "pods", ("get", "delete")),
        ("", "pods/binding", ("create",)),
        ("", "pods/status", ("patch",)),
    ]
    rights = [Right(group, resource, verb) for group, resource, verbs in rules for verb in verbs]
    if election.leader_elect:
        namespace, name = election.resource_namespace, election.resource_name
        for group, resource in RESOURCE_LOCKS[election.resource_lock]:
            for verb, object_name in (("get", name), ("create", ""), ("update", name)):
                rights.append(Right(group, resource, verb, namespace, object_name))
    return rights


def in_words(rights: Iterable[Right]) -> list[str]:
    """Returns `verbs resource` for each resource, sorted, such as `list,watch nodes`."""
    verbs: dict[tuple[str, ...], set[str]] = {}
    places: dict[Right, list[str]] = {}
    for right in sorted(rights):
        places.setdefault(msgspec.structs.replace(right, namespace=""), []).append(right.namespace)
    for right, namespaces in places.items():
        # Refused in the whole cluster means refused in every namespace.
        where = () if "" in namespaces else tuple(namespaces)
        verbs.setdefault((right.full_resource, *where), set()).add(right.verb)
    return [
        f"{','.join(sorted(words))} {resource}{_in_namespaces(where)}"
        for (resource, *where), words in verbs.items()
    ]


def _in_namespaces(namespaces: Sequence[str]) -> str:
    if not namespaces:
        return ""
    more = len(namespaces) - MOST_NAMESPACES
    text = ", ".join(namespaces[:MOST_NAMESPACES])
    return f" in {text}" + (f" and {more} more" if more > 0 else "")


class NotedAccess:
    """An Access that records the refusals of another one."""

    def __init__(self, access: Access, refusals: Refusals) -> None:
        self.server, self.tenure = access.server, access.tenure
        self.calls: Calls = _NotedCalls(access.calls, refusals)
        self.plugins: Calls = _NotedCalls(access.plugins, refusals)
        self.events: Calls = _NotedCalls(access.events, refusals)
        self._access = access
        self._refusals = refusals

    async def run_apart(self, work: Work) -> None:
        async def noted(calls: Calls) -> None:
            await work(_NotedCalls(calls, self._refusals))

        await self._access.run_apart(noted)

    def follow(self, path: str, kind: type[Kept], selector: str = "") -> Source[Kept]:
        return self._access.follow(path, kind, selector)


class _NotedCalls:
    def __init__(self, calls: Calls, refusals: Refusals) -> None:
        self._calls = calls
        self._refusals = refusals

    # No coroutines of their own: each pod is bound and gets an event through them.

    def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> Coroutine[Any, Any, T]:
        request = self._calls.call(method, path, answer, body, content_type)
        return self._call_and_note(method, path, request)

    def bind(self, namespace: str, name: str, uid: str, node: str) -> Coroutine[Any, Any, None]:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        return self._call_and_note("POST", path, self._calls.bind(namespace, name, uid, node))

    def patch(
        self, path: str, body: object, answer: type[T], kind: str = "strategic"
    ) -> Coroutine[Any, Any, T]:
        return self._call_and_note("PATCH", path, self._calls.patch(path, body, answer, kind))

    async def _call_and_note(self, method: str, path: str, request: Awaitable[T]) -> T:
        """Sends a request, and records whether it is refused."""
        try:
            answered = await request
        except ApiError as failure:
            self._refusals.refused(Right.of(method, path), failure)
            raise
        self._refusals.succeeded(method, path)
        return answered
