"""The control of faults over a port of its own, which no fault touches.

GET /faults       the faults in force, and how often each was met
PUT /faults       ends them, and puts those of the body in force, in YAML or JSON
POST /faults      adds those of the body
DELETE /faults    ends them
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import msgspec

from ...kubernetes.api.requests.origins import Guard
from ...kubernetes.api.requests.request import HttpRequest
from ...kubernetes.api.store import Store
from ...kubernetes.api.types.api_documents import RefusedError
from ..faults.fault_files import FaultFile, faults_in
from ..faults.fault_files import read_faults as read_file
from ..faults.faults_in_force import Faults
from ..faults.vocabulary import FaultError, FaultPlace
from .faulty_wire import FaultyWire
from .http import Follow, Response, listen
from .store_faults import StoreFaults

PATH = "/faults"
TEXT = "text/plain; charset=utf-8"


def read_faults(file: Path) -> FaultFile:
    """Reads the faults of a wire. Raises FaultError and OSError."""
    return read_file(file, FaultPlace.WIRE)


class FaultControl:
    """Answers requests about the faults in force; none of web pages."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._guard = Guard(())

    def answer(self, request: HttpRequest) -> Response | Follow:
        if request.path != PATH:
            return Response(b"404 page not found\n", 404, TEXT)
        try:
            self._guard.check(request.headers)
            match request.method:
                case "GET":
                    pass
                case "PUT":
                    self._faults.replace(faults_in(request.body, FaultPlace.WIRE).faults)
                case "POST":
                    self._faults.add(*faults_in(request.body, FaultPlace.WIRE).faults)
                case "DELETE":
                    self._faults.clear()
                case _:
                    return Response(b"405 method not allowed\n", 405, TEXT)
        except FaultError as problem:
            return Response(f"{problem}\n".encode(), 400, TEXT)
        except RefusedError as refused:
            return Response(f"{refused}\n".encode(), refused.code, TEXT)
        shown = {"faults": list(self._faults), "met": dict(self._faults.met)}
        return Response(msgspec.json.encode(shown))


@asynccontextmanager
async def faulty(store: Store, first: FaultFile, port: int) -> AsyncIterator[FaultyWire]:
    """Puts faults in force during the block, the first ones from its beginning, with a control on
    this port; 0 is any. Yields the wire that has them. Raises OSError.
    """
    now, rng = asyncio.get_running_loop().time, Random(first.seed)
    faults = Faults(FaultPlace.WIRE, now, rng)
    store_faults = StoreFaults(store, faults, now, rng)
    faults.add(*first.faults)
    happening = asyncio.create_task(store_faults.run())
    try:
        async with listen(FaultControl(faults).answer, port) as url:
            wire = FaultyWire(store_faults, now)
            wire.control = f"{url}{PATH}"
            yield wire
    finally:
        happening.cancel()


__all__ = ["FaultError", "FaultFile", "faulty", "read_faults"]
