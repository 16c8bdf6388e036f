"""The vocabulary of faults: what can go wrong between a cluster and its API server, as data.

A request or an event meets a fault with the probability `chance` while the fault is in force; what
happens at a time happens once, at `begin`. Times are seconds since the faults were added.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple, get_args

import msgspec

Does = Literal[
    "slow", "refuse", "disk-full", "lose", "unanswered", "truncated", "arrive-late", "half-open",
    "older", "watch-late", "watch-repeat", "watch-cut", "watch-garbage", "watch-silent",
    "watch-expired", "server-restart", "server-restart-cold", "compact", "clock-jump",
    "namespace-gone", "foreign-bind", "kill", "stop", "plugin-raise", "plugin-sleep",
]  # fmt: skip
POINTS = (
    "PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit",
    "PreBind", "PostBind",
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
WRITES = METHODS[1:]
MOST_SECONDS = 366 * 86400.0  # a year: longer than a story, and no date overflows
DISK_FULL = "etcdserver: mvcc: database space exceeded"  # as kube-apiserver passes it on
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
    405: "MethodNotAllowed", 406: "NotAcceptable", 409: "Conflict", 410: "Expired",
    413: "RequestEntityTooLarge", 415: "UnsupportedMediaType", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class FaultError(ValueError):
    """A fault cannot be used; the message names the field and says what was expected."""


class Refusal(NamedTuple):
    """A refusal of the API server: its HTTP code, its reason ("" for none) and its message."""

    code: int
    reason: str
    message: str


class FaultPlace(StrEnum):
    """Where faults are: in a simulation or at the start of a cluster of berth.testing, in such a
    cluster that runs, between an API server and its clients, among the processes of `berth chaos`.
    """

    SIMULATION = "a simulation"
    CLUSTER = "a running cluster"
    WIRE = "berth apiserver"
    CHAOS = "berth chaos"


class Met(StrEnum):
    """What meets a fault, or that it happens at a time."""

    REQUEST = "a request"
    LIST = "a list"
    EVENT = "an event of a watch"
    POD = "a new pod"
    POINT = "a call of a plugin"
    TIME = "happens once"


class FaultKind(NamedTuple):
    """A fault of the vocabulary: `fields` are those that it has beside `begin`, and `refused` says
    why a place cannot have it.
    """

    met: Met
    text: str
    fields: tuple[str, ...] = ()
    refused: Mapping[FaultPlace, str] = {}


_NO_SCHEDULER = {FaultPlace.WIRE: "an API server runs no scheduler"}
_NO_PLUGINS = {
    FaultPlace.CLUSTER: "its scheduler has no plugin for it; use Cluster(faults=...)",
    FaultPlace.WIRE: "no plugin runs in an API server",
    FaultPlace.CHAOS: "its schedulers have the plugins of their configuration alone",
}
_CLIENT = ("clients",)
_REQUEST = ("methods", "paths", "clients")
_EVENT = ("paths", "clients")
_R, _E, _T = Met.REQUEST, Met.EVENT, Met.TIME

FAULTS: Mapping[Does, FaultKind] = {
    "slow": FaultKind(_R, "the answer takes `seconds` longer", ("seconds", *_REQUEST)),
    "refuse": FaultKind(
        _R, "the request is refused with `code`, such as 409, 410, 429 or 503", ("code", *_REQUEST)
    ),
    "disk-full": FaultKind(_R, "a write is refused with 500, as by a full disk", _EVENT),
    "lose": FaultKind(_R, "the connection is reset, and the request with it", _REQUEST),
    "unanswered": FaultKind(
        _R, "the request is carried out, and the connection is reset before its answer", _REQUEST
    ),
    "truncated": FaultKind(
        _R, "the request is carried out, and the connection ends in the middle of its answer",
        _REQUEST,
    ),
    "arrive-late": FaultKind(
        _R, "the connection is reset; the request arrives `seconds` later all the same",
        ("seconds", *_REQUEST),
    ),
    "half-open": FaultKind(
        _R, "the request is lost; the connection stays open, and nothing comes any more", _REQUEST
    ),
    "older": FaultKind(
        Met.LIST, "it shows the objects of `seconds` ago, at their lower revision",
        ("seconds", *_EVENT),
    ),
    "watch-late": FaultKind(
        _E, "the event comes `seconds` late, and those after it too", ("seconds", *_EVENT)
    ),
    "watch-repeat": FaultKind(_E, "the event comes twice", _EVENT),
    "watch-cut": FaultKind(_E, "the connection ends in the middle of the event", _EVENT),
    "watch-garbage": FaultKind(_E, "something that is no event comes instead", _EVENT),
    "watch-silent": FaultKind(
        _E, "neither this event nor another one comes, and the connection stays open", _EVENT
    ),
    "watch-expired": FaultKind(_E, "the watch ends with 410 instead: list again", _EVENT),
    "server-restart": FaultKind(
        _T, "the API server is away for `seconds`; it keeps its history", ("seconds",)
    ),
    "server-restart-cold": FaultKind(
        _T, "the API server is away for `seconds`, and its watch cache is lost", ("seconds",)
    ),
    "compact": FaultKind(_T, "the history is forgotten: watches that are late must list again"),
    "clock-jump": FaultKind(
        _T, "the API server's clock jumps by `seconds`, which may be negative", ("seconds",)
    ),
    "namespace-gone": FaultKind(_T, "somebody deletes `namespace`", ("namespace",)),
    "foreign-bind": FaultKind(
        Met.POD, "another scheduler binds it to `node`, by default to any, `seconds` later",
        ("seconds", "node"),
    ),
    "kill": FaultKind(
        _T, "the scheduler of this `number` is killed; another starts `seconds` later",
        ("seconds", "number"), _NO_SCHEDULER,
    ),
    "stop": FaultKind(
        _T, "the scheduler of this `number` stands still for `seconds`",
        ("seconds", "number"), _NO_SCHEDULER,
    ),
    "plugin-raise": FaultKind(
        Met.POINT, "a plugin raises at these extension `points`", ("points",), _NO_PLUGINS
    ),
    "plugin-sleep": FaultKind(
        Met.POINT, "a plugin holds its scheduler up for `seconds` at these extension `points`",
        ("seconds", "points"), _NO_PLUGINS,
    ),
}  # fmt: skip


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault, which `does` one thing of FAULTS.

    It is in force from `begin` until `end`. A request or an event meets it with the probability
    `chance`, if its method is among `methods`, its path ends with one of `paths`, and the name of
    its client (of its user agent on the wire) contains one of `clients`; empty ones are all.
    """

    does: Does
    chance: float = 1.0
    begin: float = 0.0
    end: float = float("inf")
    seconds: float = 1.0
    code: int = 500
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    number: int = 0
    namespace: str = ""
    node: str = ""

    @property
    def met(self) -> Met:
        return FAULTS[self.does].met

    @property
    def refusal(self) -> Refusal:
        """What a request is told that is refused, as kube-apiserver would say it."""
        if self.does == "disk-full":
            return Refusal(500, "", DISK_FULL)  # what etcd says has no reason
        reason = _REASONS.get(self.code, "InternalError" if self.code >= 500 else "")
        return Refusal(self.code, reason, "refused by a fault")


