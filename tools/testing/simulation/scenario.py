"""A scenario: what happens in a simulated cluster, as data that a file can hold.

Times are seconds since the beginning, in virtual time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from berth.actors.scheduling.kube.yaml_documents import documents

Document = dict[str, Any]
Does = Literal["slow", "refuse", "lose", "unanswered", "arrive-late", "watch-late", "watch-repeat"]
Verb = Literal["create", "delete", "patch", "evict", "bind", "restart", "compact"]


class ScenarioError(ValueError):
    """A scenario cannot be read; the message names the field and what was expected."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault between the schedulers and the API server.

    A request meets it with the probability `chance`, from the second `begin` until `end`, if its
    method is among `methods` and its path ends with one of `paths` (all if they are empty).

        slow          the answer takes `seconds` longer
        refuse        the request is refused with `code`
        lose          the request is lost, and with it the connection
        unanswered    the request is carried out, and the answer is lost
        arrive-late   the connection is lost; the request arrives `seconds` later all the same
        watch-late    an event of a watch comes `seconds` late, and those after it too
        watch-repeat  an event of a watch comes twice
    """

    does: Does
    chance: float = 1.0
    begin: float = 0.0
    end: float = float("inf")
    seconds: float = 1.0
    code: int = 500
    methods: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class ScenarioStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that a client does, or that happens to the cluster.

    create    the object `body`
    delete    the object `kind`/`name` of the namespace default
    patch     that object, by a strategic merge patch
    evict     a pod of the workload `name`: the first that runs
    bind      the pod `name` to the node `node`, by another scheduler, if it is pending
    restart   the scheduler of this `number`, from 0
    compact   the history of the API server: watches that are late must list again
    """

    at: float
    verb: Verb
    kind: str = ""
    name: str = ""
    node: str = ""
    body: Document = {}
    number: int = 0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A story of `seconds`, after which there are no faults, and the properties are checked.

    `seed` decides what is left to chance. With several `schedulers`, one of them leads. `config` is
    a KubeSchedulerConfiguration.
    """

    seed: int = 1
    seconds: float = 3600.0
    schedulers: int = 1
    version: str = "1.36"
    config: Document = {}
    faults: tuple[Fault, ...] = ()
    steps: tuple[ScenarioStep, ...] = ()


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario from YAML or JSON. Raises ScenarioError and OSError."""
    try:
        found = list(documents(path.read_bytes()))
    except ValueError as problem:
        raise ScenarioError(f"{path}: {problem}") from None
    if len(found) != 1:
        raise ScenarioError(f"{path}: expected one document, got {len(found)}")
    try:
        return msgspec.convert(found[0], Scenario, strict=False)
    except msgspec.ValidationError as problem:
        raise ScenarioError(f"{path}: {problem}") from None


def written(scenario: Scenario) -> bytes:
    """Returns a scenario as a file holds it: JSON, with a line for each fault and step."""
    plain = msgspec.to_builtins(scenario)
    lines = []
    for field, value in plain.items():
        if isinstance(value, list | tuple):
            items = ",\n".join(f"  {msgspec.json.encode(item).decode()}" for item in value)
            lines.append(f'"{field}": [\n{items}\n]')
        else:
            lines.append(f'"{field}": {msgspec.json.encode(value).decode()}')
    return ("{" + ",\n".join(lines) + "}\n").encode()
