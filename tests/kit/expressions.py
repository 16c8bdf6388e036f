"""A grammar of device selectors: draws expressions that pass the check of types and that repeat
costly work: loops in loops, texts that double, patterns that are put together while they run.
"""

from __future__ import annotations

from functools import cache
from random import Random

from berth.actors.scheduling.cel.declarations import Overload
from berth.actors.scheduling.cel.functions import FUNCTIONS
from berth.actors.scheduling.cel.types import BOOL, INT, STRING, Type, list_of, parse_type

_LITERALS = {
    "bool": ("true", "false"),
    "int": ("0", "1", "-1", "7", "200", "9223372036854775807", 'device.attributes["d"].i'),
    "uint": ("0u", "3u", "18446744073709551615u"),
    "double": ("0.5", "1e300", "-2.0"),
    "string": (
        "''",
        "'a'",
        "'0123456789'",
        "'%s%s'",
        "'%.9f%b%x%e'",
        "'No/Such'",
        "'Europe/Berlin'",
        "'1.2.3-a.b+c'",
        "'1Gi'",
        "'fe80::/10'",
        "'::1'",
        "'2026-02-30'",
        "'http://[::1]:80/a%20b?b=c&b=d'",
        r"r'\pL{60}'",
        "'(a|b)*c'",
        "'(?i)(x+x+)+y'",
        "'.*.*.*'",
        "'" + "ab" * 40 + "'",
        "'\U0001f600'",
        'device.attributes["d"].s',
        "device.driver",
    ),
    "bytes": ("b''", r"b'a\xff'"),
    "timestamp": ("timestamp(0)", "timestamp('2026-01-01T00:00:00Z')"),
    "duration": ("duration('1h1ms')", "duration('-1s')"),
    "quantity": ("quantity('1Gi')", "quantity('1e-9')", 'device.capacity["d"].c'),
    "semver": ("semver('1.2.3')", "semver('v1.0', true)", 'device.attributes["d"].v'),
    "url": ("url('http://a:1/b?c=d')",),
    "ip": ("ip('::1')", "ip('10.0.0.1')"),
    "cidr": ("cidr('10.0.0.0/8')",),
    "format": ("format.dns1123Label()", "format.uri()", "format.datetime()", "format.byte()"),
    "dyn": ("dyn(1)", "dyn('a')", "dyn([1, 'a'])", "dyn({'a': 1.5})", "dyn(null)"),
    "type": ("int", "type('a')"),
}
_NAMED = {parse_type(name): literals for name, literals in _LITERALS.items() if name != "type"}
_SIMPLE = tuple(map(parse_type, ("bool", "int", "uint", "double", "string", "duration")))
_OVERLOADS = tuple(
    overload
    for name, overloads in FUNCTIONS.items()
    for overload in overloads
    if "@" not in name or name == "@in"
)
# By type: forms of loops over a list, with the type of the last part.
_LOOPS = {
    BOOL: [
        ("{}.all({}, {})", BOOL),
        ("{}.exists({}, {})", BOOL),
        ("{}.exists_one({}, {})", BOOL),
    ],
    INT: [
        ("{}.filter({}, {}).size()", BOOL),
        ("{}.map({}, {}).size()", STRING),
        ("{}.sortBy({}, {}).size()", INT),
    ],
    STRING: [("{}.map({}, {}).join('')", STRING), ("'%s'.format([{}.map({}, {})])", STRING)],
}


