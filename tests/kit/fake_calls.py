"""A client without a server, for what makes requests."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class FakeCalls:
    """Asks `asked` about each request, whose answer becomes one of the type that is wanted. A
    request fails the test unless `asked` says otherwise, and so does a binding.
    """

    async def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        body: object | None = None,
        content_type: str = "",
    ) -> T:
        answered = await self.asked(method, path, body)
        return answered if isinstance(answered, answer) else msgspec.convert(answered, answer)

    async def patch(self, path: str, body: object, answer: type[T], kind: str = "strategic") -> T:
        return await self.call("PATCH", path, answer, body, kind)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        raise AssertionError(f"{namespace}/{name} bound to {node}")

    async def asked(self, method: str, path: str, body: Any) -> object:
        raise AssertionError(f"{method} {path}")
