"""The authorities of clients: from files, and from the ConfigMap in which an API server publishes
its own, extension-apiserver-authentication in kube-system.

The file of a flag is read whenever it changes. Settings without a flag are looked up in the
ConfigMap, and again twice a minute.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from berth.config.options import Authentication

from ..client.access import Calls
from ..client.rest import ApiError, ConnectionFailedError
from ..runtime.clock import Clock
from ..scheduling.framework.logger import get_logger
from ..scheduling.kube.meta import Object
from .authentication import Authorities, ProxyHeaders
from .client_certificates import read_bundle
from .regular_file import content, stamp

log = get_logger(__name__)

CONFIG_MAP = "configmap/extension-apiserver-authentication in kube-system"
PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REFRESH_SECONDS = 30.0
EMPTY: frozenset[bytes] = frozenset()


class LookupFailedError(Exception):
    """The ConfigMap cannot be read, although the settings require it."""


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class BundleFile:
    """Certificates in a file that may change. If it can no longer be read, that is logged once, and
    the last content stays in use.
    """

    def __init__(self, path: str, flag: str) -> None:
        """Reads the file. Raises OSError or ValueError."""
        self._path = Path(path)
        self._where = f"{flag}: {path}"
        self._bundle = read_bundle(content(self._path), self._where)
        self._stamp = stamp(self._path)

    def current(self) -> frozenset[bytes]:
        seen = stamp(self._path)
        if seen != self._stamp:
            self._stamp = seen
            try:
                self._bundle = read_bundle(content(self._path), self._where)
            except (OSError, ValueError) as problem:
                log.warning("new certificates are not used", error=str(problem))
        return self._bundle


class ClientAuthorities:
    """The authorities of clients, from files and from a ConfigMap.

    `reachable` is True if there is an API server that has the ConfigMap.
    """

    def __init__(self, authentication: Authentication, clock: Clock, *, reachable: bool) -> None:
        """Reads the files. Raises OSError or ValueError for one that cannot be used."""
        self._settings = authentication
        self._clock = clock
        users, proxies = authentication.client_ca_file, authentication.requestheader_client_ca_file
        self._users = BundleFile(users, "--client-ca-file") if users else None
        self._proxies = BundleFile(proxies, "--requestheader-client-ca-file") if proxies else None
        self._data: dict[str, str] = {}
        self._published_users = self._published_proxies = EMPTY
        self._published_headers = ProxyHeaders()
        self._failing = False
        needed = not authentication.skip_lookup and (self._users is None or self._proxies is None)
        self._looks = needed and reachable
        self._lacks = needed and not reachable

    def current(self) -> Authorities:
        users = self._published_users if self._users is None else self._users.current()
        if self._proxies is None:
            return Authorities(users, self._published_proxies, self._published_headers)
        settings = self._settings
        headers = ProxyHeaders(
            settings.requestheader_username_headers,
            settings.requestheader_uid_headers,
            settings.requestheader_group_headers,
            settings.requestheader_extra_headers_prefix,
            settings.requestheader_allowed_names,
        )
        return Authorities(users, self._proxies.current(), headers)

    def certificates(self) -> tuple[bytes, ...]:
        """Returns all certificates of authorities, in a fixed order."""
        current = self.current()
        return tuple(sorted(current.users | current.proxies))

    async def follow(self, calls: Calls) -> None:
        """Looks up the ConfigMap until cancelled, if it is needed. Raises LookupFailedError if the
        first attempt fails and the settings do not tolerate that.
        """
        first = True
        while self._looks:
            problem = await self._look_up(calls)
            if first and problem and not self._settings.tolerate_lookup_failure:
                raise LookupFailedError(
                    f"unable to load configmap based request-header-client-ca-file: {problem}"
                )
            first = False
            await self._clock.sleep(REFRESH_SECONDS)

    async def _look_up(self, calls: Calls) -> str:
        """Looks up the ConfigMap. Returns the problem, or ""."""
        try:
            config_map = await calls.call("GET", PATH, ConfigMap)
            if config_map.data != self._data:
                self._use_content(config_map.data)
        except (ApiError, ConnectionFailedError, ValueError) as problem:
            if not self._failing:
                log.warning(
                    f"cannot look up {CONFIG_MAP}; client certificates that it would vouch for do"
                    " not count",
                    error=str(problem),
                )
            self._failing = True
            return str(problem)
        self._failing = False
        return ""

    def _use_content(self, data: dict[str, str]) -> None:
        """Uses the content of the ConfigMap. Raises ValueError if it cannot be read."""
        users, proxies = (
            read_bundle(data[name].encode(), f"{CONFIG_MAP}: {name}") if data.get(name) else EMPTY
            for name in ("client-ca-file", "requestheader-client-ca-file")
        )
        kinds = ("username-headers", "uid-headers", "group-headers", "extra-headers-prefix")
        names = [_names(data, f"requestheader-{each}") for each in (*kinds, "allowed-names")]
        self._data, self._published_users, self._published_proxies = data, users, proxies
        self._published_headers = ProxyHeaders(*names)

    def warn(self) -> None:
        """Logs which features do not work without an API server that has the ConfigMap."""
        for key, bundle, kind in (
            ("client-ca-file", self._users, "client certificate"),
            (
                "requestheader-client-ca-file",
                self._proxies,
                "request-header client certificate",
            ),
        ):
            if self._lacks and bundle is None:
                log.warning(
                    f"No authentication-kubeconfig provided in order to lookup {key} in"
                    f" {CONFIG_MAP}, so {kind} authentication won't work."
                )


def _names(data: dict[str, str], key: str) -> tuple[str, ...]:
    """Returns a list of names in JSON. Raises ValueError."""
    try:
        return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
    except msgspec.DecodeError as problem:
        raise ValueError(f"{CONFIG_MAP}: {key}: {problem}") from None
