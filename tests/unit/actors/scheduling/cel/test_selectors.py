"""Selectors against facts of Kubernetes: the cases of compile_test.go and documented examples."""

from __future__ import annotations

import pytest

from berth.actors.scheduling.cel import CelError, selector
from berth.actors.scheduling.kube.devices import Device, DeviceAttribute, DeviceCapacity
from tests.unit.actors.scheduling.cel.expressions import outcome

DRIVER = "dra.example.com"


def value(raw: object) -> DeviceAttribute:
    """Returns an attribute of the type of a Python value; a version begins with v."""
    match raw:
        case bool():
            return DeviceAttribute(bool_=raw)
        case int():
            return DeviceAttribute(int_=raw)
        case str() if raw[:1] == "v" and raw[1:2].isdigit():
            return DeviceAttribute(version=raw[1:])
        case str():
            return DeviceAttribute(string=raw)
        case _:
            raise TypeError(raw)


def device(capacity: dict[str, str] | None = None, **attributes: object) -> Device:
    return Device(
        attributes={name: value(raw) for name, raw in attributes.items()},
        capacity={name: DeviceCapacity(value=text) for name, text in (capacity or {}).items()},
    )


MEMORY = device(capacity={"name": "1Mi"})
EVERYTHING = Device(
    attributes={
        "bool": DeviceAttribute(bool_=True),
        "int": DeviceAttribute(int_=1),
        "string": DeviceAttribute(string="fish"),
        "version": DeviceAttribute(version="1.0.0"),
        "other.example.com/name": DeviceAttribute(bool_=True),
    },
    capacity={"quantity": DeviceCapacity(value="1Mi")},
)
ALL = """
device.capacity["dra.example.com"].quantity.isGreaterThan(quantity("1Ki")) &&
device.attributes["dra.example.com"].bool &&
device.attributes["dra.example.com"].int > 0 &&
device.attributes["dra.example.com"].string == "fish" &&
device.attributes["dra.example.com"].version.isGreaterThan(semver("0.0.1")) &&
device.capacity["dra.example.com"]["quantity"].isGreaterThan(quantity("1Ki")) &&
device.attributes["dra.example.com"]["bool"] &&
device.attributes["dra.example.com"]["int"] > 0 &&
device.attributes["dra.example.com"]["string"] == "fish" &&
device.attributes["dra.example.com"]["version"].isGreaterThan(semver("0.0.1"))
"""


@pytest.mark.parametrize(
    ("expression", "tested", "expected"),
    [
        ("true", Device(), True),
        ("false", Device(), False),
        ('"no-such-domain" in device.attributes', Device(), False),
        ('"dra.example.com" in device.attributes', device(something=True), True),
        ('device.driver == "dra.example.com"', Device(), True),
        ('device.attributes["dra.example.com"].name', device(name=True), True),
        ('device.attributes["dra.example.com"]["name"]', device(name=True), True),
        (
            'cel.bind(dra, device.attributes["dra.example.com"], dra.name)',
            device(name=True),
            True,
        ),
        ('device.attributes["other.example.com"].name', EVERYTHING, True),
        ('device.attributes["dra.example.com"].name > 0', device(name=1), True),
        ('device.attributes["dra.example.com"].name == "fish"', device(name="fish"), True),
        (
            'device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))',
            MEMORY,
            True,
        ),
        (
            (
                '"name" in device.capacity["dra.example.com"] && '
                'device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))'
            ),
            MEMORY,
            True,
        ),
        (
            (
                '!("name" in device.capacity["dra.example.com"]) || '
                'device.capacity["dra.example.com"].name.isGreaterThan(quantity("1Ki"))'
            ),
            Device(),
            True,
        ),
        (ALL, EVERYTHING, True),
        (
            'device.attributes.exists_one(x, x == "dra.example.com")',
            device(services="x"),
            True,
        ),
        (
            'device.attributes["dra.example.com"].exists_one(x, x == "services")',
            device(services="x"),
            True,
        ),
        (
            'device.attributes["dra.example.com"].services.split("example").size() >= 2',
            device(services="some_example_value"),
            True,
        ),
        (
            'device.attributes["dra.example.com"].services.matches("[^a]?sym")',
            device(services="asymetric"),
            True,
        ),
        ('device.capacity.exists_one(x, x == "dra.example.com")', MEMORY, True),
        ('device.capacity["dra.example.com"].exists_one(x, x == "name")', MEMORY, True),
        (
            "device.allowMultipleAllocations == true",
            Device(allow_multiple_allocations=True),
            True,
        ),
        ("device.allowMultipleAllocations == false", Device(), True),
        (
            "device.allowMultipleAllocations == false",
            Device(allow_multiple_allocations=False),
            True,
        ),
    ],
)
def test_selects_devices_as_kubernetes_tests_it(
    expression: str, tested: Device, expected: bool
) -> None:
    compiled = selector(expression)
    assert compiled.error == ""
    assert compiled.matches(DRIVER, tested) is expected


GPU = Device(
    attributes={
        "model": DeviceAttribute(string="a100"),
        "index": DeviceAttribute(int_=4),
        "ecc": DeviceAttribute(bool_=False),
        "driverVersion": DeviceAttribute(version="2.3.0"),
        "resource.example.org/rack": DeviceAttribute(string="r1"),
    },
    capacity={"memory": DeviceCapacity(value="80Gi")},
)


