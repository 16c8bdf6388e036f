"""The authorities of clients: from files, and from the ConfigMap in which an API server publishes
its own, extension-apiserver-authentication in kube-system.

What a flag gives is read from its file whenever that changes. What no flag gives is looked up in
the ConfigMap, and again twice a minute.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from berth.config.options import Authentication

from ..client.access import Calls
from ..client.rest import ApiError, ConnectionFailedError
from ..runtime.clock import Clock
from ..runtime.logger import get_logger
from ..scheduling.kube.meta import Object
from .authentication import Authorities, ProxyHeaders
from .client_certificates import read_bundle
from .regular_file import content

log = get_logger(__name__)

CONFIG_MAP = "configmap/extension-apiserver-authentication in kube-system"
PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REFRESH_SECONDS = 30.0
EMPTY: frozenset[bytes] = frozenset()


class LookupFailedError(Exception):
    """The ConfigMap cannot be read, although it has to be."""


class ConfigMap(Object, frozen=True, kw_only=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


class BundleFile:
    """Certificates in a file that may change. One that cannot be read any more is logged once, and
    the last content counts.
    """

    def __init__(self, path: str, flag: str) -> None:
        """Raises OSError or ValueError."""
        self._path = Path(path)
        self._where = f"{flag}: {path}"
        self._raw = content(self._path)
        self._bundle = read_bundle(self._raw, self._where)
        self._stamp = self._look()

    def current(self) -> frozenset[bytes]:
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._bundle = read_bundle(content(self._path), self._where)
            except (OSError, ValueError) as problem:
                log.warning("new certificates are not used", error=str(problem))
        return self._bundle

    def _look(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino


class ClientAuthorities:
    """`reachable` is True if there is an API server to look the ConfigMap up at."""

    def __init__(self, authentication: Authentication, clock: Clock, *, reachable: bool) -> None:
        """Raises OSError or ValueError for a file."""
        self._settings = authentication
        self._clock = clock
        users, proxies = authentication.client_ca_file, authentication.requestheader_client_ca_file
        self._users = BundleFile(users, "--client-ca-file") if users else None
        self._proxies = BundleFile(proxies, "--requestheader-client-ca-file") if proxies else None
        self._found: dict[str, str] = {}
        self._found_users = self._found_proxies = EMPTY
        self._found_headers = ProxyHeaders()
        self._failing = False
        needed = not authentication.skip_lookup and (self._users is None or self._proxies is None)
        self._looks = needed and reachable
        self._lacks = needed and not reachable

    def current(self) -> Authorities:
        users = self._found_users if self._users is None else self._users.current()
        if self._proxies is None:
            return Authorities(users, self._found_proxies, self._found_headers)
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
        """All certificates of authorities, in a fixed order."""
        current = self.current()
        return tuple(sorted(current.users | current.proxies))

    async def follow(self, calls: Calls) -> None:
        """Look the ConfigMap up until cancelled, if it is needed. Raises LookupFailedError if the
        first attempt fails and that is not tolerated.
        """
        first = True
        while self._looks:
            problem = await self._look(calls)
            if first and problem and not self._settings.tolerate_lookup_failure:
                raise LookupFailedError(
                    f"unable to load configmap based request-header-client-ca-file: {problem}"
                )
            first = False
            await self._clock.sleep(REFRESH_SECONDS)

    async def _look(self, calls: Calls) -> str:
        """Returns the problem, or ""."""
        try:
            found = await calls.call("GET", PATH, ConfigMap)
            if found.data != self._found:
                self._take(found.data)
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

    def _take(self, data: dict[str, str]) -> None:
        """Take over the ConfigMap's content. Raises ValueError if it cannot be read."""
        users, proxies = (
            read_bundle(data[name].encode(), f"{CONFIG_MAP}: {name}") if data.get(name) else EMPTY
            for name in ("client-ca-file", "requestheader-client-ca-file")
        )
        kinds = ("username-headers", "uid-headers", "group-headers", "extra-headers-prefix")
        names = [_names(data, f"requestheader-{each}") for each in (*kinds, "allowed-names")]
        self._found, self._found_users, self._found_proxies = data, users, proxies
        self._found_headers = ProxyHeaders(*names)

    def warn(self) -> None:
        """Log what does not work as there is no API server to look the ConfigMap up at."""
        for key, known, kind in (
            ("client-ca-file", self._users, "client certificate"),
            (
                "requestheader-client-ca-file",
                self._proxies,
                "request-header client certificate",
            ),
        ):
            if self._lacks and known is None:
                log.warning(
                    f"No authentication-kubeconfig provided in order to lookup {key} in"
                    f" {CONFIG_MAP}, so {kind} authentication won't work."
                )


def _names(data: dict[str, str], key: str) -> tuple[str, ...]:
    """A list of names in JSON. Raises ValueError."""
    try:
        return msgspec.json.decode(data.get(key) or "[]", type=tuple[str, ...])
    except msgspec.DecodeError as problem:
        raise ValueError(f"{CONFIG_MAP}: {key}: {problem}") from None
