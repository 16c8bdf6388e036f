"""Mailboxes and asks."""

from __future__ import annotations

import anyio
import pytest

from actors.runtime.ask import Reply, ask
from actors.runtime.mailbox import Mailbox, MailboxClosedError, MailboxFullError, MailboxStatistics, Overflow


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
