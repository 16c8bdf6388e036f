"""The PodDisruptionBudgets for preemption: read once, kept from pod to pod, and matched by the
labels of pods.

A user may have ten thousand budgets with thousands of requirements each, and as many small pods,
and every pod that fits nowhere asks which of them it may evict. So no budget is tried for a pod:
the labels of the pod are looked up, once for all pods that no budget can tell apart. Only the
budgets that changed are read again, in slices, and matched with the pods that were matched before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from berth.plugin import Bools, Ints, PodDisruptionBudget, PodInfo, Snapshot

from ...kube.labels import is_readable
from ...kube.meta import LabelSelector
from ...kube.selector_index import Distinguished, Label
from ...model.cluster_objects import ObjectName
from ...model.vectors import any_true

NO_BUDGETS: Ints = np.zeros(0, dtype=np.int64)
NONE_EXCEEDED: Bools = np.zeros(0, dtype=np.bool_)
MOST_KEPT = 1 << 20  # numbers of budgets that are kept for classes of pods
MOST_WITNESSES = 1 << 14
CLASS = 64  # numbers that take as much memory as a class without budgets
MOST_WORN = 16  # numbers of budgets that were replaced, besides as many as there are budgets
# The steps of reading a requirement, to which each of its values adds one; a budget adds as many as
# two requirements. See berth.actors.scheduling.plugins.steps.
REQUIREMENT = 3
SLICE = 20_000  # steps that are taken at once: five to fifteen milliseconds
# The steps of an attempt at most. All attempts together take less than half of the time.
MOST_STEPS = 32 * SLICE
# The steps of looking a pod up, and how many budgets are matched with its labels in one more.
STEPS_PER_POD, BUDGETS_PER_STEP = 20, 50


class Budget(msgspec.Struct, frozen=True):
    """A readable PodDisruptionBudget; `exempt` names the pods that count as disrupted already."""

    name: str
    namespace: str
    selector: LabelSelector
    allowed: int
    exempt: frozenset[str]

    @property
    def steps(self) -> int:
        """The steps that it takes to read the budget."""
        labels, expressions = self.selector.match_labels, self.selector.match_expressions
        values = len(labels) + sum([len(expression.values) for expression in expressions])
        return REQUIREMENT * (2 + len(labels) + len(expressions)) + values


def read_budget(budget: PodDisruptionBudget) -> Budget | None:
    """Returns the budget; None if it covers no pods, because its selector is absent or malformed.
    An empty selector covers all pods of the namespace, also those without labels.
    """
    selector = budget.spec.selector
    if selector is None or not is_readable(selector):
        return None
    metadata, exempt = budget.metadata, frozenset(budget.status.disrupted_pods)
    allowed = budget.status.disruptions_allowed
    return Budget(metadata.name, metadata.namespace, selector, allowed, exempt)


class _BudgetsByValue:
    """The budgets with a requirement about one label key, by number: about the key alone, or about
    each of its values.
    """

    __slots__ = ("of_key", "of_value")

    def __init__(self) -> None:
        self.of_key: list[int] = []
        self.of_value: defaultdict[str, list[int]] = defaultdict(list)


class _LabelIndex:
    """For each label, the numbers of the budgets with a requirement about it. The lists only
    grow.
    """

    def __init__(self) -> None:
        self._by_key: dict[str, _BudgetsByValue] = {}
        self._arrays: dict[Label, Ints] = {}

    def add(self, key: str, values: Iterable[str], number: int) -> None:
        """Adds a requirement about these different values of a key, or about the key alone."""
        requiring = self._by_key.get(key)
        if requiring is None:
            requiring = self._by_key[key] = _BudgetsByValue()
        if not values:
            requiring.of_key.append(number)
        of_value = requiring.of_value
        for value in values:
            of_value[value].append(number)

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def names(self, key: str, value: str) -> bool:
        """True if there is a requirement about this value of the key."""
        requiring = self._by_key.get(key)
        return requiring is not None and value in requiring.of_value

    def under(self, labels: Mapping[str, str], first: int) -> Ints:
        """Returns the numbers from `first` on of all of these labels, and of their keys."""
        arrays: list[Ints] = []
        for key, value in labels.items():
            requiring = self._by_key.get(key)
            if requiring is None:
                continue
            if requiring.of_key:
                arrays.append(self._array(key, requiring.of_key, first))
            numbers = requiring.of_value.get(value)
            if numbers is not None:
                arrays.append(self._array((key, value), numbers, first))
        return np.concatenate(arrays) if arrays else NO_BUDGETS

    def _array(self, label: Label, numbers: Sequence[int], first: int) -> Ints:
        begin = bisect_left(numbers, first)
        if begin:
            return np.array(numbers[begin:], dtype=np.int64)
        array = self._arrays.get(label)
        if array is None or len(array) != len(numbers):
            array = self._arrays[label] = np.array(numbers, dtype=np.int64)
        return array


class Covering(NamedTuple):
    """The budgets that cover a pod, by number. `forbidding` ones allow no disruption; the others
    are `counted`, with the number of disruptions that each allows.
    """

    numbers: Ints
    forbidding: Ints
    counted: Ints
    allowed: Ints


class _PodClass:
    """The pods that no budget can tell apart, with the budgets that cover them: those of the first
    `matched` numbers, at a revision.
    """

    __slots__ = ("covering", "matched", "revision")

    def __init__(self) -> None:
        self.covering = Covering(NO_BUDGETS, NO_BUDGETS, NO_BUDGETS, NO_BUDGETS)
        self.matched = 0
        self.revision = -1


class NamespaceBudgets:
    """The budgets of one namespace, by number. A replaced budget keeps its number, and covers no
    pod.
    """

    def __init__(self) -> None:
        self._budgets: list[Budget] = []
        self._number_of: dict[str, int] = {}
        # How many of its requirements only a label meets; -1 if it was replaced.
        self._needed: list[int] = []
        self._meeting, self._failing = _LabelIndex(), _LabelIndex()
        self._classes: dict[Distinguished, _PodClass] = {}
        self._kept = 0
        self._revision = 0  # increases with every change
        # A budget that covers the pods of a class, which is enough while none allows a disruption.
        self._witnesses: dict[Distinguished, int] = {}
        # What follows from the budgets.
        self._limits: tuple[Ints, Ints] | None = None
        self._allows: bool | None = None
        self._exempting: dict[str, list[int]] | None = None

    def __len__(self) -> int:
        return len(self._number_of)

    @property
    def numbers(self) -> int:
        """The count of numbers, with those of replaced budgets."""
        return len(self._budgets)

    def __iter__(self) -> Iterator[Budget]:
        return (self._budgets[number] for number in self._number_of.values())

    def get(self, name: str) -> Budget | None:
        number = self._number_of.get(name)
        return None if number is None else self._budgets[number]

    def put(self, budget: Budget) -> None:
        """Adds a budget, or replaces the one with its name."""
        self._forget()
        before = self.get(budget.name)
        if before is not None and before.selector == budget.selector:
            self._budgets[self._number_of[budget.name]] = budget
            return
        self.remove(budget.name)
        number = self._number_of[budget.name] = len(self._budgets)
        self._budgets.append(budget)
        meeting, failing = self._meeting, self._failing
        needed = 0
        for key, value in budget.selector.match_labels.items():
            meeting.add(key, (value,), number)
            needed += 1
        for expression in budget.selector.match_expressions:
            values = expression.values
            if expression.operator in ("In", "Exists"):
                meeting.add(expression.key, frozenset(values), number)
                needed += 1
            else:
                failing.add(expression.key, values, number)
        self._needed.append(needed)

    def remove(self, name: str) -> None:
        number = self._number_of.pop(name, None)
        if number is not None:
            self._forget()
            self._needed[number] = -1

    def name(self, number: int) -> str:
        return self._budgets[number].name

    @property
    def limits(self) -> tuple[Ints, Ints]:
        """By number: how many pods may be disrupted, and how many requirements need a label."""
        if self._limits is None:
            allowed = [budget.allowed for budget in self._budgets]
            self._limits = np.array(allowed, dtype=np.int64), np.array(self._needed, dtype=np.int64)
        return self._limits

    def covering(self, info: PodInfo) -> tuple[Covering, int]:
        """Returns the budgets that cover a pod of the namespace, and the steps that it took to find
        them.
        """
        labels, steps = info.pod.metadata.labels, STEPS_PER_POD
        alike = self._class_key(labels)
        kept = self._classes.get(alike)
        if kept is None:
            if self._kept > MOST_KEPT:
                self._classes.clear()
                self._kept = 0
            kept = self._classes[alike] = _PodClass()
            self._kept += CLASS
        if kept.revision != self._revision:
            steps += (len(self._budgets) - kept.matched) // BUDGETS_PER_STEP
            self._match_new_budgets(kept, labels)
        exempting = self._exempting_budgets.get(info.pod.metadata.name)
        if not exempting:
            return kept.covering, steps
        numbers = kept.covering.numbers
        return self._covering(numbers[~np.isin(numbers, exempting)]), steps

    def protecting(self, info: PodInfo) -> tuple[Covering, int]:
        """Returns budgets that cover a pod, and the steps taken to find them. Returns only one
        while no budget of the namespace allows a disruption, because none is counted then.
        """
        if self._some_allow:
            return self.covering(info)
        alike = self._class_key(info.pod.metadata.labels)
        witness = self._witnesses.get(alike, -1)
        exempt = info.pod.metadata.name in self._exempting_budgets
        if witness < 0 or self._needed[witness] < 0 or exempt:
            covering, steps = self.covering(info)
            if len(covering.numbers):
                if len(self._witnesses) >= MOST_WITNESSES:
                    self._witnesses.clear()
                self._witnesses[alike] = int(covering.numbers[-1])
            return covering, steps
        numbers = np.array([witness], dtype=np.int64)
        return Covering(numbers, numbers, NO_BUDGETS, NO_BUDGETS), STEPS_PER_POD

    @property
    def _some_allow(self) -> bool:
        """True if a budget allows a disruption."""
        if self._allows is None:
            allowed, needed = self.limits
            self._allows = any_true((allowed > 0) & (needed >= 0))
        return self._allows

    def _match_new_budgets(self, kept: _PodClass, labels: Mapping[str, str]) -> None:
        """Matches the budgets that were added since the class was matched, and drops those that
        were replaced.
        """
        before, needed = kept.covering.numbers, self.limits[1]
        numbers = before[needed[before] >= 0]
        if kept.matched < len(needed):
            numbers = np.concatenate((numbers, self._match(labels, kept.matched)))
        self._kept += len(numbers) - len(before)
        kept.covering = self._covering(numbers)
        kept.matched, kept.revision = len(needed), self._revision

    def _covering(self, numbers: Ints) -> Covering:
        allowed = self.limits[0][numbers]
        some = allowed > 0
        return Covering(numbers, numbers[~some], numbers[some], allowed[some])

    def _class_key(self, labels: Mapping[str, str]) -> Distinguished:
        """Returns a value that is equal for labels that no budget can tell apart."""
        meeting, failing = self._meeting, self._failing
        return tuple(
            [
                (key, value if meeting.names(key, value) or failing.names(key, value) else None)
                for key, value in labels.items()
                if key in meeting or key in failing
            ]
        )

    def _match(self, labels: Mapping[str, str], first: int) -> Ints:
        """Returns the numbers from `first` on of the budgets that cover a pod with these labels."""
        needed = self.limits[1][first:]
        met = np.bincount(self._meeting.under(labels, first) - first, minlength=len(needed))
        matching: Bools = met == needed
        matching[self._failing.under(labels, first) - first] = False
        return matching.nonzero()[0] + first

    @property
    def _exempting_budgets(self) -> Mapping[str, Sequence[int]]:
        """By pod: the numbers of the budgets that count it as disrupted already."""
        if self._exempting is None:
            self._exempting = {}
            for number, budget in enumerate(self._budgets):
                for name in budget.exempt:
                    self._exempting.setdefault(name, []).append(number)
        return self._exempting

    def _forget(self) -> None:
        """Drops the results that were derived from the budgets."""
        self._revision += 1
        self._limits = self._allows = self._exempting = None


class Budgets:
    """The budgets that cover pods, by namespace. `version` increases with every change."""

    def __init__(self, objects: Iterable[PodDisruptionBudget] = (), version: int = 0) -> None:
        self.version = version
        self._by_namespace: dict[str, NamespaceBudgets] = {}
        for item in objects:
            self.put(item)

    def __bool__(self) -> bool:
        return bool(self._by_namespace)

    def of(self, namespace: str) -> NamespaceBudgets | None:
        return self._by_namespace.get(namespace)

    def put(self, item: PodDisruptionBudget) -> int:
        """Stores the present version of a budget. Returns the steps that were taken."""
        budget = read_budget(item)
        if budget is None:
            self.remove((item.metadata.namespace, item.metadata.name))
            return REQUIREMENT
        budgets = self._by_namespace.setdefault(budget.namespace, NamespaceBudgets())
        if budgets.get(budget.name) != budget:
            budgets.put(budget)
            self.version += 1
        return budget.steps

    def remove(self, name: ObjectName) -> None:
        budgets = self._by_namespace.get(name[0])
        if budgets is not None:
            budgets.remove(name[1])
            self.version += 1
            if not len(budgets):
                del self._by_namespace[name[0]]

    def forget_worn(self) -> list[ObjectName]:
        """Drops the namespaces most of whose budgets were replaced. Returns the names of their
        budgets, which must be put again.
        """
        names: list[ObjectName] = []
        for namespace, worn in list(self._by_namespace.items()):
            if worn.numbers > 2 * len(worn) + MOST_WORN:
                names += [(namespace, budget.name) for budget in worn]
                del self._by_namespace[namespace]
                self.version += 1
        return names


def violating(pods: Iterable[PodInfo], limits: Budgets) -> dict[str, list[str]]:
    """Returns, by pod key, the names of the budgets that the removal of the pod would violate.

    The pods are removed in this order.
    """
    names: dict[str, list[str]] = {}
    for info, budgets, covering, exceeded, _ in _removals(pods, limits, NamespaceBudgets.covering):
        violated = np.concatenate((covering.forbidding, covering.counted[exceeded]))
        if len(violated):
            names[info.key] = [budgets.name(number) for number in sorted(violated.tolist())]
    return names


def violators(pods: Iterable[PodInfo], limits: Budgets) -> tuple[tuple[str, ...], int]:
    """Returns the keys of the pods whose removal, in this order, would violate a budget, and the
    steps that it took to find them.
    """
    keys: list[str] = []
    steps = 0
    removals = _removals(pods, limits, NamespaceBudgets.protecting)
    for info, _, covering, exceeded, taken in removals:
        steps += taken
        if len(covering.forbidding) or any_true(exceeded):
            keys.append(info.key)
    return tuple(keys), steps


def _removals(
    pods: Iterable[PodInfo],
    limits: Budgets,
    covering_of: Callable[[NamespaceBudgets, PodInfo], tuple[Covering, int]],
) -> Iterator[tuple[PodInfo, NamespaceBudgets, Covering, Bools, int]]:
    """Yields the pods of namespaces with budgets; for each the budgets that `covering_of` returns,
    the counted ones of them that its removal exceeds, and the steps taken.
    """
    disrupted: dict[str, Ints] = {}
    for info in pods:
        namespace = info.pod.metadata.namespace
        budgets = limits.of(namespace)
        if budgets is None:
            continue
        covering, steps = covering_of(budgets, info)
        exceeded = NONE_EXCEEDED
        if len(covering.counted):
            counts = disrupted.get(namespace)
            if counts is None:
                counts = disrupted[namespace] = np.zeros(budgets.numbers, dtype=np.int64)
            disruptions = counts.take(covering.counted)
            disruptions += 1
            counts[covering.counted] = disruptions
            exceeded = disruptions > covering.allowed
        yield info, budgets, covering, exceeded, steps


class KeptBudgets:
    """The budgets of the cluster, updated by the changes of their objects."""

    def __init__(self) -> None:
        self.budgets = Budgets()
        self._objects: object = None  # those of a cache
        self._version = 0
        self._changed: dict[ObjectName, None] = {}  # since the budgets were read, the next one last

    def are_current(self, snapshot: Snapshot) -> bool:
        """True if no budget has changed since they were read."""
        objects = snapshot.objects
        return (
            objects is self._objects
            and not self._changed
            and objects.version(PodDisruptionBudget) == self._version
            and objects.is_listed(PodDisruptionBudget)
        )

    def follow(self, snapshot: Snapshot) -> Iterator[int]:
        """Reads the budgets that changed, and continues a reading that was interrupted. Yields 0
        before it begins, and the steps taken after each slice.

        Raises UnlistedError.
        """
        objects = snapshot.objects
        every = objects.every(PodDisruptionBudget)
        log = objects.changes(PodDisruptionBudget)
        changed = log.since(self._version) if objects is self._objects else None
        if changed is None:
            self.budgets, self._objects = Budgets(version=self.budgets.version + 1), objects
            changed = {(item.metadata.namespace, item.metadata.name) for item in every}
            self._changed.clear()
        self._version = log.version
        if not changed and not self._changed:
            return
        self._changed |= dict.fromkeys(sorted(changed, reverse=True))
        steps = 0
        yield steps
        while self._changed:
            name = next(reversed(self._changed))
            item = objects.get(PodDisruptionBudget, name[1], name[0])
            if item is None:
                self.budgets.remove(name)
                steps += REQUIREMENT
            else:
                steps += self.budgets.put(item)
            self._changed.popitem()
            if not self._changed:
                self._changed |= dict.fromkeys(self.budgets.forget_worn())
            if steps > SLICE or not self._changed:
                yield steps
                steps = 0

    @property
    def complete(self) -> bool:
        """True if no budget is left to be read."""
        return not self._changed
