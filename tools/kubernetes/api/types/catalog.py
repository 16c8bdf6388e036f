"""What a store serves: the built-in kinds of a release, and the kinds that were added to them.

A catalog never changes: to serve more or less, a store takes another one. So its identity stands
for what is served, and what is derived from a catalog may be cached under it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from .releases import CURRENT_RELEASE, Release
from .resources import BY_KIND, BY_PATH, Kind
from .schema import Shape


class Catalog:
    """The kinds and types that a store serves. Catalogs are compared by identity.

    `kinds` are those that objects are stored of; `served` has the reviews too, and `added` those
    beyond the release's, with versions that are not served.
    """

    def __init__(self, release: Release, added: Collection[Kind] = ()) -> None:
        self.release = release
        self.added = (*added,)
        served = [kind for kind in added if kind.custom is None or kind.custom.is_served]
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in served}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in served}

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        return (*self.release.kinds, *self.added)

    @cached_property
    def served(self) -> tuple[Kind, ...]:
        return (*self.release.served, *self._by_path.values())

    @property
    def types(self) -> Mapping[str, Shape]:
        """The types by name (see Kind.type_name)."""
        return self.release.types

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """Returns the kind with this path, such as ("apps", "v1", "deployments")."""
        place = group, version, plural
        return self._served(BY_PATH.get(place) or self._by_path.get(place))

    def named(self, api_version: str, kind: str) -> Kind | None:
        """Returns the kind with this name, such as ("apps/v1", "Deployment")."""
        name = api_version, kind
        return self._served(BY_KIND.get(name) or self._by_kind.get(name))

    def custom(self, group: str, kind: str) -> Kind | None:
        """Returns a version of a custom kind, whether it is served or not."""
        kinds = (each for each in self.added if (each.group, each.kind) == (group, kind))
        return next(kinds, None)

    def replacing(self, removed: Collection[Kind], added: Collection[Kind]) -> Catalog:
        """Returns a catalog without some of the added kinds, and with others."""
        return Catalog(self.release, [*(k for k in self.added if k not in removed), *added])

    def _served(self, kind: Kind | None) -> Kind | None:
        return kind if kind is not None and self.release.serves(kind) else None


CURRENT_CATALOG = Catalog(CURRENT_RELEASE)
