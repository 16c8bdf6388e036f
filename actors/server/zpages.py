"""/configz, /flagz and /statusz, in kube-scheduler's forms: the configuration with its defaults,
the flags, and the process.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import yaml

from berth.config.versions import CURRENT, Version

from ..process.version import BERTH, KUBERNETES
from ..telemetry.logs import set_verbosity
from .accepts import DEPRECATED, GROUP, STRUCTURED, MediaType, negotiate
from .request import JSON, TEXT, Answer, Request, refusal_status, text

NAME = "kube-scheduler"
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)
NOT_ACCEPTABLE = refusal_status(
    406,
    "NotAcceptable",
    f"only the following media types are accepted: {', '.join((*STRUCTURED, 'text/plain'))}",
    details=True,
)


def process_start() -> datetime:
    """Returns when this process began, to the second; the present time if the kernel does not
    tell.
    """
    now = datetime.now(UTC)
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return now
    ticks = int(fields[19])  # since boot
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return now - timedelta(seconds=age)


class ConfigurationPage:
    """The page /configz: the present configuration, which `configuration` returns.

    kube-scheduler shows the private keys of extenders in it; they are left out here.
    """

    def __init__(self, configuration: Callable[[], dict[str, Any]]) -> None:
        self._configuration = configuration

    async def show(self, _: Request) -> Answer:
        document = self._configuration()
        for extender in document.get("extenders", ()):
            extender.get("tlsConfig", {}).pop("keyData", None)
        body = msgspec.json.encode({"componentconfig": document})
        return Answer(body, content_type=JSON)


class FlagsPage:
    """The page /flagz. `flags` are all flags with their values."""

    def __init__(self, flags: Mapping[str, str]) -> None:
        self._flags = dict(sorted(flags.items()))

    async def show(self, request: Request) -> Answer:
        lines = (f"{name}:{value}" for name, value in self._flags.items())
        return _page(request, "Flagz", lines, {"flags": self._flags})


async def verbosity_flag(request: Request) -> Answer:
    """Answers PUT /debug/flags/v, whose body is the new verbosity of the log, as for klog."""
    if request.method != "PUT":
        return text("unsupported http method", 406)
    value = (await request.body()).decode(errors="replace")
    if not (value.isascii() and value.isdecimal() and int(value) < 1 << 31):
        return text(f'strconv.ParseUint: parsing "{value}": invalid syntax', 400)
    set_verbosity(int(value))
    return text(f"successfully set klog.logging.verbosity to {value}")


class StatusPage:
    """The page /statusz. `paths` are the paths of the other pages; `started` is when the process
    began. `version` is the version of Kubernetes that berth decides as.
    """

    def __init__(
        self,
        paths: Iterable[str],
        started: datetime,
        wall: Callable[[], datetime],
        version: Version = CURRENT,
    ) -> None:
        first = {f"/{path.split('/')[1]}" for path in paths}
        self._paths = sorted(first - {"/statusz", "/"})
        self._started = started
        self._wall = wall
        self._emulated = version.text
        self._version = f"{KUBERNETES.removeprefix('v')}+berth.{BERTH}"
        self._python = f"none (Python {platform.python_version()})"

    async def show(self, request: Request) -> Answer:
        seconds = max(0, int((self._wall() - self._started).total_seconds()))
        hours, minutes = seconds // 3600, seconds // 60 % 60
        lines = (
            "",
            f"Started:  {self._started:%a %b %e %H:%M:%S} UTC {self._started:%Y}",
            f"Up:  {hours} hr {minutes:02} min {seconds % 60:02} sec",
            f"Go version:  {self._python}",
            f"Binary version:  {self._version}",
            f"Emulation version:  {self._emulated}",
            f"Paths:  {' '.join(self._paths)}",
        )
        fields = {
            "startTime": f"{self._started:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": seconds,
            "goVersion": self._python,
            "binaryVersion": self._version,
            "emulationVersion": self._emulated,
            "paths": self._paths,
        }
        return _page(request, "Statusz", lines, fields)


def _page(
    request: Request, kind: str, lines: Iterable[str], fields: Mapping[str, object]
) -> Answer:
    accepted = negotiate(request.headers.get("Accept", ""), kind)
    if accepted is None:
        return NOT_ACCEPTABLE
    if not accepted.version:
        words = "\n".join(["", f"{NAME} {kind.lower()}", WARNING, *lines, ""])
        return Answer(words.encode(), content_type=TEXT, headers=())
    document = {
        "kind": kind,
        "apiVersion": f"{GROUP}/{accepted.version}",
        "metadata": {"name": NAME},
        **fields,
    }
    return Answer(_encoded(document, accepted), 200, accepted.media_type, _warning(accepted, kind))


def _encoded(document: Mapping[str, object], accepted: MediaType) -> bytes:
    if accepted.media_type == JSON:
        return msgspec.json.format(msgspec.json.encode(document), indent=2)
    return yaml.safe_dump(document).encode()


def _warning(accepted: MediaType, kind: str) -> tuple[tuple[str, str], ...]:
    if accepted.version != DEPRECATED:
        return ()
    what = f"This version of the {kind.lower()} endpoint is deprecated."
    return (("Warning", f'299 - "{what} Please use a newer version."'),)
