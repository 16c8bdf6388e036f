"""A what-if as a question in JSON, and its answer: a plain function, whoever serves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from time import monotonic
from typing import Annotated, Any, Literal

import msgspec

from berth.config.fields import path_first

from .conclusion import Result
from .placement import TooLongError
from .question_refusals import Refusal, RefusedError
from .steps import StepError, Written
from .trial import result_of
from .tried_documents import Documents
from .verbs import steps_of

MOST_SECONDS = 10.0
MOST_STEPS = 1000
TOO_MUCH = RefusedError(  # made while there is memory
    HTTPStatus.SERVICE_UNAVAILABLE, "", "the answer takes too much memory: ask for less"
)


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


def answer(documents: Documents, question: Question, seconds: float = MOST_SECONDS) -> Result:
    """Returns the result of a question. The documents are unchanged afterwards.

    Raises RefusedError, also if it takes longer than `seconds`.
    """
    with answered(documents, question, seconds) as result:
        if isinstance(result, RefusedError):
            raise result
        return result


@contextmanager
def answered(
    documents: Documents, question: Question, seconds: float = MOST_SECONDS
) -> Iterator[Result | RefusedError]:
    """Yields the result of a question, or why there is none. When the block ends, the documents are
    as before, which takes time: so that nobody waits for that, the answer is sent in the block.
    """
    with documents.trial():
        try:
            result = _answer(documents, question, seconds)
        except MemoryError:
            result = TOO_MUCH
        yield result


def _answer(documents: Documents, question: Question, seconds: float) -> Result | RefusedError:
    try:
        return result_of(
            documents,
            steps_of(question.steps, files=False),
            question.seed,
            question.namespace,
            monotonic() + seconds,
            every_node=question.nodes == "all",
        )
    except StepError as problem:
        field = f"steps[{problem.number - 1}]"
        return RefusedError(HTTPStatus.BAD_REQUEST, field, str(problem))
    except TooLongError:
        message = f"the answer takes longer than {seconds:g} seconds: ask for less"
        return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "", message)


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the question, the answer and the refusal."""
    kinds = {"question": Question, "answer": Result, "refusal": Refusal}
    references, components = msgspec.json.schema_components(
        kinds.values(), ref_template="#/$defs/{name}"
    )
    for component in components.values():
        if "description" in component:
            component["description"] = " ".join(component["description"].split())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "berth whatif",
        "properties": dict(zip(kinds, references, strict=True)),
        "$defs": components,
    }
