"""Mailboxes and asks."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from berth.actors.runtime.ask import Reply, ask
from berth.actors.runtime.mailbox import BATCH, Mailbox, MailboxClosedError
from tests.kit.tasks import beside


def never(number: int) -> None:
    raise AssertionError(f"{number} should have waited in the mailbox")


async def test_the_messages_that_wait_are_drained_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers")
    for number in range(BATCH + 2):
        mailbox.tell(number)
    assert await mailbox.drain(never) == list(range(BATCH))
    assert await mailbox.drain(never) == [BATCH, BATCH + 1]


async def test_a_closed_mailbox_takes_no_message_and_has_none() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers")
    mailbox.tell(1)
    mailbox.close()
    with pytest.raises(MailboxClosedError, match="numbers"):
        mailbox.tell(2)
    with pytest.raises(MailboxClosedError, match="numbers"):
        await mailbox.drain(never)


async def test_a_reader_that_waits_learns_that_its_mailbox_is_closed() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers")

    async def read() -> None:
        with pytest.raises(MailboxClosedError):
            await mailbox.drain(never)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        mailbox.close()


async def test_an_ask_gets_its_answer() -> None:
    mailbox: Mailbox[Reply[str]] = Mailbox("answers")

    async def answer(make: Callable[[], str]) -> None:
        await anyio.wait_all_tasks_blocked()
        for reply in await mailbox.drain(lambda reply: reply.set("never")):
            reply.set(make())

    async with anyio.create_task_group() as group:
        group.start_soon(answer, lambda: "yes")
        assert await ask(mailbox, lambda reply: reply) == "yes"


async def test_an_idle_reader_answers_at_once() -> None:
    mailbox: Mailbox[Reply[str]] = Mailbox("answers")

    async def read() -> None:
        await mailbox.drain(lambda reply: reply.set("yes"))

    async with beside(read):
        await anyio.wait_all_tasks_blocked()
        assert await ask(mailbox, lambda reply: reply) == "yes"
    mailbox.close()
    with pytest.raises(MailboxClosedError):
        await ask(mailbox, lambda reply: reply)


async def test_an_idle_reader_handles_messages_at_once_and_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers")
    handled: list[int] = []

    def handle(number: int) -> None:
        if number == 1:
            mailbox.tell(2)  # It has to wait until 1 has been handled.
        handled.append(number)

    async def read() -> None:
        while True:
            for number in await mailbox.drain(handle):
                handle(number)

    async with beside(read):
        await anyio.wait_all_tasks_blocked()
        for number in (0, 1, 3):
            mailbox.tell(number)
        assert handled == [0, 1]
        await anyio.wait_all_tasks_blocked()
        assert handled == [0, 1, 2, 3]


async def test_a_crash_of_the_reader_is_raised_to_the_reader_only() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers")

    def crash(number: int) -> None:
        raise ZeroDivisionError(number)

    async with anyio.create_task_group() as group:

        async def read() -> None:
            with pytest.raises(ZeroDivisionError):
                await mailbox.drain(crash)

        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        mailbox.tell(1)
        mailbox.tell(2)
    assert await mailbox.drain(never) == [2]


async def test_a_cancelled_reader_takes_no_message_with_it() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers")
    got: list[int] = []

    async def read() -> None:
        got.extend(await mailbox.drain(never))

    mailbox.tell(1)
    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.cancel_scope.cancel()
    assert got == []
    await read()
    assert got == [1]
