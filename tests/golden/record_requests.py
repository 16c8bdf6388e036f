"""Ask a kube-apiserver: `python -m tests.golden.record_requests KUBECONFIG`.

It asks all requests of the table, makes a namespace for each story and deletes what it made. The
cluster should be of the version of the table, 1.36.2, with kube-apiserver's default admission.
"""

from __future__ import annotations

import gzip
import ssl
import sys
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import msgspec
import yaml

from tests.golden.api_requests import ANSWERS, Answer, Player, Request, stories

SECONDS = 30.0


def connection_of(kubeconfig: Path) -> tuple[HTTPConnection, str]:
    """Returns a connection to the server of a kubeconfig with a bearer token, and the token."""
    read = yaml.safe_load(kubeconfig.read_text())
    url = urlsplit(read["clusters"][0]["cluster"]["server"])
    token = read["users"][0]["user"].get("token", "")
    if url.scheme == "http":
        return HTTPConnection(url.netloc, timeout=SECONDS), token
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return HTTPSConnection(url.netloc, timeout=SECONDS, context=context), token


def recorded(kubeconfig: Path, name: str, requests: list[Request]) -> list[Answer]:
    connection, token = connection_of(kubeconfig)
    player = Player(connection, f"story-{token_hex(4)}", token)
    player.prepare()
    told = [player.play(request) for request in requests]
    for path in player.created:
        player.play(Request(f"DELETE {path}"))
    player.play(Request("DELETE /api/v1/namespaces/$NS"))
    connection.close()
    print(f"{len(told):4} {name}")
    return told


def main(kubeconfig: Path) -> None:
    told = [(name, recorded(kubeconfig, name, requests)) for name, requests in stories().items()]
    with gzip.GzipFile(ANSWERS, "wb", mtime=0) as lines:
        lines.writelines(msgspec.json.encode(story, order="sorted") + b"\n" for story in told)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
