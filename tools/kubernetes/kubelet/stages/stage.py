"""A stage: the objects that it selects, how long it lasts, and the steps at its end.

The documents have the form of KWOK's `kwok.x-k8s.io/v1alpha1` Stage, with one addition: a step may
name a Python step of the kubelets (`step: start`). Expressions are the part of jq in `jq`, and
templates the part of Go's in `go_template`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import isfinite
from typing import Any, Literal

import msgspec

from berth.actors.scheduling.kube.times import seconds_of
from berth.config.types import Duration

from ...objects.structs import Document
from . import functions
from .go_nodes import TemplateError
from .go_template import Template
from .jq import JqError, Query, query

API_VERSION = "kwok.x-k8s.io/v1alpha1"


class StageError(ValueError):
    """A stage cannot be used; the message names its field and what was expected."""


# ----------------------------------------------------------------------------------- the document


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
): ...


class ResourceRef(_Part, frozen=True, kw_only=True):
    api_group: str = "v1"
    kind: str


class SelectorJq(_Part, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class MatchExpression(_Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    jq: SelectorJq | None = None
    cel: Document | None = None


class StageSelector(_Part, frozen=True, kw_only=True):
    match_labels: dict[str, str] = {}
    match_annotations: dict[str, str] = {}
    match_expressions: tuple[MatchExpression, ...] = ()


class ExpressionJq(_Part, frozen=True, kw_only=True):
    expression: str


class ExpressionFrom(_Part, frozen=True, kw_only=True):
    expression_from: str = ""
    jq: ExpressionJq | None = None
    cel: Document | None = None


class Delay(_Part, frozen=True, kw_only=True):
    duration_milliseconds: int = 0
    duration_from: ExpressionFrom | None = None
    jitter_duration_milliseconds: int | None = None
    jitter_duration_from: ExpressionFrom | None = None


class StageEvent(_Part, frozen=True, kw_only=True):
    type: str = ""
    reason: str = ""
    message: str = ""


class Finalizer(_Part, frozen=True, kw_only=True):
    value: str = ""


class Finalizers(_Part, frozen=True, kw_only=True):
    """Changes of the finalizers of an object."""

    add: tuple[Finalizer, ...] = ()
    remove: tuple[Finalizer, ...] = ()
    empty: bool = False

    def after(self, before: Sequence[str]) -> list[str]:
        """Returns the finalizers after the change."""
        removed = {item.value for item in self.remove}
        kept = [] if self.empty else [name for name in before if name not in removed]
        return kept + [item.value for item in self.add if item.value not in kept]


class PatchTemplate(_Part, frozen=True, kw_only=True):
    subresource: str = ""
    root: str = ""
    template: str = ""
    type: Literal["json", "merge", "strategic"] | None = None
    impersonation: Document | None = None


class Next(_Part, frozen=True, kw_only=True):
    event: StageEvent | None = None
    finalizers: Finalizers | None = None
    delete: bool = False
    patches: tuple[PatchTemplate, ...] = ()
    status_template: str = ""
    status_subresource: str = "status"
    status_patch_as: Document | None = None
    step: str = ""


class StepDocument(_Part, frozen=True, kw_only=True):
    event: StageEvent | None = None
    finalizers: Finalizers | None = None
    delete: bool = False
    patch: PatchTemplate | None = None
    apply: Document | None = None
    step: str = ""


class Spec(_Part, frozen=True, kw_only=True):
    resource_ref: ResourceRef
    selector: StageSelector | None = None
    weight: int = 0
    weight_from: ExpressionFrom | None = None
    delay: Delay | None = None
    next: Next | None = None
    immediate_next_stage: bool = False
    steps: tuple[StepDocument, ...] = ()


# ---------------------------------------------------------------------------------- what it means


class Delete(msgspec.Struct, frozen=True):
    """The step that deletes the object."""


class StagePatch(msgspec.Struct, frozen=True):
    """The step that patches the object, or a subresource, with what a template renders."""

    template: Template
    root: str
    subresource: str
    type: Literal["json", "merge", "strategic"]


class PythonStep(msgspec.Struct, frozen=True):
    name: str


Step = StageEvent | Finalizers | Delete | StagePatch | PythonStep


class Test:
    """A requirement of a selector: a query of the object, and the results that it accepts.

    Stages with an equal requirement share the test.
    """

    __slots__ = ("accepts", "query")

    def __init__(self, query: Query, accepts: Callable[[list[Any] | None], bool]) -> None:
        self.query = query
        self.accepts = accepts


class Stage:
    """A stage that has been read; `step` is the Python step that it runs, or ""."""

    def __init__(self, name: str, spec: Spec, steps: Collection[str]) -> None:
        """Raises StageError; `steps` are the Python steps of the kind."""
        self.name = name
        self.kind = spec.resource_ref.kind
        self.steps = _steps(spec, steps)
        self.step = next((step.name for step in self.steps if isinstance(step, PythonStep)), "")
        self.has_delay = spec.delay is not None
        self.tests = _tests(spec.selector)
        self._weight = spec.weight
        self._weight_from = _query_from(spec.weight_from, "spec.weightFrom")
        delay = spec.delay or Delay()
        if spec.weight < 0:
            raise StageError(f"spec.weight: expected 0 or more, got {spec.weight}")
        for field, value in (
            ("durationMilliseconds", delay.duration_milliseconds),
            ("jitterDurationMilliseconds", delay.jitter_duration_milliseconds or 0),
        ):
            if value < 0:
                raise StageError(f"spec.delay.{field}: expected 0 or more, got {value}")
        milliseconds = delay.jitter_duration_milliseconds
        self._duration = delay.duration_milliseconds / 1000
        self._duration_from = _query_from(delay.duration_from, "spec.delay.durationFrom")
        self._jitter = None if milliseconds is None else milliseconds / 1000
        self._jitter_from = _query_from(delay.jitter_duration_from, "spec.delay.jitterDurationFrom")
        self.has_jitter = self._jitter is not None or self._jitter_from is not None

    def weight(self, document: Document) -> int | None:
        """Returns the weight for an object; None if it is empty or not a number."""
        if self._weight_from is None:
            return self._weight
        match self._weight_from(document):
            case [str(text), *_]:
                try:
                    return int(text, 0)
                except ValueError:
                    return None
            case [bool(), *_]:
                return self._weight
            case [int() | float() as number, *_] if isfinite(number):
                return int(number)
        return self._weight

    def delay(self, document: Document, since: float, share: float) -> float:
        """Returns the seconds that the stage lasts from `since` on, in seconds of the epoch.

        `share`, from 0 to 1, is the position between the least and the greatest delay.
        """
        least = _seconds(self._duration_from, document, since, self._duration)
        most = _seconds(self._jitter_from, document, since, self._jitter)
        if least is None:
            return 0.0
        if most is None:
            return least
        return most if most <= least else least + share * (most - least)


def selecting(stages: Iterable[Stage], document: Document) -> tuple[Stage, ...]:
    """Returns the stages that select an object. A test that stages share is evaluated once."""
    results: dict[Query, list[Any] | None] = {}
    passed: dict[Test, bool] = {}
    selected: list[Stage] = []
    for stage in stages:
        for test in stage.tests:
            passes = passed.get(test)
            if passes is None:
                query = test.query
                if query not in results:
                    results[query] = query(document)
                passes = passed[test] = test.accepts(results[query])
            if not passes:
                break
        else:
            selected.append(stage)
    return tuple(selected)


def read(document: Document, steps: Mapping[str, Collection[str]]) -> Stage:
    """Reads a stage. `steps` are the names of the Python steps by kind. Raises StageError."""
    if (document.get("apiVersion"), document.get("kind")) != (API_VERSION, "Stage"):
        raise StageError(
            f"expected a Stage of {API_VERSION}, got "
            f"{document.get('kind')} of {document.get('apiVersion')}"
        )
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise StageError("metadata.name: expected a name")
    if unknown := document.keys() - {"apiVersion", "kind", "metadata", "spec", "status"}:
        raise StageError(f"Stage {name}: unknown field {min(unknown)}")
    try:
        return _stage(name, msgspec.convert(document.get("spec"), Spec), steps)
    except msgspec.ValidationError as problem:
        text, _, place = str(problem).partition(" - at `")
        raise StageError(f"Stage {name}: {_path(place)}: {_with_lower_initial(text)}") from None
    except StageError as problem:
        raise StageError(f"Stage {name}: {problem}") from None


def _stage(name: str, spec: Spec, steps: Mapping[str, Collection[str]]) -> Stage:
    group, kind = spec.resource_ref.api_group, spec.resource_ref.kind
    if kind not in steps or group != "v1":
        expected = " or ".join(sorted(steps))
        raise StageError(f"spec.resourceRef: expected {expected} of v1, got {kind} of {group}")
    return Stage(name, spec, steps[kind])


def _path(place: str) -> str:
    return f"spec{place.strip('`$')}" if place else "spec"


def _with_lower_initial(text: str) -> str:
    return text[0].lower() + text[1:]


def _seconds(
    expression: Query | None, document: Document, since: float, default: float | None
) -> float | None:
    match expression(document) if expression is not None else None:
        case ["", *_]:
            return None
        case [str(text), *_]:
            with suppress(ValueError):
                return seconds_of(text) - since
            with suppress(ValueError):
                return Duration.parse(text)
    return default


def _query_from(source: ExpressionFrom | None, where: str) -> Query | None:
    if source is None:
        return None
    if source.cel is not None:
        raise StageError(f"{where}.cel: expected expressionFrom or jq; CEL is not supported")
    text = source.jq.expression if source.jq is not None else source.expression_from
    try:
        return query(text)
    except JqError as problem:
        field = "jq.expression" if source.jq is not None else "expressionFrom"
        raise StageError(f"{where}.{field}: {problem}") from None


def _tests(selector: StageSelector | None) -> list[Test]:
    """Returns the tests of a selector; an absent selector matches nothing."""
    if selector is None:
        return [Test(lambda _: None, lambda _: False)]
    tests = [_has("labels", key, value) for key, value in selector.match_labels.items()]
    tests += [_has("annotations", key, value) for key, value in selector.match_annotations.items()]
    for number, expression in enumerate(selector.match_expressions):
        where = f"spec.selector.matchExpressions[{number}]"
        if expression.cel is not None:
            raise StageError(f"{where}.cel: expected key or jq; CEL is not supported")
        jq = expression.jq or expression
        try:
            evaluate = query(jq.key)
        except JqError as problem:
            raise StageError(f"{where}.key: {problem}") from None
        match jq.operator:
            case "In" | "NotIn":
                if not jq.values:
                    raise StageError(f"{where}.values: expected values for {jq.operator}")
            case "Exists" | "DoesNotExist":
                if jq.values:
                    raise StageError(f"{where}.values: expected none for {jq.operator}")
            case operator:
                expected = "In, NotIn, Exists or DoesNotExist"
                raise StageError(f"{where}.operator: expected {expected}, got {operator!r}")
        tests.append(_test(evaluate, jq.operator, frozenset(jq.values)))
    return tests


@cache
def _test(evaluate: Query, operator: str, values: frozenset[str]) -> Test:
    if operator in ("In", "NotIn"):
        return Test(evaluate, _membership(values, operator == "In"))
    return Test(evaluate, _exists(operator == "Exists"))


def _has(field: str, key: str, value: str) -> Test:
    return Test(
        lambda document: [(document["metadata"].get(field) or {}).get(key)],
        lambda results: results == [value],
    )


def _membership(values: frozenset[str], expected: bool) -> Callable[[list[Any] | None], bool]:
    def accepts(results: list[Any] | None) -> bool:
        for result in results or ():
            if _text(result) in values:
                return expected
        return not expected

    return accepts


def _exists(expected: bool) -> Callable[[list[Any] | None], bool]:
    return lambda results: bool(results) is expected


def _text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
    return None


# ------------------------------------------------------------------------------------------ steps


def _steps(spec: Spec, names: Collection[str]) -> tuple[Step, ...]:
    if spec.steps:
        return tuple(
            step
            for number, document in enumerate(spec.steps)
            for step in _steps_of(document, f"spec.steps[{number}]", names)
        )
    if spec.next is None:
        raise StageError("spec: expected next or steps")
    next_ = spec.next
    steps: list[Step] = [part for part in (next_.event, next_.finalizers) if part is not None]
    if next_.patches:
        steps += [
            _patch(patch, f"spec.next.patches[{number}]")
            for number, patch in enumerate(next_.patches)
        ]
    elif next_.status_template:
        template = _template(next_.status_template, "spec.next.statusTemplate")
        steps.append(StagePatch(template, "status", next_.status_subresource, "strategic"))
    if next_.step:
        steps.append(_python(next_.step, "spec.next.step", names))
    if next_.delete:
        steps.append(Delete())
    return tuple(steps)


def _steps_of(document: StepDocument, where: str, names: Collection[str]) -> list[Step]:
    if document.apply is not None:
        raise StageError(f"{where}.apply: expected event, finalizers, patch, step or delete")
    steps: list[Step] = [part for part in (document.event, document.finalizers) if part is not None]
    if document.delete:
        return [*steps, Delete()]
    if document.patch is not None:
        steps.append(_patch(document.patch, f"{where}.patch"))
    if document.step:
        steps.append(_python(document.step, f"{where}.step", names))
    return steps


def _python(name: str, where: str, names: Collection[str]) -> PythonStep:
    if name not in names:
        raise StageError(f"{where}: expected one of {', '.join(sorted(names))}, got {name!r}")
    return PythonStep(name)


def _patch(patch: PatchTemplate, where: str) -> StagePatch:
    template = _template(patch.template, f"{where}.template")
    return StagePatch(template, patch.root, patch.subresource, patch.type or "strategic")


def _template(text: str, where: str) -> Template:
    try:
        return Template(text, functions.NAMES)
    except TemplateError as problem:
        raise StageError(f"{where}: {problem}") from None
