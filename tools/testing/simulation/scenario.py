"""A scenario: what happens in a simulated cluster, as data that a file can hold.

Times are seconds since the beginning, in virtual time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from berth.actors.scheduling.decision.registry import RegistryError
from berth.config.feature_gates import with_defaults
from berth.config.load import ConfigError
from berth.config.types import RESOURCE_LOCKS
from berth.config.versions import emulated

from ...answers.explain.decider import Explainer
from ...answers.manifests.manifest_files import ManifestError
from ...cluster.faults.fault_files import check_all, one_document
from ...cluster.faults.vocabulary import MOST_SECONDS, Fault, FaultError, FaultPlace
from ..added_objects import manifests_of
from ..cluster import KINDS_BY_NAME
from ..configuration import configuration_of, refuse_extenders

Document = dict[str, Any]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)]
MOST_SCHEDULERS = 100
DEFINITION = "CustomResourceDefinition"
NAMED = ("delete", "patch", "evict", "bind")
Verb = Literal["create", "delete", "patch", "evict", "bind", "restart", "compact"]


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

    at: Seconds
    verb: Verb
    kind: str = ""
    name: str = ""
    node: str = ""
    body: Document = {}
    number: int = 0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A story of `seconds`, after which there are no faults, and the properties are checked.

    `seed` decides what is left to chance. With several `schedulers`, one of them leads; `locks` are
    the kinds of their locks, as in a migration from an older one to leases, which is the default.
    `config` is a KubeSchedulerConfiguration.
    """

    seed: int = 1
    seconds: Seconds = 3600.0
    schedulers: Annotated[int, msgspec.Meta(ge=0, le=MOST_SCHEDULERS)] = 1
    locks: tuple[str, ...] = ()
    version: str = "1.36"
    config: Document = {}
    faults: tuple[Fault, ...] = ()
    steps: tuple[ScenarioStep, ...] = ()

    def lock_of(self, number: int) -> str:
        """Returns the kind of the lock of a scheduler, "" if it needs none."""
        if self.schedulers < 2:
            return ""
        return self.locks[number] if number < len(self.locks) else "leases"


def read_scenario(path: Path) -> Scenario:
    """Reads a scenario from YAML or JSON. Raises FaultError, which names the field, and OSError."""
    try:
        scenario = one_document(path.read_bytes(), Scenario)
        _check_schedulers(scenario)
        check_all(scenario.faults, FaultPlace.SIMULATION)
        for number, fault in enumerate(scenario.faults):
            if fault.does in ("kill", "stop"):
                _check_number(fault.number, scenario, f"faults[{number}]")
        for number, step in enumerate(scenario.steps):
            _check(step, scenario, f"steps[{number}]")
    except FaultError as problem:
        raise FaultError(f"{path}: {problem}") from None
    return scenario


def _check_schedulers(scenario: Scenario) -> None:
    """Raises FaultError for schedulers that cannot start."""
    for number, lock in enumerate(scenario.locks):
        if lock not in RESOURCE_LOCKS:
            expected = f"one of {', '.join(RESOURCE_LOCKS)}"
            raise FaultError(f"locks[{number}]: expected {expected}, got {lock!r}")
    try:
        gates = with_defaults({}, emulated(scenario.version))
    except ValueError as problem:
        raise FaultError(f"version: {problem}") from None
    if scenario.config:
        try:
            configuration = configuration_of(scenario.config, gates)
            refuse_extenders(configuration)
            Explainer(configuration, gates)
        except (ConfigError, RegistryError) as problem:
            raise FaultError(f"config: {problem}") from None


def _check_number(number: int, scenario: Scenario, path: str) -> None:
    if not 0 <= number < scenario.schedulers:
        expected = f"one of {scenario.schedulers} schedulers, from 0"
        raise FaultError(f"{path}.number: expected {expected}, got {number}")


def _check(step: ScenarioStep, scenario: Scenario, path: str) -> None:
    """Raises FaultError for a scheduler or an object that cannot be. Objects of a custom kind are
    known once the story has created its definition.
    """
    if step.verb == "restart":
        _check_number(step.number, scenario, path)
    if step.verb in NAMED and not step.name:
        raise FaultError(f"{path}.name: expected the name of what to {step.verb}, got ''")
    if step.verb == "bind" and not step.node:
        raise FaultError(f"{path}.node: expected the name of a node, got ''")
    if any(each.body.get("kind") == DEFINITION for each in scenario.steps):
        return
    if step.verb in ("delete", "patch") and step.kind not in KINDS_BY_NAME:
        raise FaultError(
            f"{path}.kind: expected the name of a kind, such as Pod, got {step.kind!r}"
        )
    if step.verb == "create":
        try:
            manifests_of(step.body, ())
        except ManifestError as problem:
            raise FaultError(f"{path}.body: {problem}") from None


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
