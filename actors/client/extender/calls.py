"""Calls to HTTP extenders: one POST for each, within the extender's time-out.

If a call to an ignorable extender fails, the failure is logged and the extender is passed over. If
a call to any other extender fails, the answer is an error status, which fails the attempt. Scores
never fail an attempt: an extender that does not answer adds none. Binding is allowed only with the
lease, so a request to bind is sent as a bind request to the API server is: once, and only with
permission. Mirrors HTTPExtender.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, assert_never
from urllib.parse import urlsplit

import aiohttp
import anyio

from berth.config.load import ConfigError
from berth.config.types import (
    Duration,
    Extender,
    ExtenderTLSConfig,
)

from ...scheduling.framework.logger import get_logger
from ...scheduling.framework.questions import (
    EXTENDER,
    Answer,
    FilteredNodes,
    FilterNodes,
    Pause,
    PreemptVictims,
    PrioritizeNodes,
    Steps,
    Victims,
)
from ...scheduling.framework.status import SUCCESS, Status, error
from ...scheduling.kube.core import Node, Pod
from ...scheduling.kube.meta import HasMetadata
from ...scheduling.model.pod_info import PodInfo
from ...scheduling.model.snapshot import NodeView, Snapshot
from ...scheduling.model.vectors import Ints
from ...telemetry.klog import quoted
from ..bodies import read_up_to
from ..rest import in_words
from ..sockets import connector
from ..tenure import Tenure
from ..tls import client_context, show_certificate
from ..wire import CLOSE_SECONDS, NotPermittedError, Wires
from .merging import RemainingNodes, merged_scores, remaining_victims
from .wire import (
    ENCODER,
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderError,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriorityList,
    MetaPod,
    MetaVictims,
    NodeList,
    SentVictims,
    Whole,
    read,
)

log = get_logger(__name__)

T = TypeVar("T")
DEFAULT_TIMEOUT = Duration(5)
HEADERS = (("User-Agent", "berth"), ("Content-Type", "application/json"))
MAX_ANSWER = 16 << 20  # bytes of an answer, besides those that repeat the request
MAX_LOGGED = 200  # bytes of the body of a refusal
TIMED_OUT = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"


class Extenders:
    """The configured extenders, the ignorable ones last; an async context manager.

    Requests to bind are sent only while `tenure` permits it, if there is one. Raises ConfigError if
    a certificate or key for TLS cannot be used.
    """

    def __init__(self, configured: Sequence[Extender] = (), tenure: Tenure | None = None) -> None:
        self._all = tuple(sorted(configured, key=lambda extender: extender.ignorable))
        self._deciding = [
            e for e in self._all if e.filter_verb or e.prioritize_verb or e.preempt_verb
        ]
        self._tls = {
            extender: _tls(extender, f"extenders[{i}].tlsConfig")
            for i, extender in enumerate(configured)
        }
        self._permits = None if tenure is None else tenure.permits
        self._session: aiohttp.ClientSession | None = None
        self._wires: dict[Extender, Wires] = {}

    async def __aenter__(self) -> Extenders:
        if self._all:
            self._session = aiohttp.ClientSession(headers=HEADERS, connector=connector(0))
        for extender in self._all:
            if extender.bind_verb:
                self._wires[extender] = Wires(
                    extender.url_prefix.rstrip("/"),
                    _server_name(extender),
                    HEADERS,
                    extender.http_timeout or DEFAULT_TIMEOUT,
                    permits=self._permits,
                    max_connections=sys.maxsize,  # a binding must not wait while others hang
                )
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            if self._session is not None:
                await self._session.close()
            for wires in self._wires.values():
                await wires.close()

    def decide_on(self, pod: Pod) -> bool:
        """True if an extender takes part in decisions about the pod."""
        return bool(self._deciding) and any(manages_resource(e, pod) for e in self._deciding)

    async def drive(self, pod: Pod, steps: Steps[T]) -> T:
        """Runs a decision about the pod to its end, and answers its questions by asking
        extenders.
        """
        answer: Answer | None = None
        try:
            while True:
                try:
                    question = next(steps) if answer is None else steps.send(answer)
                except StopIteration as done:
                    result: T = done.value
                    return result
                match question:
                    case FilterNodes(nodes):
                        answer = await self.filter(pod, nodes)
                    case PrioritizeNodes(nodes):
                        answer = await self.prioritize(pod, nodes)
                    case PreemptVictims(snapshot, candidates):
                        answer = await self.preempt(pod, candidates, snapshot)
                    case Pause():
                        answer = None
                        await asyncio.sleep(0)
                    case _:
                        assert_never(question)
        finally:
            steps.close()  # Also when cancelled: a search undoes what it supposed.

    async def filter(self, pod: Pod, nodes: NodeView) -> FilteredNodes | Status:
        """Asks the extenders, one after another, to filter the remaining nodes."""
        remaining = RemainingNodes(nodes)
        for extender in self._all:
            if not remaining.left.size:
                break
            if not extender.filter_verb or not manages_resource(extender, pod):
                continue
            try:
                body = arguments(extender, pod, remaining.left)
                remaining.take(
                    extender,
                    await self._call(extender, extender.filter_verb, body, ExtenderFilterResult),
                )
            except ExtenderError as failure:
                if not extender.ignorable:
                    return _error_status(failure)
                _log_ignored(extender, extender.filter_verb, pod, failure)
        return remaining.result()

    async def prioritize(self, pod: Pod, nodes: NodeView) -> Ints:
        """Asks all extenders at once for scores.

        Returns int64[nodes.size], to be added to the plugins' totals.
        """
        answers: list[tuple[Extender, HostPriorityList]] = []

        async def ask(extender: Extender) -> None:
            body = arguments(extender, pod, nodes)
            try:
                priorities = await self._call(
                    extender, extender.prioritize_verb, body, HostPriorityList
                )
            except ExtenderError as failure:
                _log_ignored(extender, extender.prioritize_verb, pod, failure)
            else:
                answers.append((extender, priorities))

        async with anyio.create_task_group() as group:
            for extender in self._all:
                if extender.prioritize_verb and manages_resource(extender, pod):
                    group.start_soon(ask, extender)
        return merged_scores(answers, nodes)

    async def bind(self, pod: Pod, node: str) -> Status | None:
        """Asks an extender to bind the pod. Returns None if a plugin has to: no extender
        binds such pods, or those that do are ignorable and failed.
        """
        for extender in self._all:
            if not extender.bind_verb or not manages_resource(extender, pod):
                continue
            try:
                await self._bind(extender, binding(pod, node))
            except ExtenderError as failure:
                if not extender.ignorable:
                    return _error_status(failure)
                _log_ignored(extender, extender.bind_verb, pod, failure)
            else:
                return SUCCESS
        return None

    async def preempt(
        self, pod: Pod, candidates: dict[str, Victims], snapshot: Snapshot
    ) -> dict[str, Victims] | Status:
        """Asks the extenders, one after another, to reduce the candidates, a mapping of nodes to
        victims.
        """
        proposed = candidates

        def pods_on(node: str) -> Sequence[PodInfo] | None:
            """Returns the node's pods, and the proposed victims even if they are gone by now."""
            row = snapshot.columns.row_of.get(node)
            info = None if row is None else snapshot.columns.infos[row]
            victims = proposed[node].pods if node in proposed else ()
            return None if info is None else (*victims, *info.pods.values())

        for extender in self._all:
            if not candidates:
                break
            if not extender.preempt_verb or not manages_resource(extender, pod):
                continue
            try:
                body = preemption_arguments(extender, pod, candidates)
                result = await self._call(
                    extender, extender.preempt_verb, body, ExtenderPreemptionResult
                )
                candidates = remaining_victims(extender, result, pods_on)
            except ExtenderError as failure:
                if not extender.ignorable:
                    return _error_status(failure)
                _log_ignored(extender, extender.preempt_verb, pod, failure)
        return candidates

    async def _bind(self, extender: Extender, body: object) -> None:
        """Asks an extender to bind a pod. Raises ExtenderError unless it confirms that."""
        verb, tls = extender.bind_verb, self._tls[extender]
        trust = tls if isinstance(tls, ssl.SSLContext) else None
        try:
            reply = await self._wires[extender].request(
                "POST", f"/{verb}", ENCODER.encode(body), (), trust
            )
        except NotPermittedError:
            raise ExtenderError(f"{verb}: not sent, as the lease is not held any more") from None
        except (OSError, ValueError) as failure:  # ValueError: a host name that is invalid
            raise _not_answered(extender, verb, failure) from None
        _read(extender, verb, reply.status, reply.body, ExtenderBindingResult).check()

    async def _call(self, extender: Extender, verb: str, body: object, answer: type[T]) -> T:
        """Sends one request. Raises ExtenderError if there is no valid answer in time."""
        assert self._session is not None, "the extenders are used outside their context"
        data = ENCODER.encode(body)
        most = MAX_ANSWER + 2 * len(data)  # An extender may return the nodes that it was sent.
        try:
            async with self._session.post(
                _url(extender, verb),
                data=data,
                timeout=aiohttp.ClientTimeout(total=extender.http_timeout or DEFAULT_TIMEOUT),
                ssl=self._tls[extender],
                server_hostname=_server_name(extender),
            ) as response:
                raw = await read_up_to(response, most + 1)
        # ValueError: a host name that is invalid
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise _not_answered(extender, verb, failure) from None
        if len(raw) > most:
            raise _not_answered(extender, verb, ValueError(f"an answer of more than {most} bytes"))
        return _read(extender, verb, response.status, raw, answer)