@pytest.mark.parametrize(
    "expression",
    [
        (
            'device.driver == "gpu.example.com" && '
            'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0'
        ),
        'device.attributes["gpu.example.com"].model in ["a100","h100"]',
        'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.0"))',
        'device.attributes["gpu.example.com"].model.matches("^[ah]100$")',
        'device.attributes["resource.example.org"].?rack.orValue("none") == "r1"',
        'device.attributes["gpu.example.com"].index % 2 == 0',
        'cel.bind(d, device.attributes["gpu.example.com"], d.model == "a100" || d.index == 0)',
        'device.attributes["gpu.example.com"].driverVersion.major() == 2',
        '"rack" in device.attributes["resource.example.org"]',
        '!device.attributes["gpu.example.com"].ecc',
        # Of the documentation of dynamic resource allocation.
        (
            'device.attributes["gpu.example.com"].model == "a100" && '
            'device.capacity["gpu.example.com"].memory.compareTo(quantity("64Gi")) >= 0'
        ),
        'device.capacity["gpu.example.com"].memory == quantity("80Gi")',
        "has(device.attributes['gpu.example.com'].model)",
        "!has(device.attributes['gpu.example.com'].color)",
        "device.attributes['none.example.com'].?x.orValue(true)",
        'device.attributes[?"none.example.com"].hasValue()',
    ],
)
def test_examples_of_selectors(expression: str) -> None:
    compiled = selector(expression)
    assert compiled.error == ""
    assert compiled.matches("gpu.example.com", GPU)


@pytest.mark.parametrize(
    ("expression", "tested", "message"),
    [
        (
            'device.attributes["no-such-domain"].noSuchAttr.isGreaterThan(quantity("0"))',
            Device(),
            "no such key: noSuchAttr",
        ),
        (
            'device.attributes["no-such-domain"]["noSuchAttr"].isGreaterThan(quantity("0"))',
            Device(),
            "no such key: noSuchAttr",
        ),
        (
            'device.attributes["dra.example.com"].names',
            Device(attributes={"names": DeviceAttribute(strings=("fish", "bird"))}),
            "attribute names: unsupported attribute value",
        ),
        (
            "true",
            Device(attributes={"a/b": DeviceAttribute(version="1.0")}),
            "attribute a/b: parse semantic version: No Major.Minor.Patch elements found",
        ),
        ('device.attributes["dra.example.com"].a', device(a=1), "could not be converted to bool"),
        ('device.attributes["dra.example.com"].a > 1', device(a="x"), "no such overload"),
        ('!device.attributes["dra.example.com"].a', device(a="x"), "no such overload"),
        ('device.attributes["dra.example.com"].a && true', device(a="x"), "no such overload"),
        ('device.attributes["dra.example.com"].a.b == 1', device(a="x"), "no such key: b"),
        ('device.attributes["dra.example.com"].a / 0 == 1', device(a=1), "division by zero"),
        ('device.attributes["dra.example.com"].a % 0 == 1', device(a=1), "modulus by zero"),
        (
            'device.attributes["dra.example.com"].a.matches("x")',
            device(a=1),
            "no such overload",
        ),
        ("[1, 2][2] == 1", Device(), "index out of bounds: 2"),
        ("9223372036854775807 + 1 == 0", Device(), "integer overflow"),
        (
            (
                "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(y, "
                "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z2, "
                "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z3, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z4, "
                "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(z5, int('1'.find('[0-9]*')) < 100)))))))"
            ),
            Device(),
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_errors_at_run_time(expression: str, tested: Device, message: str) -> None:
    compiled = selector(expression)
    assert compiled.error == ""
    with pytest.raises(CelError, match=message.replace("(", r"\(")):
        compiled.matches(DRIVER, tested)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("?!", "Syntax error"),
        ("", "Syntax error"),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
        ("duration('1s')", "not google.protobuf.Duration"),
        ("[1]", "not list(int)"),
        ("null", "not null_type"),
        (
            "device.driver == 1",
            "found no matching overload for '_==_' applied to '(string, int)'",
        ),
        ("device.color", "undefined field 'color'"),
        ("device.driver.x", "type 'string' does not support field selection"),
        ("colour", "undeclared reference to 'colour' (in container '')"),
        ("device.driver.sparkles()", "undeclared reference to 'sparkles'"),
        (
            'device.capacity["a"].b > 1',
            "found no matching overload for '_>_' applied to '(kubernetes.Quantity, int)'",
        ),
        (
            'device.attributes["a"].b.exists(x, x > 0)',
            "expression of type 'any' cannot be range of a comprehension",
        ),
        ("[1, 'a'] == []", "expected type 'int' but found 'string'"),
        ("duration('1 day') > duration('1s')", "invalid duration argument"),
        ("timestamp('now') > timestamp(0)", "invalid timestamp argument"),
        ("device.driver.matches('(')", "invalid matches argument"),
        ("int('x') == 1", "program instantiation failed: type conversion error"),
        ('device.attributes["a"].b >= semver("1.0.0") || true', "no matching overload for '_>=_'"),
        ("true && 1", "expected type 'bool' but found 'int'"),
        ("if == 1", "reserved identifier: if"),
        ("9223372036854775808 == 1", "invalid int literal"),
        ("'%q'.format([1]) == ''", "unrecognized formatting clause"),
    ],
)
def test_errors_of_compilation(expression: str, error: str) -> None:
    compiled = selector(expression)
    assert error in compiled.error
    with pytest.raises(CelError):
        compiled.matches(DRIVER, Device())


def test_an_error_shows_its_place() -> None:
    assert selector("true &&\n  device.driver == 1").error == (
        "compilation failed: ERROR: <input>:2:17: found no matching overload for '_==_' applied to "
        "'(string, int)'\n |   device.driver == 1\n | ................^"
    )


def test_a_selector_is_compiled_once() -> None:
    assert selector("1 == 1") is selector("1 == 1")


def test_a_variable_hides_the_type_of_its_name() -> None:
    assert outcome("[{'IP': true}].all(net, net.IP)") is True
