"""Selectors over attributes that may be lists, as since Kubernetes 1.37: the cases of
compile_test.go of k8s.io/dynamic-resource-allocation/cel.
"""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.cel import CelError, selector
from berth.actors.scheduling.cel.expressions import Expression
from berth.actors.scheduling.kube.devices import Device, DeviceAttribute

DRIVER = "dra.example.com"
NAME = f'device.attributes["{DRIVER}"].name'
MANY = tuple(f"value-{number}" for number in range(48))


def having(**values: Any) -> Device:
    """Returns a device whose attribute `name` has these values."""
    attribute = {
        "int_" if key == "int" else "bool_" if key == "bool" else key: each
        for key, each in values.items()
    }
    return Device(attributes={"name": DeviceAttribute(**attribute)} if values else {})


@pytest.mark.parametrize(
    ("expression", "tested", "expected"),
    [
        (f"{NAME}.size() == 2", having(bools=(True, False)), True),
        (f"{NAME}.size() == 2", having(ints=(1, 2)), True),
        (f"{NAME}.size() == 2", having(strings=("fish", "bird")), True),
        (f"{NAME}.size() == 2", having(versions=("1.0.0", "2.0.0")), True),
        (f"{NAME}.exists(x, x > 0)", having(ints=(1, 2)), True),
        (f'{NAME}.all(x, x != "")', having(strings=("fish", "bird")), True),
        (
            f'{NAME}.all(x, x.isGreaterThan(semver("0.0.1")))',
            having(versions=("1.0.0", "2.0.0")),
            True,
        ),
        (f'{NAME}.includes("fish")', having(strings=("fish", "bird")), True),
        (f"{NAME}.includes(true)", having(bool=True), True),
        (f"{NAME}.includes(true)", having(bool=False), False),
        (f"{NAME}.includes(true)", having(bools=(True, False)), True),
        (f"{NAME}.includes(false)", having(bools=(True, True)), False),
        (f"{NAME}.includes(1)", having(int=1), True),
        (f"{NAME}.includes(1)", having(int=2), False),
        (f"{NAME}.includes(1)", having(ints=(1, 2)), True),
        (f"{NAME}.includes(3)", having(ints=(1, 2)), False),
        (f'{NAME}.includes("fish")', having(string="fish"), True),
        (f'{NAME}.includes("bird")', having(string="fish"), False),
        (f'{NAME}.includes("cat")', having(strings=("fish", "bird")), False),
        (f'{NAME}.includes(semver("1.0.0"))', having(version="1.0.0"), True),
        (f'{NAME}.includes(semver("2.0.0"))', having(version="1.0.0"), False),
        (f'{NAME}.includes(semver("1.0.0"))', having(versions=("1.0.0", "2.0.0")), True),
        (f'{NAME}.includes(semver("3.0.0"))', having(versions=("1.0.0", "2.0.0")), False),
        (f'{NAME}.includes("value-48")', having(strings=MANY), False),
        (f'{NAME}.includes("value-47")', having(strings=MANY), True),
        (f"1 in {NAME}", having(ints=(1, 2, 3)), True),
        # As before: scalars, and the attribute itself as the result.
        (NAME, having(bool=True), True),
        (f'{NAME} == "fish"', having(string="fish"), True),
        (f'{NAME}.isGreaterThan(semver("0.0.1"))', having(version="1.0.0"), True),
        (f'cel.bind(dra, device.attributes["{DRIVER}"], dra.name)', having(bool=True), True),
        ('"dra.example.com" in device.attributes', having(bool=True), True),
    ],
)
def test_selectors_of_lists(expression: str, tested: Device, expected: bool) -> None:
    compiled = selector(expression, lists=True)
    assert compiled.error == ""
    assert compiled.matches(DRIVER, tested) is expected


@pytest.mark.parametrize(
    ("expression", "tested", "message"),
    [
        (f"{NAME}.exists(x, x > 0)", having(int=1), "expected iterable type"),
        (f"{NAME}.exists(x, x == true)", having(bool=True), "expected iterable type"),
        (f'{NAME}.exists(x, x == "fish")', having(string="fish"), "expected iterable type"),
        (NAME, having(strings=("fish", "bird")), "CEL result of type list could not be converted"),
        (
            f'{NAME}.includes("value-49")',
            having(strings=(*MANY, "value-48")),
            "'includes' function cannot be applied to lists longer than 48 values",
        ),
        (f'{NAME}.includes("x")', having(), "no such key: name"),
        (f"{NAME}.size() == 1", having(versions=("1",)), "attribute name: parse semantic version"),
        (f"{NAME} == 1", having(int=None), "attribute name: unsupported attribute value"),
    ],
)
def test_selectors_that_fail(expression: str, tested: Device, message: str) -> None:
    compiled = selector(expression, lists=True)
    assert compiled.error == ""
    with pytest.raises(CelError, match=message):
        compiled.matches(DRIVER, tested)


def test_before_1_37_attributes_are_scalars() -> None:
    """The function `includes` is there nevertheless: cel/compile.go of 1.36.2 has it behind a gate,
    which the environment of stored expressions does not ask.
    """
    for expression, expected in ((f'{NAME}.includes("x")', True), ("[1, 2].includes(3)", False)):
        assert selector(expression).matches(DRIVER, having(string="x")) is expected
    assert "cannot be range of a comprehension" in selector(f"{NAME}.exists(x, x > 0)").error
    with pytest.raises(CelError, match="unsupported attribute value"):
        selector("true").matches(DRIVER, having(ints=(1, 2)))
    assert "must evaluate to bool or the unknown type, not int" in selector("1", lists=True).error


def test_other_expressions_have_no_includes() -> None:
    assert "undeclared reference to 'includes'" in Expression("[1].includes(1)", {}).error
