"""A what-if in transit: the question, the answer, the refusal, and the frames (a length of four
bytes, and JSON) between a process that asks and one that answers.

A running scheduler imports this, and not what answers.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

import msgspec

from berth.actors.attempt.attempts_page import AttemptsPage
from berth.actors.server.request import JSON, NOSNIFF, Answer
from berth.config.fields import path_first

MOST_STEPS = 1000
RETRY_SECONDS = 1
LENGTH = 4  # bytes before the JSON of a frame, with its length


class Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step with the content of a file: objects to apply, the YAML text of such objects, or a
    KubeSchedulerConfiguration.
    """

    apply: list[dict[str, Any]] | None = None
    manifests: str | None = None
    configure: dict[str, Any] | None = None


Written = str | Content  # a step as it is written: a sentence such as "drain node-1", or a content


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The steps as in a file of steps, except those that read a file.

    Names in steps are in `namespace`, and ties between equally good nodes are broken by `seed`.
    `nodes` says which nodes the answer lists.
    """

    steps: Annotated[list[Written], msgspec.Meta(max_length=MOST_STEPS)]
    seed: int = 0
    namespace: str = "default"
    nodes: Literal["all", "changed"] = "all"


def question_of(body: bytes) -> Question:
    """Returns the question in a body. Raises RefusedError."""
    try:
        return msgspec.json.decode(body, type=Question)
    except msgspec.ValidationError as invalid:
        field, _, problem = path_first(invalid, Question).rpartition(": ")
        raise RefusedError(HTTPStatus.BAD_REQUEST, field, problem) from None
    except RecursionError:
        message = "expected JSON that is nested less deeply"
        raise RefusedError(HTTPStatus.BAD_REQUEST, "", message) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        message = f"expected JSON: {problem}"
        raise RefusedError(HTTPStatus.BAD_REQUEST, "", message) from None


class Refusal(msgspec.Struct, frozen=True):
    """The reason why there is no answer: the wrong field, "" if no field is wrong, and the expected
    value.
    """

    field: str
    problem: str


class RefusedError(Exception):
    def __init__(self, status: HTTPStatus, field: str, problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.refusal = Refusal(field, problem)

    @property
    def answer(self) -> Answer:
        """The refusal over HTTP."""
        again = self.status is HTTPStatus.TOO_MANY_REQUESTS
        headers = (("Retry-After", str(RETRY_SECONDS)), *NOSNIFF) if again else NOSNIFF
        return Answer(msgspec.json.encode(self.refusal), self.status, JSON, headers)


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
    """The frame after which the cluster is complete. An Answered frame confirms that it can be
    read.
    """


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
