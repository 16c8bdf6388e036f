"""Takes the steps of a what-if for real, in a toy cluster: by requests, as those of kubectl."""

from __future__ import annotations

from http import HTTPStatus
from itertools import count
from typing import Any
from urllib.parse import quote

import msgspec

from berth.actors.client.access import Calls
from berth.actors.client.rest import CONTENT_TYPES, ApiError
from berth.actors.server.request import JSON, Answer, Request

from ...kubernetes.api.types.resources import BY_KIND, KINDS, Kind
from ..explain.changes.another_node import node_like
from ..explain.cluster_source import SourceError
from ..explain.subject import Subject
from ..feed.node_actions import NODES, act
from ..manifests.manifests import ManifestError, Manifests, read_objects, read_text
from .question import question_of
from .question_refusals import Arrivals, RefusedError
from .steps import Content, Step, StepError, steps_of, taint_of, tainted
from .workload_pods import scaled

Document = dict[str, Any]
NAMESPACES = BY_KIND["v1", "Namespace"]
CONFLICT = 409
MOST_ADDED = 1000
BY_BUTTON = {"cordon": "cordon", "uncordon": "uncordon", "drain": "drain", "remove": "delete"}


class RealSteps:
    """The answers to requests to take steps. Steps are taken one after another, up to the first
    that is refused.
    """

    def __init__(self, access: Calls) -> None:
        self._access = access
        self._arrivals = Arrivals()

    async def respond(self, request: Request) -> Answer:
        """Answers with a sentence for each step, or with an error about the wrong step."""
        sentences: list[str] = []
        try:
            question = question_of(await self._arrivals.whole(request.body))
            for step in steps_of(question.steps, files=False):
                sentences.append(await self._take(step, question.namespace))  # noqa: PERF401
        except RefusedError as refused:
            return refused.answer
        except StepError as problem:
            return _refused(problem.number - 1, str(problem))
        except (SourceError, ApiError) as problem:
            return _refused(len(sentences), " ".join((str(problem), *sentences)))
        return Answer(msgspec.json.encode(sentences), content_type=JSON)

    async def _take(self, step: Step, namespace: str) -> str:
        """Raises SourceError or ApiError."""
        match step.verb, step.words:
            case ("cordon" | "uncordon" | "drain" | "remove") as verb, (name,):
                return await act(self._access, BY_BUTTON[verb], name)
            case "add", (_, like):
                return await self._add(step.number, like)
            case "taint", (name, text):
                return await self._taint(name, text)
            case "apply", _:
                return await self._apply(step.content, namespace)
            case "scale", (name, _):
                place, field = scaled(name, namespace)
                kind = next(kind for kind in KINDS if kind.kind == place[0])
                await self._patch(kind, place[1], place[2], {"spec": {field: step.number}})
                return f"{place[0]} {place[1]}/{place[2]} has {step.number} {field}."
            case "delete", (name,):
                subject = Subject.parse(name, namespace)
                path = BY_KIND["v1", "Pod"].path(subject.namespace)
                await self._access.call("DELETE", f"{path}/{quote(subject.name, safe='')}", dict)
                return f"{subject.namespace}/{subject.name} is deleted."
        raise SourceError(f"{step.verb}: the scheduler of the toy cluster keeps its configuration")

    async def _patch(self, kind: Kind, namespace: str, name: str, patch: Document) -> None:
        path = f"{kind.path(namespace)}/{quote(name, safe='')}"
        await self._access.call("PATCH", path, dict, patch, CONTENT_TYPES["merge"])

    async def _node(self, name: str) -> Document:
        path = f"{NODES.path()}/{quote(name, safe='')}"
        node: Document = await self._access.call("GET", path, dict)
        return node

    async def _add(self, number: int, like: str) -> str:
        if number > MOST_ADDED:
            raise SourceError(f"add {number}: expected at most {MOST_ADDED} nodes at once")
        node = await self._node(like)
        listed = await self._access.call("GET", NODES.path(), dict)
        names = {item["metadata"]["name"] for item in listed["items"]}
        free = (name for n in count(1) if (name := f"{like}-copy-{n}") not in names)
        for _, name in zip(range(number), free, strict=False):
            await self._access.call("POST", NODES.path(), dict, node_like(node, name))
        return f"{number} nodes like {like} are added."

    async def _taint(self, name: str, text: str) -> str:
        taint, added = taint_of(text)
        old = ((await self._node(name)).get("spec") or {}).get("taints") or ()
        await self._patch(NODES, "", name, {"spec": {"taints": tainted(old, taint, added=added)}})
        return f"{name} is tainted." if added else f"{name} has this taint no longer."

    async def _apply(self, content: Content | None, namespace: str) -> str:
        for kind, document, _ in _objects(content).objects:
            metadata = document["metadata"]
            into = metadata.get("namespace") or namespace
            if kind.namespaced:
                await self._ensure(NAMESPACES, "", {"metadata": {"name": into}})
            if not await self._ensure(kind, into, document):
                await self._patch(kind, into, metadata["name"], document)
        return "The manifests are applied."

    async def _ensure(self, kind: Kind, namespace: str, document: Document) -> bool:
        """Creates an object; False if it exists."""
        try:
            await self._access.call("POST", kind.path(namespace), dict, document)
        except ApiError as refused:
            if refused.code != CONFLICT:
                raise
            return False
        return True


def _objects(content: Content | None) -> Manifests:
    assert content is not None
    try:
        if content.manifests is not None:
            return read_text(content.manifests.encode(), "manifests")
        return read_objects(content.apply or (), "apply")
    except ManifestError as problem:
        raise SourceError(str(problem)) from None


def _refused(step: int, problem: str) -> Answer:
    return RefusedError(HTTPStatus.BAD_REQUEST, f"steps[{step}]", problem).answer
