"""PodCounts: counts of pods on each row, kept up to date as pods are added and removed.

Pods with the same namespace and labels form a group, so that a selector is matched once for a
group, not once for a pod. The numbers that a rule needs (of the pods that a selector matches, or of
the pods that carry certain terms) are a column over rows. Adding or removing a pod changes the
columns of its group by its weight in them, which usually is 1. A column is filled when a rule first
asks for it, and dropped when no rule has used it for long. Invariant: every column equals a recount
of the pods on every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeVar

import msgspec
import numpy as np

from ..kube.labels import Selector, SelectorError
from ..kube.selector_index import MAX_SCANNED
from .affinity_terms import (
    NO_LABELS,
    NO_WEIGHTED_TERMS,
    AffinityTerm,
    TermWeights,
    with_weight_one,
)
from .counted_index import ANYWHERE, CountedIndex, Place, places_of
from .derived import derived_once
from .label_column import LabelColumn
from .many_terms import NO_CARRIED_TERMS, CarriedTerms, ManyTerms
from .pod_info import PodInfo
from .pod_template import Disk, GroupKey, PodTemplate, Values
from .read_only_arrays import read_only
from .term_lookup import Part
from .vectors import Bools, Ints, grown

MAX_COLUMNS = 2048
MAX_MANY = 4  # pods with many terms, which may have a megabyte, whose columns are kept
KEPT_USES = 4 * MAX_COLUMNS  # a column goes that was not among so many that were used
MAX_MATCHING = 1 << 17  # columns of terms that are kept for templates
T = TypeVar("T")


class CountedPods(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """A column's key: it counts the pods that match all terms.

    Terminating pods are counted only if `terminating`.
    """

    terms: tuple[AffinityTerm, ...]
    terminating: bool = True

    @derived_once
    def topologies(self) -> Set[str]:
        return {term.topology_key: None for term in self.terms}.keys()

    @property
    def places(self) -> Sequence[Place]:
        return places_of(self.terms, all_match=True)

    def weight_of(self, group: GroupKey, labels: Mapping[str, str]) -> int:
        """Returns the number that a pod of the group adds to the column: 1 or 0."""
        if group.terminating and not self.terminating:
            return 0
        if len(self.terms) <= MAX_SCANNED:
            return int(all(term.matches(group.namespace, labels, NO_LABELS) for term in self.terms))
        return int(
            sum(self._matching_terms.weigh(group.namespace, labels, NO_LABELS).values())
            == len(self.terms)
        )

    @derived_once
    def _matching_terms(self) -> TermWeights:
        """Terms that weigh a pod by the number of terms that match it, for any topology."""
        return with_weight_one(
            [msgspec.structs.replace(term, topology_key="") for term in self.terms]
        )


class WeighedPods(msgspec.Struct, frozen=True, cache_hash=True):
    """A column's key: it has for each node the sum of the weights of the terms that match its
    pods.
    """

    weights: TermWeights

    @property
    def places(self) -> Sequence[Place]:
        return places_of([weighted.term for weighted in self.weights.terms], all_match=False)

    def weight_of(self, group: GroupKey, labels: Mapping[str, str]) -> int:
        return sum(self.weights.weigh(group.namespace, labels, NO_LABELS).values())


class MatchedByAll(msgspec.Struct, frozen=True, cache_hash=True):
    """A column's key: it counts the pods that match all of many terms."""

    terms: ManyTerms

    @property
    def topologies(self) -> Set[str]:
        return self.terms.topologies

    @property
    def places(self) -> Sequence[Place]:
        return ANYWHERE

    def weight_of(self, group: GroupKey, labels: Mapping[str, str]) -> int:
        number = self.terms.number_matching(group.namespace, labels, NO_LABELS)
        return int(number == len(self.terms))


class WeighedByPart(msgspec.Struct, frozen=True, cache_hash=True):
    """A column's key: it has for each node the sum of the weights of its pods by the terms with one
    topology key and sign.
    """

    terms: ManyTerms
    part: Part

    @property
    def places(self) -> Sequence[Place]:
        return ANYWHERE

    def weight_of(self, group: GroupKey, labels: Mapping[str, str]) -> int:
        return self.terms.weight_of_part(self.part, group.namespace, labels, NO_LABELS)


# What a column counts. Its `places` are where it may count pods.
Counted = CountedPods | MatchedByAll | WeighedPods | WeighedByPart


