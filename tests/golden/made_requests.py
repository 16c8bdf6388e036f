"""Requests that are made from those of the table: other values, fields, paths, options and bytes.

From the same source of chance come the same requests.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote

import msgspec

from tests.golden.api_requests import MEDIA_TYPES, Request, stories

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 1.5, 1e308, 10**400),
    *("", "x", "a" * 300, "A_b", "1", "-1", "1Gi", "1e400", "0.0000001", "9" * 400, "100%", "x%"),
    *("2026-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "Ünï", "\x00", "\n", "a/b/c", "../..", "*"),
    *("10.0.0.1", "::1", "10.0.0.0/99", "$NS", "default", "kubernetes", "{}", "(", "%s", "\ud7ff"),
    *({}, [], [None], [{}], {"": ""}, {"a": None}, [[[]]], {"$patch": "delete"}),
    *({"$patch": "replace"}, {"$patch": 5}, {"$retainKeys": [{}]}, {"name": {}}, {"name": None}),
)
KEYS = (
    *("metadata", "spec", "status", "name", "labels", "annotations", "finalizers", "uid", "data"),
    *("resourceVersion", "ownerReferences", "managedFields", "containers", "template", "selector"),
    *(
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
    ),
    *("kind", "apiVersion", "deletionTimestamp", "generateName", "volumes", "ports", "items", ""),
)
OPTIONS = (
    *("labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "dryRun", "force"),
    *("resourceVersionMatch", "sendInitialEvents", "allowWatchBookmarks", "fieldManager"),
    *("fieldValidation", "gracePeriodSeconds", "propagationPolicy", "includeObject", "pretty"),
)
SELECTORS = ("a=b", "a in (b,", "!", "a>1", "a>x", ",,", "metadata.name=x", "a=b=c", "x" * 400)
OPERATIONS = ("add", "remove", "replace", "move", "copy", "test", "", 5)
POINTERS = ("", "/", "/metadata", "/spec/containers/0", "/metadata/labels/a", "/-", "x", "/a/~2", 1)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
TYPES = (*MEDIA_TYPES, "", "x", "application/json; charset=x", "text/plain", "*/*;q=x")
DEEPEST = 400


class MadeRequests:
    """An endless source of requests."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._known = [request for requests in stories().values() for request in requests]
        self._changes: tuple[Callable[[Request], Request], ...] = (
            *(self._with_other_value,) * 8,
            *(self._as_patch,) * 4,
            *(self._with_option,) * 2,
            self._with_bytes,
            self._with_path,
            self._with_type,
            self._nested,
        )

    def next(self) -> Request:
        """Returns a request that ends at once: a watch ends after a second."""
        request = self._random.choice(self._known)
        for _ in range(self._random.choice((1, 1, 2, 4))):
            request = self._random.choice(self._changes)(request)
        line = request.line
        if "watch" in line:
            line += f"{'&' if '?' in line else '?'}timeoutSeconds=1"
        return msgspec.structs.replace(request, line=line, events=0, keys=False)

    def _with_other_value(self, request: Request) -> Request:
        """Changes a value, leaves one out or adds one, somewhere in the body."""
        if not isinstance(request.body, dict | list):
            return request
        body = copy.deepcopy(request.body)
        here, random = body, self._random
        while True:
            keys = list(here) if isinstance(here, dict) else range(len(here))
            nested = [key for key in keys if isinstance(here[key], dict | list) and here[key]]
            if nested and random.random() < 0.75:
                here = here[random.choice(nested)]
                continue
            if keys and random.random() < 0.7:
                key = random.choice(list(keys))
                if random.random() < 0.25:
                    del here[key]
                else:
                    here[key] = self._value()
            elif isinstance(here, dict):
                here[random.choice(KEYS)] = self._value()
            else:
                here.append(copy.deepcopy(here[0]) if here else self._value())
            return msgspec.structs.replace(request, body=body)

    def _value(self) -> Any:
        return copy.deepcopy(self._random.choice(VALUES))

    def _as_patch(self, request: Request) -> Request:
        """Makes a patch of the body, or a JSON patch, of the object of the request."""
        path = request.line.partition(" ")[2].partition("?")[0]
        body, random = request.body, self._random
        if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
            name = quote(str(body["metadata"].get("name", "a")), safe="")
            path += f"/{name}" * request.line.startswith("POST")
        kind = random.choice(("strategic", "merge", "json-patch", "apply"))
        if kind == "json-patch":
            body = [
                {
                    "op": random.choice(OPERATIONS),
                    "path": random.choice(POINTERS),
                    "from": random.choice(POINTERS),
                    "value": self._value(),
                }
                for _ in range(random.randrange(4))
            ]
        query = "?fieldManager=made&force=true" if kind == "apply" else ""
        line = f"PATCH {path}{random.choice(('', '', '/status', '/scale'))}{query}"
        return Request(line, body if body is not None else {}, type=kind)

    def _with_option(self, request: Request) -> Request:
        values = (*SELECTORS, *(value for value in VALUES if isinstance(value, str | int | float)))
        text = str(self._random.choice(values))[:200].encode(errors="replace")
        value = "".join(f"%{byte:02x}" for byte in text)
        mark = "&" if "?" in request.line else "?"
        line = f"{request.line}{mark}{self._random.choice(OPTIONS)}={value}"
        return msgspec.structs.replace(request, line=line)

    def _with_bytes(self, request: Request) -> Request:
        """Changes, adds or leaves out characters of the body."""
        raw = request.raw
        if raw is None:
            raw = msgspec.json.encode(request.body).decode()
        for _ in range(self._random.randrange(1, 4)):
            at = self._random.randrange(len(raw) + 1)
            more = self._random.choice(("", "", "{", "]", '"', "\\", ",", "\x00", "é", "1", ": "))
            raw = raw[:at] + more + raw[at + self._random.randrange(3) :]
        return msgspec.structs.replace(request, body=None, raw=raw)

    def _with_path(self, request: Request) -> Request:
        method, _, path = request.line.partition(" ")
        parts = path.split("/")
        at = self._random.randrange(len(parts))
        parts[at] = self._random.choice(
            ("", "x", "status", "pods", "..", "%2F", "%00", "$NS", "a" * 300)
        )
        chosen = self._random.choice(METHODS) if self._random.random() < 0.3 else method
        return msgspec.structs.replace(request, line=f"{chosen} {'/'.join(parts)}")

    def _with_type(self, request: Request) -> Request:
        random = self._random
        if random.random() < 0.5:
            return msgspec.structs.replace(request, type=random.choice(TYPES))
        return msgspec.structs.replace(request, accept=random.choice(TYPES))

    def _nested(self, request: Request) -> Request:
        """Nests the body, or a value, deeply."""
        value: Any = 1
        for _ in range(self._random.choice((20, 90, DEEPEST))):
            value = [value] if self._random.random() < 0.5 else {"a": value}
        body = {**request.body} if isinstance(request.body, dict) else {}
        body[self._random.choice(KEYS)] = value
        return msgspec.structs.replace(request, body=body)
