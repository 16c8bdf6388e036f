"""PodCounts: how many pods of which kind run on each row, kept up to date as pods come and go.

Pods with the same namespace and labels are one group, so a selector is asked once a group, not once
a pod. What a rule counts (a selector, or the terms that pods carry) is a column over rows; a pod
that comes or goes changes the columns of its group by what it weighs there, mostly one. A column is
filled when a rule first asks for it and dropped when nobody has asked for it for long. Invariant:
every column equals a recount of the pods on every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeVar

import msgspec
import numpy as np
from berth.actors.scheduling.kube.labels import Selector, SelectorError
from berth.actors.scheduling.kube.selector_index import FEW
from berth.actors.scheduling.model.affinity_terms import (
    NO_LABELS,
    AffinityTerm,
    AffinityTerms,
    TermWeights,
    as_one_each,
)
from berth.actors.scheduling.model.label_column import LabelColumn
from berth.actors.scheduling.model.pod_info import GroupKey, PodInfo
from berth.actors.scheduling.model.pod_template import PodTemplate
from berth.actors.scheduling.model.vectors import Bools, Ints, grown

MOST_COLUMNS = 2048
T = TypeVar("T")


class Counted(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """Which pods a column counts: those that match every term; terminating ones only if
    `terminating`.
    """

    terms: tuple[AffinityTerm, ...]
    terminating: bool = True

    def weight_of(self, group: GroupKey, labels: Mapping[str, str]) -> int:
        """What a pod of the group adds to the column: 1 or 0."""
        if group.terminating and not self.terminating:
            return 0
        if len(self.terms) <= FEW:
            return int(all(term.matches(group.namespace, labels, NO_LABELS) for term in self.terms))
        return int(
            sum(self._one_each.weigh(group.namespace, labels, NO_LABELS).values())
            == len(self.terms)
        )

    @cached_property
    def _one_each(self) -> TermWeights:
        """The terms, whatever their topologies are."""
        return as_one_each([msgspec.structs.replace(term, topology_key="") for term in self.terms])


class Weighed(msgspec.Struct, frozen=True, cache_hash=True):
    """What the pods weigh that a column counts, by terms of one topology."""

    weights: TermWeights

    def weight_of(self, group: GroupKey, labels: Mapping[str, str]) -> int:
        return sum(self.weights.weigh(group.namespace, labels, NO_LABELS).values())


class Table:
    """How many pods there are in each domain of a topology, by code; the last place, for no label,
    holds 0.

    `some` is where that is more than 0, and `total` is the sum. All are live: what is read later
    holds for later.
    """

    __slots__ = ("label", "some", "sums", "total", "version")

    def __init__(self, label: LabelColumn, counts: Ints) -> None:
        self.label = label
        self.version = label.version
        sums = np.bincount(label.codes + 1, weights=counts, minlength=len(label.values) + 1)
        self.sums: Ints = np.append(sums[1:], 0).astype(np.int64)
        self.some: Bools = self.sums > 0
        self.total = int(self.sums.sum())

    def add(self, row: int, number: int) -> None:
        code = self.label.codes[row]
        if code >= 0 and self.version == self.label.version:
            self.sums[code] += number
            self.some[code] = self.sums[code] > 0
            self.total += number


class Column:
    """int64[rows]: a count for each row; `total` is their sum. `asked` says when it was last asked
    for.

    The sums by domain of the topologies that somebody asked for are kept up to date as well.
    """

    __slots__ = ("_tables", "asked", "rows", "total")

    def __init__(self, rows: int) -> None:
        self.rows: Ints = np.zeros(rows, dtype=np.int64)
        self.total = 0
        self.asked = 0
        self._tables: list[Table] = []

    def add(self, row: int, number: int) -> None:
        self.rows[row] += number
        self.total += number
        for table in self._tables:
            table.add(row, number)

    def by_domain(self, label: LabelColumn) -> Table:
        """The sums by domain of a label."""
        for table in self._tables:
            if table.label is label:
                if table.version == label.version:
                    return table
                self._tables.remove(table)
                break
        self._tables.append(Table(label, self.rows))
        return self._tables[-1]

    def validate(self, what: object) -> None:
        """Raises AssertionError if a sum is not what a recount gives."""
        for table in self._tables:
            if table.version == table.label.version:
                fresh = Table(table.label, self.rows)
                assert np.array_equal(table.sums, fresh.sums), what
                assert np.array_equal(table.some, fresh.some), what
                assert table.total == fresh.total, what


class Group:
    """Pods that no selector can tell apart: where they are, and the columns that count them."""

    __slots__ = ("columns", "key", "labels", "rows")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.labels = dict(key.labels)
        self.rows: dict[int, int] = {}
        self.columns: list[tuple[Column, int]] = []  # each with what a pod of the group adds to it


class TermColumns:
    """A column for all pods on the rows that carry the same terms; terms that no pod carries have
    none.
    """

    def __init__(self) -> None:
        self.columns: dict[TermWeights, Column] = {}
        self._matching: dict[
            PodTemplate, tuple[Mapping[str, str], list[tuple[str, int, Column]]]
        ] = {}

    def add(self, terms: TermWeights, row: int, number: int, rows: int) -> None:
        column = self.columns.get(terms)
        if column is None:
            column = self.columns[terms] = Column(rows)
            self._matching.clear()
        column.add(row, number)
        if not column.total:
            del self.columns[terms]
            self._matching.clear()

    def matching(self, info: PodInfo, around: Mapping[str, str]) -> list[tuple[str, int, Column]]:
        """The columns of pods whose terms match a pod in a namespace with the labels `around`.

        Each comes with the topology key of the terms and what those weigh for the pod. What a
        template matches is kept for as long as no terms come or go and the labels stay the same
        object.
        """
        if not self.columns:
            return []
        found = self._matching.get(info.template)
        if found is None or found[0] is not around:
            if len(self._matching) >= MOST_COLUMNS:
                self._matching.clear()
            pod = info.pod.metadata
            matching = [
                (topology_key, weight, column)
                for terms, column in self.columns.items()
                for topology_key, weight in terms.weigh(pod.namespace, pod.labels, around).items()
            ]
            found = self._matching[info.template] = (around, matching)
        return found[1]


class PodCounts:
    """`required`, `required_anti` and `preferred` count the pods that carry such terms.

    `missed` are terminating pods, with their rows, that are gone only in thought: see
    `PodTopologySpread`. `claims` says of each PersistentVolumeClaim (namespace/name) how many
    volumes of pods on the rows name it.
    """

    def __init__(self, rows: int) -> None:
        self._size = rows
        self._groups: dict[GroupKey, Group] = {}
        self._columns: dict[Counted | Weighed, Column] = {}
        self._on_row: dict[int, dict[str, PodInfo]] = {}
        self._clock = 0
        self.missed: list[tuple[int, PodInfo]] = []
        self.claims: dict[str, int] = {}
        self.required = TermColumns()
        self.required_anti = TermColumns()
        self.preferred = TermColumns()

    # -------------------------------------------------------------------------------------- reading

    def column(self, counted: Counted | Weighed) -> Column:
        """The column of these pods, kept up to date from now on."""
        column = self._columns.get(counted)
        if column is None:
            column = self._columns[counted] = Column(self._size)
            for group in self._groups.values():
                weight = counted.weight_of(group.key, group.labels)
                if weight:
                    group.columns.append((column, weight))
                    for row, number in group.rows.items():
                        column.add(row, number * weight)
            if len(self._columns) > MOST_COLUMNS:
                self._drop_oldest()
        self._clock += 1
        column.asked = self._clock
        return column

    # -------------------------------------------------------------------------------------- writing

    def refresh(self, row: int, changes: Iterable[tuple[PodInfo, int]]) -> None:
        """Pods came to a row (+1) or left it (-1)."""
        here = self._on_row.setdefault(row, {})
        for info, sign in changes:
            if sign > 0:
                here[info.key] = info
            else:
                del here[info.key]
            self._count(row, info, sign)
        if not here:
            del self._on_row[row]

    def clear(self, row: int) -> None:
        """Nothing runs on a row any more."""
        for info in self._on_row.pop(row, {}).values():
            self._count(row, info, -1)

    def grow(self, rows: int) -> None:
        self._size = rows
        terms = (self.required.columns, self.required_anti.columns, self.preferred.columns)
        for columns in (self._columns.values(), *(found.values() for found in terms)):
            for column in columns:
                column.rows = grown(column.rows, rows)

    def _count(self, row: int, info: PodInfo, sign: int) -> None:
        group = self._group(info.group)
        number = group.rows.get(row, 0) + sign
        if number:
            group.rows[row] = number
        else:
            del group.rows[row]
        for column, weight in group.columns:
            column.add(row, sign * weight)
        if not group.rows:
            del self._groups[group.key]
        for name in info.claims:
            volumes = self.claims.pop(name, 0) + sign
            if volumes:
                self.claims[name] = volumes
        try:
            terms = info.affinity_terms
        except SelectorError:
            return  # what cannot be read asks for nothing
        if terms:
            self._count_terms(row, terms, sign)

    def _count_terms(self, row: int, terms: AffinityTerms, sign: int) -> None:
        if terms.required:
            self.required.add(terms.required_weights, row, sign, self._size)
        if terms.required_anti:
            self.required_anti.add(terms.required_anti_weights, row, sign, self._size)
        if terms.preferred:
            self.preferred.add(terms.preferred_weights, row, sign, self._size)

    def _group(self, key: GroupKey) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            weighed = (
                (column, counted.weight_of(key, group.labels))
                for counted, column in self._columns.items()
            )
            group.columns = [(column, weight) for column, weight in weighed if weight]
        return group

    def _drop_oldest(self) -> None:
        """Forget the half of the columns that nobody has asked for the longest."""
        kept = sorted(self._columns, key=lambda counted: self._columns[counted].asked)[
            len(self._columns) // 2 :
        ]
        self._columns = {counted: self._columns[counted] for counted in kept}
        alive = {id(column) for column in self._columns.values()}
        for group in self._groups.values():
            group.columns = [
                (column, weight) for column, weight in group.columns if id(column) in alive
            ]

    # -------------------------------------------------------------------------------------- looking

    def validate(self) -> None:
        """Raises AssertionError if a column is not what a recount gives."""
        fresh = PodCounts(self._size)
        for row, pods in self._on_row.items():
            fresh.refresh(row, [(info, 1) for info in pods.values()])
        assert fresh._groups.keys() == self._groups.keys()
        assert fresh.claims == self.claims, (fresh.claims, self.claims)
        for counted, column in self._columns.items():
            _same(column, fresh.column(counted), counted)
        _all_same(self.required.columns, fresh.required.columns)
        _all_same(self.required_anti.columns, fresh.required_anti.columns)
        _all_same(self.preferred.columns, fresh.preferred.columns)


def _all_same(mine: Mapping[T, Column], theirs: Mapping[T, Column]) -> None:
    assert mine.keys() == theirs.keys()
    for term, column in mine.items():
        _same(column, theirs[term], term)


def _same(column: Column, other: Column, what: object) -> None:
    column.validate(what)
    assert column.total == other.total, what
    assert np.array_equal(column.rows, other.rows), what


def pods_selected(namespace: str, selector: Selector) -> Counted:
    """The pods of a namespace that a selector selects, terminating ones left out."""
    term = AffinityTerm(selector, frozenset((namespace,)), Selector(nothing=True), "")
    return Counted((term,), terminating=False)
