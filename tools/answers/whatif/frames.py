"""What is said to a process that answers what-ifs, and what it says: see `answer_worker`.

A frame is four bytes with the length, and JSON.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage

LENGTH = 4


class Configured(msgspec.Struct, frozen=True, tag=True):
    """The configuration and the feature gates of all later decisions."""

    configuration: dict[str, Any]
    gates: dict[str, bool]


class Changed(msgspec.Struct, frozen=True, tag=True):
    """The new and changed objects of a kind, and the deleted ones as (namespace, name)."""

    api_version: str
    kind: str
    objects: list[msgspec.Raw] = []
    gone: list[tuple[str, str]] = []


class Told(msgspec.Struct, frozen=True, tag=True):
    """All is told of the cluster: it can be read. A frame with an Answered tells that it is."""


class Asked(msgspec.Struct, frozen=True, tag=True):
    """The body of a question, as it was received. A frame with an Answered is the answer."""

    body: bytes


class StoryAsked(msgspec.Struct, frozen=True, tag=True):
    """A question for the story of a pod. A frame with an Answered is the answer."""

    namespace: str
    name: str
    recorded: AttemptsPage
    events: list[dict[str, Any]] | None = None


class Answered(msgspec.Struct, frozen=True):
    """An answer in the form of HTTP. After the `last` one the process ends."""

    status: int
    body: msgspec.Raw
    last: bool = False


Frame = Configured | Changed | Told | Asked | StoryAsked


def framed(frame: msgspec.Struct) -> bytes:
    """Returns the bytes of a frame. Keys of the configuration may be of any type."""
    body = msgspec.json.encode(frame, enc_hook=str)
    return len(body).to_bytes(LENGTH, "big") + body
