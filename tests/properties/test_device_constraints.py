"""What `berth explain` says of a constraint on devices is true: no choice of devices, of all that
there are, meets it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.devices import DRIVER, claim, request
from tests.kit.documents import Document
from tests.kit.examples import examples
from tests.unit.tools.answers.explain.test_device_words import at, in_words, on, selecting

Device = tuple[str, int | None]
SENTENCE = re.compile(
    r"(match|distinct)Attribute \S+: no (?:(\d+) devices?|device) (that fits? ha\w+|with) "
    r"(the attribute|the same value|different values)(.*?) \("
)
VALUES = st.none() | st.integers(0, 2)
REQUESTS = st.lists(st.tuples(st.integers(1, 2), VALUES), min_size=1, max_size=2)


def choices(
    wanted: Sequence[tuple[int, int | None]], devices: Sequence[Device]
) -> Iterator[list[Device]]:
    """Yields the devices of each way to serve all requests: a number, and the value they have."""
    if not wanted:
        yield []
        return
    (number, value), *others = wanted
    fitting = [device for device in devices if value is None or device[1] == value]
    for chosen in combinations(fitting, number):
        for rest in choices(others, [device for device in devices if device not in chosen]):
            yield [*chosen, *rest]


def meets(kind: str, devices: Sequence[Device]) -> bool:
    values = [value for _, value in devices]
    if None in values:
        return False
    return len(set(values)) == (1 if kind == "match" else len(values))


def holds(
    sentence: re.Match[str], wanted: Sequence[tuple[int, int | None]], devices: Sequence[Device]
) -> bool:
    """True if what is said of the devices is true."""
    kind, number, how, what, _ = sentence.groups()
    fitting = [d for d in devices if any(value in (None, d[1]) for _, value in wanted)]
    if what == "the attribute":
        return all(value is None for _, value in fitting)
    if how.startswith("that fit"):
        counts = Counter(value for _, value in fitting if value is not None)
        most = max(counts.values(), default=0) if what == "the same value" else len(counts)
        return most < int(number)
    return not any(meets(kind, chosen) for chosen in choices(wanted, devices))


@examples(2)
@given(st.lists(VALUES, min_size=1, max_size=4), REQUESTS, st.sampled_from(["match", "distinct"]))
def test_no_devices_meet_a_constraint_of_which_that_is_said(
    values: list[int | None], wanted: list[tuple[int, int | None]], kind: str
) -> None:
    devices = [(f"gpu-{number}", value) for number, value in enumerate(values)]
    requests = [
        request(f"r{place}", number, **_of(value)) for place, (number, value) in enumerate(wanted)
    ]
    document = claim("c", *requests, constraints=[{f"{kind}Attribute": f"{DRIVER}/numa"}])
    words = in_words(*on(*(at(*device) for device in devices)), document)
    if any(meets(kind, chosen) for chosen in choices(wanted, devices)):
        assert words.provided, words
    for problem in words.short:
        named = [wanted[int(name.removeprefix("r"))] for name in problem.request.split(", ")]
        for sentence in SENTENCE.finditer(problem.why):
            assert holds(sentence, named, devices), problem.why


def _of(value: int | None) -> Document:
    if value is None:
        return {}
    numa = f'device.attributes["{DRIVER}"]'
    return selecting(f"has({numa}.numa) && {numa}.numa == {value}")