assert FAULTS.keys() == set(get_args(Does))
_DEFAULTS = Fault("slow")
_ALWAYS = ("does", "begin")
_OF_CHANCE = ("chance", "end")


def check(fault: Fault, place: FaultPlace, where: str = "fault") -> None:
    """Raises FaultError if a place cannot have this fault, or if a field of it cannot be used.
    `where` is its name in the message.
    """
    given: object = fault
    if not isinstance(given, Fault):
        raise FaultError(f"{where}: expected a Fault, got {given!r:.80}")
    try:
        fault = msgspec.convert(msgspec.to_builtins(fault), Fault)  # which checks the types
    except msgspec.ValidationError as wrong:
        what, _, field = str(wrong).partition(" - at `$.")
        raise FaultError(f"{where}.{field[:-1]}: {what}") from None
    kind = FAULTS[fault.does]
    if place in kind.refused:
        raise FaultError(f"{where}: {fault.does} is not for {place}: {kind.refused[place]}")
    own = {*_ALWAYS, *kind.fields, *(_OF_CHANCE if kind.met is not Met.TIME else ())}
    for field in fault.__struct_fields__:
        value = getattr(fault, field)
        if field not in own and value != getattr(_DEFAULTS, field):
            raise FaultError(f"{where}.{field}: {fault.does} has no such field")
        problem = _problem(field, value, fault)
        if problem:
            raise FaultError(f"{where}.{field}: expected {problem}, got {value!r}")


def _problem(field: str, value: object, fault: Fault) -> str:
    """Returns what was expected of a field; "" if it is so."""
    match field, value:
        case "chance", float() if not 0 <= value <= 1:
            return "a probability from 0 to 1"
        case "end", float() if not value > fault.begin:
            return f"seconds after {fault.begin:g}"
        case "seconds", float() if fault.does == "clock-jump" and abs(value) <= MOST_SECONDS:
            return ""
        case "begin" | "seconds", float() if not 0 <= value <= MOST_SECONDS:
            least = "" if fault.does == "clock-jump" and field == "seconds" else "at least 0 and "
            return f"seconds, {least}at most a year"
        case "code", int() if not 400 <= value <= 599:
            return "an HTTP status from 400 to 599"
        case "methods", tuple() if not set(value) <= set(METHODS):
            return f"some of {', '.join(METHODS)}"
        case "paths", tuple() if not all(str(each).startswith("/") for each in value):
            return "ends of paths such as /pods"
        case "points", tuple() if not set(value) <= set(POINTS):
            return f"some of {', '.join(POINTS)}"
        case "number", int() if value < 0:
            return "the number of a scheduler, from 0"
        case "namespace", "" if fault.does == "namespace-gone":
            return "the name of a namespace"
    return ""