def sent_whole(extenders: Sequence[Extender]) -> Callable[[HasMetadata], bool] | None:
    """Returns a function that tells whether extenders may get an object whole; None if they get no
    objects.
    """
    without_cache = [extender for extender in extenders if not extender.node_cache_capable]
    nodes = any(e.filter_verb or e.prioritize_verb for e in without_cache)
    victims = any(e.preempt_verb for e in without_cache)

    def is_sent(item: HasMetadata) -> bool:
        if isinstance(item, Pod):
            return victims or not item.spec.node_name
        return nodes and isinstance(item, Node)

    decides = any(e.filter_verb or e.prioritize_verb or e.preempt_verb for e in extenders)
    return is_sent if decides else None


def manages_resource(extender: Extender, pod: Pod) -> bool:
    """True if the extender manages all resources, or one that a container names."""
    managed = {resource.name for resource in extender.managed_resources}
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return not managed or any(
        managed & (c.resources.requests.keys() | c.resources.limits.keys()) for c in containers
    )


def arguments(extender: Extender, pod: Pod, nodes: NodeView) -> ExtenderArgs:
    """Returns the request for filter and prioritize."""
    sent = Whole(pod)
    if extender.node_cache_capable:
        return ExtenderArgs(sent, node_names=tuple(nodes.name(i) for i in range(nodes.size)))
    objects = (nodes.node(i) for i in range(nodes.size))
    return ExtenderArgs(sent, NodeList(tuple(Whole(node) for node in objects if node is not None)))


