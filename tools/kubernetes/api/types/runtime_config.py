"""Which versions of groups are served that Kubernetes does not serve unless it is told to:
--runtime-config.
"""

from __future__ import annotations

from collections.abc import Iterable

from .resources import KINDS, ON_REQUEST, Kind

_SERVED = frozenset(kind.api_version for kind in KINDS)
_ALL, _BETA = "api/all", "api/beta"
_VALUES = {"": True, "true": True, "false": False}


def kinds_on_request(settings: Iterable[str]) -> tuple[Kind, ...]:
    """Returns the kinds that are served beside the usual ones. Raises ValueError for a version that
    is not known, or that is always served.
    """
    asked: dict[str, bool] = {}
    for setting in settings:
        version, _, value = setting.partition("=")
        if value not in _VALUES:
            raise ValueError(f"{setting}: expected true or false, got {value!r}")
        known = version in (_ALL, _BETA) or any(version == kind.api_version for kind in ON_REQUEST)
        if version in _SERVED and not _VALUES[value]:
            raise ValueError(f"{setting}: berth serves it always")
        if not known and version not in _SERVED:
            raise ValueError(f"{version}: expected a version that berth knows")
        asked[version] = _VALUES[value]
    usual, beta = asked.get(_ALL, False), asked.get(_ALL, asked.get(_BETA, False))
    return tuple(
        kind
        for kind in ON_REQUEST
        if asked.get(kind.api_version, beta if "beta" in kind.version else usual)
    )
