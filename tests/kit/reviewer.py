"""An API server in memory that answers TokenReview, SubjectAccessReview, and requests for the
ConfigMap with the authorities of clients.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from berth.actors.client.rest import ApiError
from tests.kit.documents import Document

T = TypeVar("T")
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class Reviewer:
    """The scheduler's Calls. `users` maps tokens to users, `rights` has pairs of a user or a group
    and a path. `failure` is raised, as long as it is set; `error` is said of tokens of nobody.
    `reviews` are the paths of the requests.
    """

    def __init__(self) -> None:
        self.users: dict[str, Document] = {}
        self.rights: set[tuple[str, str]] = set()
        self.config_map: dict[str, str] | None = None
        self.failure: Exception | None = None
        self.error = ""
        self.reviews: list[str] = []
        self.specs: list[Document] = []

    def add(self, token: str, name: str, *groups: str) -> None:
        self.users[token] = {"username": name, "uid": f"uid-{name}", "groups": groups}

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "application/json",
    ) -> T:
        return msgspec.convert(self.answered(method, path, msgspec.json.encode(body)), answer)

    def answered(self, method: str, path: str, body: bytes) -> Document:
        """Answers a request, or raises ApiError."""
        self.reviews.append(path.rpartition("/")[2])
        if self.failure is not None:
            raise self.failure
        document = msgspec.json.decode(body) if body else {}
        if (method, path) == ("GET", CONFIG_MAP) and self.config_map is not None:
            return {"data": self.config_map}
        if (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"):
            user = self.users.get(document["spec"]["token"])
            if user is None:
                return {"status": {"user": {}, "error": self.error}}
            return {"status": {"authenticated": True, "user": user}}
        if (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"):
            spec = document["spec"]
            self.specs.append(spec)
            access = spec["nonResourceAttributes"]
            assert access["verb"] in ("get", "post", "head")
            who = {spec["user"], *spec["groups"]}
            return {
                "status": {"allowed": any((name, access["path"]) in self.rights for name in who)}
            }
        raise ApiError(404, "NotFound", f"{method} {path} not found")

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise NotImplementedError

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "") -> T:
        raise NotImplementedError
