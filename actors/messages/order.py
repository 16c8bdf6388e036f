"""Orders that want an answer, and the answers."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

T_contra = TypeVar("T_contra", contravariant=True)


T = TypeVar("T")


class ReplyTo(Protocol[T_contra]):
    """The place where the answer to an order goes; berth.actors.runtime implements it."""

    def set(self, value: T_contra) -> None: ...


class Order(msgspec.Struct, Generic[T], frozen=True):
    """An order that wants an answer of type T."""

    reply: ReplyTo[T]

    def answer(self, value: T) -> Answer[T]:
        """Returns the effect with which a state answers the order."""
        return Answer(self, value)


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """The answer of a state to an order; the actor gives it. Made by `order.answer`."""

    order: Order[T]
    value: T

    def give(self) -> None:
        self.order.reply.set(self.value)
