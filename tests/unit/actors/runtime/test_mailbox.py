"""Mailboxes and asks."""

from __future__ import annotations

import anyio
import pytest
from berth.actors.runtime.ask import Reply, ask
from berth.actors.runtime.mailbox import (
    Mailbox,
    MailboxClosedError,
    MailboxFullError,
    MailboxStatistics,
    Overflow,
)


async def test_drains_what_is_there_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers", 10)
    for number in range(5):
        mailbox.tell_nowait(number)
    assert await mailbox.drain(most=3) == [0, 1, 2]
    assert await mailbox.drain() == [3, 4]
    assert mailbox.statistics() == MailboxStatistics(received=5, dropped=0, depth=0, highest=5)
    mailbox.close()


async def test_a_full_mailbox_does_what_it_declares() -> None:
    rejecting: Mailbox[int] = Mailbox("r", 1, Overflow.REJECT)
    rejecting.tell_nowait(1)
    with pytest.raises(MailboxFullError, match="r"):
        await rejecting.tell(2)
    dropping: Mailbox[int] = Mailbox("d", 2, Overflow.DROP_OLDEST)
    for number in range(5):
        await dropping.tell(number)
    assert await dropping.drain() == [3, 4]
    assert dropping.statistics().dropped == 3
    blocking: Mailbox[int] = Mailbox("b", 1)
    await blocking.tell(1)
    async with anyio.create_task_group() as group:
        group.start_soon(blocking.tell, 2)
        await anyio.lowlevel.checkpoint()
        assert blocking.statistics().received == 1
        assert await blocking.drain(most=1) == [1]
    assert await blocking.drain() == [2]
    for mailbox in (rejecting, dropping, blocking):
        mailbox.close()


async def test_an_ask_gets_its_answer_or_learns_that_the_actor_is_gone() -> None:
    mailbox: Mailbox[Reply[str]] = Mailbox("answers", 1)
    answers: list[str] = []

    async def asking() -> None:
        answers.append(await ask(mailbox, lambda reply: reply))

    async with anyio.create_task_group() as group:
        group.start_soon(asking)
        (reply,) = await mailbox.drain()
        reply.set("yes")
        reply.fail(MailboxClosedError("too late"))
    assert answers == ["yes"]
    lost: Reply[str] = Reply()
    lost.fail(MailboxClosedError("answers"))
    with pytest.raises(MailboxClosedError):
        await lost.wait()
    mailbox.close()
    with pytest.raises(MailboxClosedError):
        await ask(mailbox, lambda reply: reply)


async def test_an_idle_reader_takes_messages_at_once_and_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers", None)
    taken: list[int] = []

    def take(number: int) -> None:
        if number == 1:
            mailbox.tell_nowait(2)  # While 1 is handled: it has to wait.
        taken.append(number)

    async def read() -> None:
        while True:
            for number in await mailbox.drain(at_once=take):
                take(number)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        for number in (0, 1, 3):
            await mailbox.tell(number)
        assert taken == [0, 1]
        await anyio.wait_all_tasks_blocked()
        assert taken == [0, 1, 2, 3]
        group.cancel_scope.cancel()
    mailbox.close()


async def test_the_crash_of_a_reader_is_its_own() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers", None)

    def take(number: int) -> None:
        raise ZeroDivisionError(number)

    async with anyio.create_task_group() as group:

        async def read() -> None:
            with pytest.raises(ZeroDivisionError):
                await mailbox.drain(at_once=take)

        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await mailbox.tell(1)
        await mailbox.tell(2)
    assert await mailbox.drain() == [2]
    mailbox.close()


async def test_a_cancelled_reader_takes_no_message_with_it() -> None:
    mailbox: Mailbox[int] = Mailbox("numbers", 1)
    got: list[int] = []

    async def read() -> None:
        got.extend(await mailbox.drain())

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await mailbox.tell(1)
        group.cancel_scope.cancel()
    assert len(got) + mailbox.statistics().depth == 1
    if not got:
        await read()
    await mailbox.tell(2)
    with anyio.move_on_after(0):
        await mailbox.tell(3)
    async with anyio.create_task_group() as group:
        group.start_soon(mailbox.tell, 4)
        await anyio.wait_all_tasks_blocked()
        assert await mailbox.drain() == [2]
    assert await mailbox.drain() == [4]
    mailbox.close()
