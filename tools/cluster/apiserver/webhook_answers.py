"""Who asks the webhooks that a write needs, before it is tried again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from ...kubernetes.api.policies.webhook_decisions import WebhookAnswers, WebhookCall
from ...kubernetes.api.types.webhook_conversion import ConversionsNeededError
from .http import Follow, Later, Response

Attempt = Callable[[WebhookAnswers], Response | Follow]


class WebhookClient(Protocol):
    def later(
        self, attempt: Attempt, answers: WebhookAnswers | None, calls: Sequence[WebhookCall]
    ) -> Later:
        """Returns the answer of a request whose write needs these calls. `answers` are those that
        are known already.
        """
        ...

    def converted(
        self, attempt: Attempt, answers: WebhookAnswers, needed: ConversionsNeededError
    ) -> Later:
        """Returns the answer of a request that needs objects converted."""
        ...

    async def convert(self, needed: ConversionsNeededError) -> None:
        """Asks a webhook to convert objects, and tells it what it answered."""
        ...

    async def close(self) -> None: ...
