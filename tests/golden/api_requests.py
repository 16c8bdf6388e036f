"""A table of requests to an API server, with what kube-apiserver answered to each.

The requests are in data/requests/*.yaml: stories, each in a namespace of its own. A request is
`METHOD PATH` or `METHOD PATH: BODY`, and may have

    type, accept   a media type, or a short name for one of MEDIA_TYPES
    headers        more headers
    raw            a body that is not JSON
    as             a name for the answer; later requests say $name.rv, $name.uid, $name.continue
    events         for a watch: how many events to wait for
    keys           true: of the body, keep its keys alone

In paths, `~/` stands for `/api/v1/namespaces/$NS/`, `~apps/v1/` for
`/apis/apps/v1/namespaces/$NS/`; $NS is the story's namespace anywhere. The answers are recorded by
`python -m tests.golden.record_requests KUBECONFIG`, without what differs from run to run.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import yaml

DATA = Path(__file__).parent / "data"
STORIES = DATA / "requests"
ANSWERS = DATA / "requests.jsonl.gz"
KEPT = DATA / "kept_differences.yaml"
USER_AGENT = "table/1"  # also the field manager
MEDIA_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "cbor": "application/cbor",
    "strategic": "application/strategic-merge-patch+json",
    "merge": "application/merge-patch+json",
    "json-patch": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "metadata-list": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "aggregated": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
}
HEADERS = ("content-type", "warning", "retry-after", "allow", "location", "content-encoding")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AGE = re.compile(r"^\d+s$")
CHANGING = (
    (UID, "<uid>"),
    (TIME, "<time>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<5>"),
    (re.compile(r"\b10\.(0|96)\.\d+\.\d+\b"), "<ip>"),
    (re.compile(r"(resource version: |current: |resourceVersion: \")\d+( \(\d+\))?"), r"\1<rv>"),
    (re.compile(r"in record \(\d+\)"), "in record (<rv>)"),
    (re.compile(r'"\{(\\.|[^"\\])*\}"'), '"<object>"'),  # the whole object, in a message
    (re.compile(r'in scheme "[^"]*"'), "in its scheme"),
    (re.compile(r"\bBad_[a-z0-9]{5}"), "Bad_<5>"),  # a generated name, in a message
)
# Lists in no order that matters: managedFields are sorted by their times, in whole seconds.
UNORDERED = ("managedFields", "resources", "subresources", "groups", "paths")
TOLD_BY_EACH = ("ca.crt", "serverAddress", "description")  # in the words of each server
# The recorded build, which is OpenShift's, adds it to the volume of each account.
OPENSHIFT_SOURCE = {
    "name": "openshift-service-ca.crt",
    "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}],
}
NODE_PORTS = range(30000, 32768)


class Request(msgspec.Struct, frozen=True):
    """One request of a story. `line` is what the table says of it, without the body."""

    line: str
    body: Any = None
    raw: str | None = None
    type: str = ""
    accept: str = ""
    headers: dict[str, str] = {}
    as_: str = ""
    events: int = 0
    keys: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What a server answered, without what differs from run to run."""

    status: int
    headers: dict[str, str]
    body: Any


@cache
def stories() -> dict[str, list[Request]]:
    read: dict[str, list[Request]] = {}
    for file in sorted(STORIES.glob("*.yaml")):
        for name, rows in yaml.load(file.read_bytes(), yaml.CSafeLoader).items():
            read[f"{file.stem}: {name}"] = [_request(row) for row in rows]
    return read


@cache
def answers() -> dict[str, list[Answer]]:
    with gzip.open(ANSWERS, "rb") as lines:
        return {
            name: msgspec.convert(told, list[Answer])
            for name, told in (msgspec.json.decode(line) for line in lines)
        }


def _request(row: str | dict[str, Any]) -> Request:
    if isinstance(row, str):
        return Request(row)
    (line,) = (key for key in row if " " in key)
    options = {("as_" if key == "as" else key): value for key, value in row.items() if key != line}
    return Request(line, row[line], **options)


