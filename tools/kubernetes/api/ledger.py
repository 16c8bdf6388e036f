"""The ledger of a namespace: what its ResourceQuotas count, as sums.

Each object has a charge, the amounts that it was charged at its last write and the quotas that
count it. A later write or a deletion gives back this charge, so a sum never has to be counted
again, although the usage of some objects also depends on the time and on other objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from .types.amounts import NOTHING, Sum, Sums
from .types.resources import Kind

Document = dict[str, Any]


class Account(msgspec.Struct):
    """A quota in the ledger: the kinds that it counts, its scopes, its limits, and the sums of the
    amounts that it limits.
    """

    name: str
    kinds: frozenset[Kind]
    scopes: list[Document]
    hard: dict[str, Sum]
    used: dict[str, Sum]


class Charge(msgspec.Struct, frozen=True):
    """The amounts of an object, and the names of the quotas that count it."""

    amounts: Sums
    quotas: frozenset[str]

    def of(self, quota: str) -> Sums:
        """Returns the amounts that a quota counts."""
        return self.amounts if quota in self.quotas else {}


FREE = Charge({}, frozenset())


class Ledger:
    """The accounts of a namespace by the names of their quotas, and the charges of its objects."""

    def __init__(self, accounts: Iterable[Account]) -> None:
        self.accounts = {account.name: account for account in accounts}
        # By the uid of a pod, the name of its claim for extended resources: the first one.
        self.claims: dict[str, str] = {}
        self.ending: set[str] = set()  # the names of the pods that are being deleted
        self._charges: dict[tuple[Kind, str], Charge] = {}

    def exceeded(self, kind: Kind, name: str, charge: Charge) -> str:
        """Returns a message that names the first quota that a new charge would exceed, or ""."""
        before = self._charges.get((kind, name), FREE)
        for quota in sorted(charge.quotas):
            account = self.accounts[quota]
            was = before.of(quota)
            added: dict[str, Sum] = {}
            for resource in charge.amounts.keys() & account.used.keys():
                more = charge.amounts[resource].minus(was.get(resource, NOTHING))
                if more.nano > 0:
                    added[resource] = more
            over = sorted(
                resource
                for resource, more in added.items()
                if account.used[resource].plus(more).nano > account.hard[resource].nano
            )
            if over:
                return (
                    f"exceeded quota: {quota}, requested: {_listed(added, over)}, "
                    f"used: {_listed(account.used, over)}, limited: {_listed(account.hard, over)}"
                )
        return ""

    def set_charge(self, kind: Kind, name: str, charge: Charge) -> list[Account]:
        """Replaces the charge of an object. Returns the accounts whose sums change."""
        before = self._charges.pop((kind, name), FREE)
        if charge.quotas:
            self._charges[kind, name] = charge
        return [
            self.accounts[quota]
            for quota in sorted(before.quotas | charge.quotas)
            if self._post(quota, before, charge)
        ]

    def _post(self, quota: str, before: Charge, after: Charge) -> bool:
        """Changes a quota's sums by the difference of two charges. Returns True if they change."""
        used = self.accounts[quota].used
        given_back, charged = before.of(quota), after.of(quota)
        differs = False
        for resource in (given_back.keys() | charged.keys()) & used.keys():
            total = used[resource]
            used[resource] = total.minus(given_back.get(resource, NOTHING)).plus(
                charged.get(resource, NOTHING)
            )
            differs = differs or used[resource].nano != total.nano
        return differs


def _listed(amounts: Sums, names: list[str]) -> str:
    return ",".join(f"{name}={amounts[name].text()}" for name in names)