class DomainCounts:
    """A column summed by domain of a topology.

    `sums` is by label code; its last element, for no label, is 0. `populated` marks the positive
    sums, and `total` is the sum of all. They are live: they change as pods are added and removed.
    """

    __slots__ = ("_populated", "_sums", "label", "populated", "sums", "total", "version")

    def __init__(self, label: LabelColumn, counts: Ints) -> None:
        self.label = label
        self.version = label.version
        sums = np.bincount(label.codes + 1, weights=counts, minlength=len(label.values) + 1)
        self._sums: Ints = np.append(sums[1:], 0).astype(np.int64)
        self._populated: Bools = self._sums > 0
        self.sums: Ints = read_only(self._sums)
        self.populated: Bools = read_only(self._populated)
        self.total = int(self._sums.sum())

    def add(self, row: int, number: int) -> None:
        # `item` gives an int: numbers of NumPy are slow.
        code = self.label.codes.item(row)
        if code >= 0 and self.version == self.label.version:
            self._sums[code] = counted = self._sums.item(code) + number
            self._populated[code] = counted > 0
            self.total += number


class Column:
    """A count for each row, `by_row`: int64[rows]. `total` is their sum.

    The sums by domain that rules have asked for are kept up to date as well. `last_used` orders
    columns by their last use.
    """

    __slots__ = ("_by_row", "_domains", "by_row", "last_used", "total")

    def __init__(self, rows: int) -> None:
        self._by_row: Ints = np.zeros(rows, dtype=np.int64)
        self.by_row: Ints = read_only(self._by_row)
        self.total = 0
        self.last_used = 0
        self._domains: list[DomainCounts] = []

    def add(self, row: int, number: int) -> None:
        self._by_row[row] = self._by_row.item(row) + number
        self.total += number
        for domains in self._domains:
            domains.add(row, number)

    def grow(self, rows: int) -> None:
        self._by_row = grown(self._by_row, rows)
        self.by_row = read_only(self._by_row)

    def by_domain(self, label: LabelColumn) -> DomainCounts:
        """Returns the sums by domain, which is a value of the label."""
        for domains in self._domains:
            if domains.label is label and domains.version == label.version:
                return domains
        # The others may be of labels that no node has any more.
        self._domains = [d for d in self._domains if d.version == d.label.version]
        self._domains.append(DomainCounts(label, self.by_row))
        return self._domains[-1]

    def validate(self, what: object) -> None:
        """Raises AssertionError if a sum differs from a recount."""
        for domains in self._domains:
            if domains.version == domains.label.version:
                fresh = DomainCounts(domains.label, self.by_row)
                assert np.array_equal(domains.sums, fresh.sums), what
                assert np.array_equal(domains.populated, fresh.populated), what
                assert domains.total == fresh.total, what


class Group:
    """Pods that no selector can tell apart.

    `rows` holds how many of them are on each row; `columns` are the columns that count them, each
    with the weight of one pod.
    """

    __slots__ = ("columns", "key", "labels", "rows")

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.labels = dict(key.labels)
        self.rows: dict[int, int] = {}
        self.columns: list[tuple[Column, int]] = []


class TermColumns:
    """For each set of terms that pods on the rows carry, a column that counts these pods."""

    def __init__(self) -> None:
        self.columns: dict[TermWeights | ManyTerms, Column] = {}
        self._matching: dict[
            PodTemplate, tuple[Mapping[str, str], list[tuple[str, int, Column]]]
        ] = {}
        self._label_keys: Set[str] | None = None  # those of _matching
        self._kept = 0  # the number of columns in _matching

    def add(self, terms: TermWeights | ManyTerms, row: int, number: int, rows: int) -> None:
        column = self.columns.get(terms)
        if column is None:
            column = self.columns[terms] = Column(rows)
            self._forget_matching()
        column.add(row, number)
        if not column.total:
            del self.columns[terms]
            self._forget_matching()

    def matching(
        self, info: PodInfo, namespace_labels: Mapping[str, str], label_keys: Set[str]
    ) -> list[tuple[str, int, Column]]:
        """Returns the columns of the terms that match a pod in a namespace with these labels.

        Each comes with the terms' topology key and the weight that they give the pod; topology keys
        that no node has as a label, so that they are not in `label_keys`, may be left out. The
        result is kept for the pod's template, unless it is heavy, until terms are added or removed,
        or the labels or their keys change.
        """
        if not self.columns:
            return []
        if label_keys is not self._label_keys:
            self._forget_matching()
            self._label_keys = label_keys
        cached = self._matching.get(info.template)
        if cached is None or cached[0] != namespace_labels:
            pod = info.pod.metadata
            matching = [
                (topology_key, weight, column)
                for terms, column in self.columns.items()
                for topology_key, weight in terms.weigh(
                    pod.namespace, pod.labels, namespace_labels, label_keys
                ).items()
            ]
            if info.template.is_heavy:
                return matching
            if len(self._matching) >= MAX_COLUMNS or self._kept + len(matching) > MAX_MATCHING:
                self._forget_matching()
            self._kept += len(matching)
            cached = self._matching[info.template] = (namespace_labels, matching)
        return cached[1]

    def _forget_matching(self) -> None:
        self._matching.clear()
        self._kept = 0


