"""/configz, /flagz and /statusz, in the forms in which kube-scheduler 1.36.2 printed them."""

from __future__ import annotations

import json
import platform
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pytest
import yaml

from berth.actors.server.request import Answer
from berth.actors.server.zpages import ConfigurationPage, FlagsPage, StatusPage, process_start
from tests.kit.serving import request_for

STARTED = datetime(2026, 11, 22, 10, 27, 29, tzinfo=UTC)
VERSION = f"1.36.2+berth.{version('berth-scheduler')}"
PYTHON = f"none (Python {platform.python_version()})"
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility"
    " guarantees and is for debugging purposes only."
)
PATHS = ["/configz", "/debug", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"]
PAGES = (*PATHS, "/metrics/resources", "/livez/", "/debug/")


def status(seconds: float = 19.5) -> StatusPage:
    return StatusPage(PAGES, STARTED, lambda: STARTED + timedelta(seconds=seconds))


async def ask(page: StatusPage | FlagsPage, accept: str = "") -> tuple[Answer, str]:
    answer = await page.show(request_for("/page", *((("Accept", accept),) if accept else ())))
    assert isinstance(answer.body, bytes)
    return answer, answer.body.decode()


async def test_flags_are_listed_in_order() -> None:
    page = FlagsPage({"v": "4", "bind-address": "0.0.0.0", "config": ""})
    answer, body = await ask(page)
    assert body == f"\nkube-scheduler flagz\n{WARNING}\nbind-address:0.0.0.0\nconfig:\nv:4\n"
    assert (answer.content_type, answer.headers) == ("text/plain; charset=utf-8", ())
    _, body = await ask(page, "application/json;as=Flagz;g=config.k8s.io;v=v1beta1")
    assert json.loads(body) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "flags": {"bind-address": "0.0.0.0", "config": "", "v": "4"},
    }


@pytest.mark.parametrize(
    ("seconds", "up"),
    [(19.5, "0 hr 00 min 19 sec"), (90061, "25 hr 01 min 01 sec"), (-5, "0 hr 00 min 00 sec")],
)
async def test_the_status_of_the_process(seconds: float, up: str) -> None:
    _, body = await ask(status(seconds), "*/*")
    assert body == (
        f"\nkube-scheduler statusz\n{WARNING}\n\nStarted:  Sun Nov 22 10:27:29 UTC 2026\n"
        f"Up:  {up}\nGo version:  {PYTHON}\nBinary version:  {VERSION}\n"
        f"Emulation version:  1.36\nPaths:  {' '.join(PATHS)}\n"
    )


async def test_the_status_as_an_object() -> None:
    answer, body = await ask(status(), "application/json;v=v1beta1;g=config.k8s.io;as=Statusz")
    assert answer.content_type == "application/json"
    assert body.startswith('{\n  "kind": "Statusz",\n  "apiVersion": "config.k8s.io/v1beta1",\n')
    assert json.loads(body) == {
        "kind": "Statusz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "startTime": "2026-11-22T10:27:29Z",
        "uptimeSeconds": 19,
        "goVersion": PYTHON,
        "binaryVersion": VERSION,
        "emulationVersion": "1.36",
        "paths": PATHS,
    }
    answer, body = await ask(status(), "application/yaml;as=Statusz;g=config.k8s.io;v=v1alpha1")
    assert yaml.safe_load(body)["apiVersion"] == "config.k8s.io/v1alpha1"
    assert answer.headers[0][0] == "Warning"


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("text/plain", "text/plain; charset=utf-8"),
        ("text/*;q=0.1, image/png", "text/plain; charset=utf-8"),
        ("application/json, text/plain", "text/plain; charset=utf-8"),
        ("application/json;as=Flagz;g=config.k8s.io;v=v1beta1, */*", "text/plain; charset=utf-8"),
        (
            "text/plain;q=0.5, application/json;as=Statusz;g=config.k8s.io;v=v1beta1",
            "application/json",
        ),
    ],
)
async def test_the_form_is_negotiated(accept: str, media_type: str) -> None:
    answer, _ = await ask(status(), accept)
    assert (answer.status, answer.content_type) == (200, media_type)


@pytest.mark.parametrize("accept", ["application/json", "image/png", ";;q=x"])
async def test_a_form_that_is_not_known_is_refused(accept: str) -> None:
    answer, body = await ask(status(), accept)
    assert (answer.status, json.loads(body)["reason"]) == (406, "NotAcceptable")


async def test_the_configuration() -> None:
    answer = await ConfigurationPage(lambda: {"kind": "KubeSchedulerConfiguration"}).show(
        request_for("/configz")
    )
    assert answer.body == b'{"componentconfig":{"kind":"KubeSchedulerConfiguration"}}'
    assert answer.content_type == "application/json"


async def test_the_configuration_has_no_private_key() -> None:
    tls = {"certData": "Yw==", "keyData": "c2VjcmV0"}
    extenders = [{"urlPrefix": "https://a", "tlsConfig": tls}, {"urlPrefix": "https://b"}]
    answer = await ConfigurationPage(lambda: {"extenders": extenders}).show(request_for("/configz"))
    assert answer.body == (
        b'{"componentconfig":{"extenders":[{"urlPrefix":"https://a","tlsConfig":{"certData":"Yw=="'
        b'}},{"urlPrefix":"https://b"}]}}'
    )


def test_when_the_process_started() -> None:
    assert timedelta(0) < datetime.now(UTC) - process_start() < timedelta(hours=1)