def binding(pod: Pod, node: str) -> ExtenderBindingArgs:
    metadata = pod.metadata
    return ExtenderBindingArgs(metadata.name, metadata.namespace, metadata.uid, node)


def preemption_arguments(
    extender: Extender, pod: Pod, victims: Mapping[str, Victims]
) -> ExtenderPreemptionArgs:
    """Returns the request for preempt: the candidate nodes with their victims."""
    sent = Whole(pod)
    if extender.node_cache_capable:
        metas = {
            node: MetaVictims(
                tuple(MetaPod(info.uid) for info in chosen.pods), chosen.pdb_violations
            )
            for node, chosen in victims.items()
        }
        return ExtenderPreemptionArgs(sent, node_name_to_meta_victims=metas)
    whole = {
        node: SentVictims(tuple(Whole(info.pod) for info in chosen.pods), chosen.pdb_violations)
        for node, chosen in victims.items()
    }
    return ExtenderPreemptionArgs(sent, whole)


def _read(extender: Extender, verb: str, status: int, raw: bytes, answer: type[T]) -> T:
    if status != 200:
        url, body = _url(extender, verb), raw[:MAX_LOGGED].decode(errors="replace")
        log.warning("an extender refused a request", url=url, code=status, body=body)
        raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
    try:
        return read(raw, answer)
    except ExtenderError as problem:
        raise _not_answered(extender, verb, problem) from None


def _not_answered(extender: Extender, verb: str, failure: Exception) -> ExtenderError:
    """Returns the error of a call without a usable answer, in the form of Go's HTTP client."""
    late = isinstance(failure, TimeoutError)
    reason = TIMED_OUT if late else in_words(failure)
    return ExtenderError(f"Post {quoted(_url(extender, verb))}: {reason}")


def _url(extender: Extender, verb: str) -> str:
    return f"{extender.url_prefix.rstrip('/')}/{verb}"


def _server_name(extender: Extender) -> str | None:
    """Returns the name that the extender's certificate must have; None for the URL's host."""
    return (extender.tls_config.server_name if extender.tls_config else "") or None


def _error_status(failure: ExtenderError) -> Status:
    return error(str(failure)).by(EXTENDER)


def _log_ignored(extender: Extender, verb: str, pod: Pod, failure: ExtenderError) -> None:
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    log.warning(
        "extender passed over",
        extender=extender.url_prefix,
        verb=verb,
        pod=key,
        reason=str(failure),
    )


def _tls(extender: Extender, path: str) -> ssl.SSLContext | bool:
    """Returns the TLS context for https, and True for plain HTTP.

    With enableHTTPS but without a certificate authority, any certificate is accepted.
    """
    if urlsplit(extender.url_prefix).scheme != "https":
        return True
    spec = extender.tls_config or ExtenderTLSConfig()
    authority = spec.ca_data or _contents(spec.ca_file, f"{path}.caFile")
    anybody = spec.insecure or (extender.enable_https and not authority)
    try:
        tls = client_context(authority or None, insecure=anybody)
    except ValueError as problem:
        raise ConfigError(f"{path}.caData, caFile: {problem}") from None
    certificate = spec.cert_data or _contents(spec.cert_file, f"{path}.certFile")
    key = spec.key_data or _contents(spec.key_file, f"{path}.keyFile")
    if certificate or key:
        try:
            show_certificate(tls, certificate, key)
        except ValueError:
            raise ConfigError(
                f"{path}: expected a client certificate and its key, in PEM"
            ) from None
    return tls


def _contents(file: str, path: str) -> bytes:
    if not file:
        return b""
    try:
        return Path(file).read_bytes()
    except OSError as problem:
        raise ConfigError(f"{path}: {file} cannot be read: {problem.strerror or problem}") from None
