"""Prometheus' text format, version 0.0.4, as Go's client library prints it.

Labels are in the order of their names, and a family without samples is left out. kube-scheduler
prints this format whatever the reader accepts. There are no samples named `_created`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import accumulate
from operator import itemgetter
from typing import assert_never

import anyio.lowlevel

from ...telemetry.measures import AnyFamily, Counter, Gauge, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_IN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})
_ODD = re.compile(r'["\\\n]')
_IN_LABELS = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def go_float(value: float) -> str:
    """Returns a number as Go prints it: 1, 0.25, 1.048576e+06, +Inf."""
    value = float(value)
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    mantissa = f"{first}.{''.join(rest)}" if rest else first
    return f"{'-' * sign}{mantissa}e{exponent + len(rest):+03d}"


def escaped(value: str) -> str:
    """Returns the value of a label, without its quotes."""
    return value.translate(_IN_LABELS) if _ODD.search(value) else value


def heading(name: str, text: str, kind: str) -> str:
    return f"# HELP {name} {text.translate(_IN_HELP)}\n# TYPE {name} {kind}\n"


def exposed(families: Iterable[AnyFamily]) -> Iterator[bytes]:
    """Yields the text of each family that has samples."""
    for family in families:
        lines = list(_lines(family))
        if lines:
            text = f"[{family.stability}] {family.help}" if family.stability else family.help
            yield (heading(family.name, text, family.kind) + "\n".join(lines) + "\n").encode()


async def together(parts: Iterator[bytes]) -> bytes:
    """Joins all parts into one text. After each part, other tasks can run."""
    texts = []
    for part in parts:
        texts.append(part)
        await anyio.lowlevel.checkpoint()
    return b"".join(texts)


def _lines(family: AnyFamily) -> Iterator[str]:
    order = sorted(range(len(family.labels)), key=family.labels.__getitem__)
    names = [family.labels[i] for i in order]
    children: list[tuple[list[str], Counter | Gauge | Histogram]] = [
        ([values[i] for i in order], child) for values, child in family.children()
    ]
    bounds = [*map(go_float, family.buckets), "+Inf"]
    for values, child in sorted(children, key=itemgetter(0)):
        labels = ",".join(
            f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)
        )
        match child:
            case Histogram():
                yield from _histogram(family.name, labels, bounds, child)
            case Counter() | Gauge():
                braces = f"{{{labels}}}" if labels else ""
                yield f"{family.name}{braces} {go_float(child.value)}"
            case _:
                assert_never(child)


def _histogram(name: str, labels: str, bounds: list[str], child: Histogram) -> Iterator[str]:
    histogram = child.read()
    start = f"{name}_bucket{{{labels}{',' * bool(labels)}le="
    for bound, count in zip(bounds, accumulate(histogram.counts), strict=True):
        yield f'{start}"{bound}"}} {go_float(count)}'
    braces = f"{{{labels}}}" if labels else ""
    yield f"{name}_sum{braces} {go_float(histogram.sum)}"
    yield f"{name}_count{braces} {go_float(histogram.count)}"