class Grammar:
    """A grammar that draws an expression of about `nodes` parts."""

    def __init__(self, random: Random, nodes: int) -> None:
        self._random = random
        self._nodes = nodes
        self._scope: list[tuple[str, Type]] = []
        self._names = 0

    def expression(self, result: Type) -> str:
        """Returns an expression of this type, which must have no parameters."""
        self._nodes -= 1
        names = [name for name, type_ in self._scope if type_ == result]
        die = self._random.random()
        if names and die < 0.4:
            return self._random.choice(names)
        if self._nodes > 0:
            if die < 0.55:
                return self._binding(result)
            if die < 0.75 and result in _LOOPS:
                return self._loop(result)
            if die < 0.95:
                return self._call(result)
        return self._literal(result)

    def _literal(self, result: Type) -> str:
        if result in _NAMED:
            return self._random.choice(_NAMED[result])
        if result.name == "list":
            return f"[{self._literal(result.of[0])}]"
        if result.name == "map":
            return f"{{{self._literal(result.of[0])}: {self._literal(result.of[1])}}}"
        if result.name == "optional_type":
            return f"optional.of({self._literal(result.of[0])})"
        return self._random.choice(_LITERALS["type"])

    def _binding(self, result: Type) -> str:
        """Returns an expression with a variable, whose value is doubled some times."""
        type_ = self._random.choice([STRING, STRING, list_of(INT), list_of(STRING), *_SIMPLE])
        value = self.expression(type_)
        if type_ == STRING or type_.name == "list":
            for _ in range(self._random.choice([0, 0, 2, 8, 20])):
                value = f"cel.bind(x, {value}, x + x)"
        name, body = self._body(type_, result)
        return f"cel.bind({name}, {value}, {body})"

    def _loop(self, result: Type) -> str:
        element = self._random.choice([INT, STRING])
        if self._random.random() < 0.2:
            values = self.expression(list_of(element))
        else:
            values = f"lists.range({self._random.choice([3, 20, 300, 5_000])})"
            values += ".map(i, string(i))" if element == STRING else ""
        form, type_ = self._random.choice(_LOOPS[result])
        return form.format(values, *self._body(element, type_))

    def _body(self, type_: Type, result: Type) -> tuple[str, str]:
        """Returns the name of a new variable, and an expression that may use it."""
        self._names += 1
        name = f"v{self._names}"
        self._scope.append((name, type_))
        body = self.expression(result)
        self._scope.pop()
        return name, body

    def _call(self, result: Type) -> str:
        """Returns a call of any function or operator with this result."""
        overload, result_types = self._random.choice(_overloads(result))
        types = dict(result_types)
        for param in overload.params:
            self._choose(param, types)
        args = [self.expression(_filled(param, types)) for param in overload.params]
        name = overload.function
        if name == "_?_:_":
            return "({} ? {} : {})".format(*args)
        if name in ("_[_]", "_[?_]"):
            return f"{args[0]}{name[1:].replace('_', args[1])}"
        if name[0] == "_":
            return f"({args[0]} {name.strip('_')} {args[1]})"
        if name == "@in":
            return f"({args[0]} in {args[1]})"
        if name.endswith("_"):
            return f"{name[0]}({args[0]})"
        if overload.member:
            return f"{args[0]}.{name}({', '.join(args[1:])})"
        return f"{name}({', '.join(args)})"

    def _choose(self, type_: Type, types: dict[str, Type]) -> None:
        """Chooses a type for each parameter of the type that has none."""
        if type_.kind == "param":
            types.setdefault(type_.name, self._random.choice(_SIMPLE))
        for part in type_.of:
            self._choose(part, types)


@cache
def _overloads(result: Type) -> list[tuple[Overload, dict[str, Type]]]:
    """Returns the overloads with this result, with the parameters that the result tells."""
    overloads = []
    for overload in _OVERLOADS:
        types: dict[str, Type] = {}
        if _matches(overload.result, result, types):
            overloads.append((overload, types))
    return overloads


def _matches(declared: Type, result: Type, types: dict[str, Type]) -> bool:
    """True if the declared type becomes the result with `types`, which it completes."""
    if declared.kind == "param":
        return types.setdefault(declared.name, result) == result
    if declared[:2] != result[:2] or len(declared.of) != len(result.of):
        return False
    return all(_matches(a, b, types) for a, b in zip(declared.of, result.of, strict=True))


def _filled(type_: Type, types: dict[str, Type]) -> Type:
    """Returns the type with its parameters replaced."""
    if type_.kind == "param":
        return types[type_.name]
    return type_._replace(of=tuple(_filled(part, types) for part in type_.of))