class PodCounts:
    """The counts of pods on each row. `required`, `required_anti` and `preferred` count the pods
    that carry such terms.

    `removed_terminating` holds the terminating pods, with their rows, that a what-if question
    removed; plugins.spread_domains needs them. `claims` counts, for each PersistentVolumeClaim
    (namespace/name), the volumes of pods on the rows that name it, without regard to what-if
    questions; `supposed` has the pods that name claims and that a what-if question added (1) or
    removed (-1). `attaching[row]` holds the pods that attach volumes, by key, and
    `most_volumes[row]` the sum of the most that each can attach; `volume_changes[row]` increases
    whenever such a pod comes to the row or leaves it, also for a what-if question. `disks` counts,
    for each disk that pods name directly, the volumes of pods on each row that are this disk.
    """

    def __init__(self, rows: int) -> None:
        self._size = rows
        self._groups: dict[GroupKey, Group] = {}
        self._columns: dict[Counted, Column] = {}
        self._index: CountedIndex[Counted] = CountedIndex()
        self._many: dict[ManyTerms, None] = {}  # that columns count, the latest used last
        self._on_row: dict[int, dict[str, PodInfo]] = {}
        self._uses = 0
        self.removed_terminating: list[tuple[int, PodInfo]] = []
        self.claims: dict[str, int] = {}
        self.supposed: Counter[PodInfo] = Counter()
        self.attaching: dict[int, dict[str, PodInfo]] = {}
        self.volume_changes: Ints = np.zeros(rows, dtype=np.int64)
        self.most_volumes: Ints = np.zeros(rows, dtype=np.int64)
        self.disks: dict[Disk, dict[int, int]] = {}
        self.required = TermColumns()
        self.required_anti = TermColumns()
        self.preferred = TermColumns()

    # -------------------------------------------------------------------------------------- reading

    def column(self, counted: Counted) -> Column:
        """Returns the column of these pods; it is kept up to date from now on."""
        column = self._columns.get(counted)
        if column is None:
            column = self._new_column(counted)
        self._uses += 1
        column.last_used = self._uses
        if not self._uses % KEPT_USES:
            self._keep(
                {c for c, kept in self._columns.items() if kept.last_used > self._uses - KEPT_USES}
            )
        return column

    def rows_with(self, namespace: str, labels: Mapping[str, str]) -> list[int]:
        """Returns the rows that have pods of a namespace, "" for all, with these labels."""
        wanted = labels.items()
        return sorted(
            {
                row
                for group in self._groups.values()
                if namespace in ("", group.key.namespace) and wanted <= group.labels.items()
                for row in group.rows
            }
        )

    def _new_column(self, counted: Counted) -> Column:
        if isinstance(counted, MatchedByAll | WeighedByPart):
            self._make_room(counted.terms)
        column = self._columns[counted] = Column(self._size)
        self._index.add(counted, counted.places)
        for group in self._groups.values():
            weight = counted.weight_of(group.key, group.labels)
            if weight:
                group.columns.append((column, weight))
                for row, number in group.rows.items():
                    column.add(row, number * weight)
        if len(self._columns) > MAX_COLUMNS:
            by_use = sorted(self._columns, key=lambda each: self._columns[each].last_used)
            self._keep({*by_use[len(by_use) // 2 :], counted})
        return column

    def _make_room(self, terms: ManyTerms) -> None:
        """Drops columns of other terms, if there are too many, for these terms."""
        self._many.pop(terms, None)
        self._many[terms] = None
        if len(self._many) > MAX_MANY:
            oldest = next(iter(self._many))
            del self._many[oldest]
            self._keep({c for c in self._columns if getattr(c, "terms", None) is not oldest})

    # -------------------------------------------------------------------------------------- writing

    def refresh(self, row: int, changes: Iterable[tuple[PodInfo, int]]) -> None:
        """Counts pods added to a row (+1) or removed from it (-1)."""
        here = self._on_row.setdefault(row, {})
        for info, sign in changes:
            if sign > 0:
                here[info.key] = info
            else:
                del here[info.key]
            self._count(row, info, info.template.disks, sign)
            if info.template.names_claims:
                self._count_claims(info, sign)
        if not here:
            del self._on_row[row]

    def clear(self, row: int) -> None:
        """Removes all pods of a row."""
        self.refresh(row, [(info, -1) for info in self._on_row.get(row, {}).values()])

    def suppose(self, row: int, changes: Iterable[tuple[PodInfo, Values, int]]) -> None:
        """Counts pods added to a row (1) or removed (-1) for a what-if question, with only these of
        their values.
        """
        for info, values, sign in changes:
            self._count(row, info, values.disks, sign)

    def suppose_claims(self, info: PodInfo, sign: int) -> None:
        self.supposed[info] += sign
        if not self.supposed[info]:
            del self.supposed[info]

    def grow(self, rows: int) -> None:
        self._size = rows
        self.volume_changes = grown(self.volume_changes, rows)
        self.most_volumes = grown(self.most_volumes, rows)
        terms = (self.required.columns, self.required_anti.columns, self.preferred.columns)
        for columns in (self._columns.values(), *(by_terms.values() for by_terms in terms)):
            for column in columns:
                column.grow(rows)

    def _count(self, row: int, info: PodInfo, disks: Iterable[Disk], sign: int) -> None:
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
        if info.template.attaches:
            self._count_volumes(row, info, sign)
        for disk in disks:
            rows = self.disks.get(disk)
            if rows is None:
                rows = self.disks[disk] = {}
            number = rows.get(row, 0) + sign
            if number:
                rows[row] = number
            else:
                del rows[row]
                if not rows:
                    del self.disks[disk]
        try:
            terms = info.template.carried_terms
        except SelectorError:
            return  # affinity terms that cannot be read do not count
        if terms is not NO_CARRIED_TERMS:
            self._count_terms(row, terms, sign)

    def _count_volumes(self, row: int, info: PodInfo, sign: int) -> None:
        self.volume_changes[row] += 1
        self.most_volumes[row] += sign * info.template.most_volumes
        pods = self.attaching.setdefault(row, {})
        if sign > 0:
            pods[info.key] = info
        else:
            del pods[info.key]
            if not pods:
                del self.attaching[row]

    def _count_claims(self, info: PodInfo, sign: int) -> None:
        for name in info.claims:
            volumes = self.claims.pop(name, 0) + sign
            if volumes:
                self.claims[name] = volumes

    def _count_terms(self, row: int, terms: CarriedTerms, sign: int) -> None:
        if terms.required is not NO_WEIGHTED_TERMS:
            self.required.add(terms.required, row, sign, self._size)
        if terms.required_anti is not NO_WEIGHTED_TERMS:
            self.required_anti.add(terms.required_anti, row, sign, self._size)
        if terms.preferred is not NO_WEIGHTED_TERMS:
            self.preferred.add(terms.preferred, row, sign, self._size)

    def _group(self, key: GroupKey) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key)
            near = self._index.near(key.namespace, group.labels) if self._columns else ()
            weighed = (
                (self._columns[counted], counted.weight_of(key, group.labels)) for counted in near
            )
            group.columns = [(column, weight) for column, weight in weighed if weight]
        return group

    def _keep(self, kept: Set[Counted]) -> None:
        """Drops all columns but these."""
        for counted in self._columns.keys() - kept:
            self._index.remove(counted, counted.places)
        self._columns = {c: column for c, column in self._columns.items() if c in kept}
        alive = {id(column) for column in self._columns.values()}
        for group in self._groups.values():
            group.columns = [
                (column, weight) for column, weight in group.columns if id(column) in alive
            ]

    # ----------------------------------------------------------------------------------- validating

    def validate(self) -> None:
        """Raises AssertionError if a column differs from a recount.

        Do not call it during a what-if question, which a recount leaves out.
        """
        fresh = PodCounts(self._size)
        for row, pods in self._on_row.items():
            fresh.refresh(row, [(info, 1) for info in pods.values()])
        assert fresh._groups.keys() == self._groups.keys()
        assert fresh.claims == self.claims, (fresh.claims, self.claims)
        assert fresh.attaching.keys() == self.attaching.keys()
        for row, pods in fresh.attaching.items():
            # A what-if question brings back the newest version of a pod, of those that count alike.
            assert pods.keys() == self.attaching[row].keys()
            assert all(pod.counts_like(self.attaching[row][key]) for key, pod in pods.items())
        assert fresh.disks == self.disks, (fresh.disks, self.disks)
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
    assert np.array_equal(column.by_row, other.by_row), what


def pods_selected(namespace: str, selector: Selector) -> CountedPods:
    """Returns the column of a namespace's selected pods, without terminating ones."""
    term = AffinityTerm(selector, frozenset((namespace,)), Selector(nothing=True), "")
    return CountedPods((term,), terminating=False)
