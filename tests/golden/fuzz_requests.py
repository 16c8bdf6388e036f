"""Sends made requests: `python -m tests.golden.fuzz_requests URL [MINUTES] [SEED]`.

Three clients send them at the same time. An answer with a code of 500 or more, one that is no
Status, none within ten seconds, or a connection that ends without one is printed with its request
and makes the program exit with 1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from itertools import count
from random import Random
from urllib.parse import urlsplit

import msgspec

from tests.golden.api_requests import Player
from tests.golden.made_requests import MadeRequests

CLIENTS = 3
SECONDS = 10.0
MOST_FOUND = 20
REQUESTS_OF_A_NAMESPACE = 2_000
# As kube-apiserver answers them, for no fault of its own.
TIMED_OUT = 504
RIGHTLY = (
    b"Non-matching dry-run options",
    b"resourceVersion: Invalid value",
    b"failed to create typed patch object",
    b"This pod has more than one PodDisruptionBudget",
)


def problem_of(status: int, media_type: str, body: bytes) -> str:
    """Returns what is wrong with an answer; "" if nothing is."""
    if status >= 500 and status != TIMED_OUT and not any(words in body for words in RIGHTLY):
        return f"{status}: {body.decode(errors='replace')}"
    if status >= 400 and media_type == "application/json":
        told = msgspec.json.decode(body) if body else {}
        if body and (told.get("kind"), told.get("code")) != ("Status", status):
            return f"{status}, and no Status: {body.decode(errors='replace')}"
    return ""


def fuzz(url: str, seed: str, until: float) -> tuple[Counter[int], list[str]]:
    """Sends requests until a time of `time.monotonic`. Returns the codes, and what was found."""
    made, codes, found = MadeRequests(Random(seed)), Counter[int](), list[str]()
    for number in count():
        if number % REQUESTS_OF_A_NAMESPACE == 0:
            connection = HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
            player = Player(connection, f"made-{seed}-{number}")
            player.prepare()
        if time.monotonic() > until or len(found) >= MOST_FOUND:
            break
        request = made.next()
        try:
            status, headers, body = player.send(request)
        except (HTTPException, OSError) as failed:
            connection.close()
            found.append(f"{type(failed).__name__}: {failed}: {request}")
            continue
        codes[status] += 1
        if problem := problem_of(status, headers.get("content-type", ""), body):
            found.append(f"{problem[:2000]}\n    {msgspec.json.encode(request).decode()[:3000]}")
    return codes, found


def main(url: str, minutes: float, seed: str) -> int:
    until = time.monotonic() + minutes * 60
    with ThreadPoolExecutor(CLIENTS) as pool:
        runs = [pool.submit(fuzz, url, f"{seed}{client}", until) for client in range(CLIENTS)]
        results = [run.result() for run in runs]
    codes: Counter[int] = sum((codes for codes, _ in results), Counter())
    found = [each for _, several in results for each in several]
    print("\n".join(found))
    print(f"{codes.total()} answers: {dict(sorted(codes.items()))}; {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    address, *rest = sys.argv[1:]
    sys.exit(main(address, float(rest[0]) if rest else 1.0, rest[1] if rest[1:] else "s"))