class Player:
    """Plays the requests of one story, one after the other, in the namespace `namespace`."""

    def __init__(self, connection: HTTPConnection, namespace: str, token: str = "") -> None:
        self._connection = connection
        self._namespace = namespace
        self._head = {"User-Agent": USER_AGENT}
        if token:
            self._head["Authorization"] = f"Bearer {token}"
        self._saved: dict[str, str] = {}
        self.created: list[str] = []  # paths of objects outside the namespace

    def prepare(self) -> None:
        """Makes the namespace and the first objects in it, if no controller makes them."""
        account = {"metadata": {"name": "default"}}
        ca = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "x"}}
        self.send(Request("POST /api/v1/namespaces", {"metadata": {"name": "$NS"}}))
        self.send(Request("POST ~/serviceaccounts", account))
        self.send(Request("POST ~/configmaps", ca))

    def play(self, request: Request) -> Answer:
        try:
            status, headers, raw = self.send(request)
        except TimeoutError:
            self._connection.close()
            return Answer(0, {}, "no answer")
        body = self._body(request, headers.get("content-type", ""), raw)
        metadata = (body.get("metadata") if isinstance(body, dict) else None) or {}
        for short, field in (("rv", "resourceVersion"), ("uid", "uid"), ("continue", "continue")):
            if request.as_ and field in metadata:
                self._saved[f"${request.as_}.{short}"] = metadata[field]
        method, _, path = request.line.partition(" ")
        if method == "POST" and status == 201 and "$NS" not in path and "~" not in path:
            self.created.append(f"{path.partition('?')[0]}/{metadata.get('name')}")
        if request.keys:
            body = sorted(body) if isinstance(body, dict) else type(body).__name__
        kept = {name: self._unchanging(headers[name]) for name in HEADERS if headers.get(name)}
        return Answer(status, kept, self._unchanging(body))

    def send(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Sends a request. Returns the code, the headers and the body of the answer."""
        method, _, path = request.line.partition(" ")
        headers = {**self._head, **request.headers}
        body = None
        if request.raw is not None:
            body = self._filled(request.raw).encode()
        elif request.body is not None:
            body = self._filled(msgspec.json.encode(request.body).decode()).encode()
            headers.setdefault("Content-Type", "application/json")
        if request.type:
            headers["Content-Type"] = MEDIA_TYPES.get(request.type, request.type)
        headers["Accept"] = MEDIA_TYPES.get(request.accept, request.accept) or "application/json"
        self._connection.request(method, self._filled(_whole(path)), body, headers)
        answer = self._connection.getresponse()
        told: dict[str, str] = {}
        for name, value in answer.getheaders():
            name = name.lower()
            told[name] = f"{told[name]}; {value}" if name in told else value
        if request.events and answer.status == 200:
            raw = b"".join(answer.readline() for _ in range(request.events))
            self._connection.close()
        else:
            raw = answer.read()
        return answer.status, told, raw

    def _filled(self, text: str) -> str:
        for name, value in self._saved.items():
            text = text.replace(name, value)
        return text.replace("$NS", self._namespace)

    def _body(self, request: Request, media_type: str, raw: bytes) -> Any:
        if request.events and "json" in media_type and b'"type"' in raw:
            return [msgspec.json.decode(line) for line in raw.splitlines()]
        if "json" in media_type and raw:
            return msgspec.json.decode(raw)
        if "yaml" in media_type:
            return yaml.safe_load(raw)
        if "protobuf" in media_type:
            return raw[:4].decode(errors="replace")
        return raw.decode(errors="replace")

    def _unchanging(self, value: Any, key: str = "") -> Any:
        """Returns a value with a mark in place of what differs from run to run."""
        if isinstance(value, dict):
            generated = value.get("generateName")
            if generated and str(value.get("name")).startswith(generated):
                value = {**value, "name": f"{generated}<5>"}
            return {self._same(k): self._unchanging(v, k) for k, v in value.items()}
        if isinstance(value, list):
            if key == "sources":
                value = [each for each in value if each.get("configMap") != OPENSHIFT_SOURCE]
            items = [self._unchanging(item, key) for item in value]
            return sorted(items, key=_order) if key in UNORDERED else items
        if key in ("resourceVersion", "continue") and value not in ("", "0"):
            return f"<{key}>"
        if key in TOLD_BY_EACH:
            return f"<{key}>"
        if isinstance(value, int) and key in ("nodePort", "healthCheckNodePort"):
            return "<port>" if value in NODE_PORTS else value
        if key == "cells" and isinstance(value, str):
            value = AGE.sub("<age>", value)
        return self._same(value) if isinstance(value, str) else value

    def _same(self, text: str) -> str:
        text = text.replace(self._namespace, "$NS")
        for pattern, mark in CHANGING:
            text = pattern.sub(mark, text)
        return text


def _order(item: Any) -> str:
    named = ("name", "resource", "subresource")
    found = (item[key] for key in named if key in item) if isinstance(item, dict) else ()
    return str(next(iter(found), item))


def _whole(path: str) -> str:
    """Returns a path with what `~` stands for."""
    if path.startswith("~/"):
        return f"/api/v1/namespaces/$NS{path[1:]}"
    if path.startswith("~"):
        group, version, rest = path[1:].split("/", 2)
        return f"/apis/{group}/{version}/namespaces/$NS/{rest}"
    return path


def answer_differences(ours: Answer, theirs: Answer) -> Iterator[tuple[str, str]]:
    """Yields where two answers differ, and how. Problems in another order are one difference."""
    mine, its = msgspec.to_builtins(ours), msgspec.to_builtins(theirs)
    told, expected = causes(mine["body"]), causes(its["body"])
    if told != expected and {*map(_sorted, told)} == {*map(_sorted, expected)}:
        yield "body.details.causes", "in another order, or told more than once"
        for key in ("message", "details"):
            mine["body"][key] = its["body"][key]
    for at, how in differences(mine, its, ""):
        yield at.removeprefix("."), how


def causes(body: Any) -> list[Any]:
    """Returns the causes in a Status; none for another body."""
    details = body.get("details") if isinstance(body, dict) else None
    return list(details.get("causes") or ()) if isinstance(details, dict) else []


def differences(ours: Any, theirs: Any, at: str) -> Iterator[tuple[str, str]]:
    """Yields where two answers differ, and how."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}):
            here = f"{at}.{key}"
            if key not in ours:
                yield here, f"lacks {_short(theirs[key])}"
            elif key not in theirs:
                yield here, f"only here: {_short(ours[key])}"
            else:
                yield from differences(ours[key], theirs[key], here)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{at}[{number}]")
    elif ours != theirs:
        yield at, f"{_short(ours)}\n{'':>12}Kubernetes: {_short(theirs)}"


def _sorted(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _short(value: Any) -> str:
    text = _sorted(value)
    return text if len(text) < 300 else f"{text[:300]}…"
