"""Packages with pages: which are found, and that none is imported before somebody asks for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from berth.actors.configuration.page_packages import ENTRY_POINT_GROUP, every_page
from tests.kit.logs import capture_logs
from tests.kit.processes import install

SOURCE = "def make(view): ..."


def pages_in(site: Path, monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    for package, names in entries.items():
        each = dict.fromkeys(names.split(), f"{package}:make")
        install(site, package, SOURCE, group=ENTRY_POINT_GROUP, **each)
    monkeypatch.syspath_prepend(site)


def test_a_page_is_imported_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages_in(tmp_path, monkeypatch, page_of_seats="seats")
    load = every_page(())["seats"]
    assert "page_of_seats" not in sys.modules
    make = load()
    assert callable(make)
    assert make.__module__ == "page_of_seats"
    del sys.modules["page_of_seats"]


def test_a_name_is_given_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages_in(tmp_path, monkeypatch, second="seats", first="seats metrics", third="a/b")
    with capture_logs() as logs:
        pages = every_page({"metrics"})
    assert getattr(pages["seats"](), "__module__", "") == "first"
    assert "metrics" not in pages
    assert [(e["page"], e["package"], e["error"]) for e in logs] == [
        ("a/b", "third", "expected a name without a slash"),
        ("metrics", "first", "the name is that of a page of the scheduler"),
        ("seats", "second", "another package has a page of this name"),
    ]
    del sys.modules["first"]
