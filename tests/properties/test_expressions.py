"""No expression of a device selector takes more time or memory than its limits allow."""

from __future__ import annotations

import os
import tracemalloc
from random import Random
from time import process_time

from hypothesis import event, example, given, target
from hypothesis import strategies as st

from berth.actors.scheduling.cel import CelError, Selector
from berth.actors.scheduling.cel.declarations import MOST_WORK
from berth.actors.scheduling.cel.types import BOOL
from tests.kit.examples import examples
from tests.kit.expressions import Grammar
from tests.unit.actors.scheduling.cel.test_limits import DEVICE, OVER

LONG = os.environ.get("BERTH_PROFILE") == "long"
MOST_SECONDS = 0.2
MOST_SECONDS_PER_UNIT = 0.001
MOST_BYTES = 64 << 20
WHILE_COMPILED = ("compilation failed", "program instantiation failed")


@given(st.integers(0, 2**64 - 1), st.sampled_from([5, 15, 40, 100]))
@examples(20 if LONG else 0.3)
@example(10543, 100)  # 100,348 units of compilation, until its last pattern is too large
def test_expressions_end_within_their_limits(seed: int, parts: int) -> None:
    expression = Grammar(Random(seed), parts).expression(BOOL)
    work, outcome = evaluated(expression)
    event(outcome[:40])
    assert work <= MOST_WORK or outcome.startswith((OVER, *WHILE_COMPILED)), expression
    assert allocated(expression) <= MOST_BYTES, expression
    if LONG:
        # Time depends on the machine, so only the profile that draws at random looks at it.
        lasted = seconds(expression)
        target(lasted, label="seconds")
        assert lasted <= MOST_SECONDS, expression
        assert lasted <= MOST_SECONDS_PER_UNIT * work, expression


def evaluated(expression: str) -> tuple[int, str]:
    """Returns the units of work of the evaluation, or of the compilation if it fails, and the
    result or the error as text.
    """
    selector = Selector(expression)
    spent = [selector.work]
    if selector.error:
        return selector.work, selector.error
    try:
        outcome = str(selector.matches("d", DEVICE, spent.append))
    except CelError as problem:
        outcome = str(problem)
    return spent[-1], outcome


def allocated(expression: str) -> int:
    """Returns the most bytes that Python held at a time."""
    tracemalloc.start()
    try:
        evaluated(expression)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def seconds(expression: str) -> float:
    """Returns the shortest of ten times, or the first that is far below the limit."""
    times = []
    for _ in range(10):
        begin = process_time()
        evaluated(expression)
        times.append(process_time() - begin)
        if times[-1] < MOST_SECONDS / 4:
            break
    return min(times)
