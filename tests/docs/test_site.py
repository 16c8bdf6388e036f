"""The site of the documentation: every page is on a path, every link leads somewhere, and nothing
comes from another host.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from berth.tools.docs import site
from tests.docs.blocks import ROOT

# What a browser fetches for a page by itself.
FETCHED = {("link", "href"), ("script", "src"), ("img", "src")}


class Page(HTMLParser):
    """The places of a page, and what it links to and fetches."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.places = {""}
        self.links: set[str] = set()
        self.fetched: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.places.add(value or "")
            elif (tag, name) in FETCHED:
                self.fetched.add(value or "")
            elif tag == "a" and name == "href":
                self.links.add(value or "")


def named(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from named(value)


def test_every_page_is_on_one_path() -> None:
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    on_paths = [*named(tomllib.loads(site.SETTINGS.read_text())["project"]["nav"])]
    assert sorted(on_paths) == sorted([*pages, site.TOUR])


def test_the_address_of_the_documentation_is_that_of_the_site() -> None:
    address = "https://berth.example/docs/"
    with_address, without = (
        tomllib.loads(site.settings(addresses))["project"]
        for addresses in ({"Documentation": address, "Source": "https://berth.example/"}, {})
    )
    assert with_address == {**without, "site_url": address}


@pytest.mark.full
def test_the_site_is_whole_and_its_search_finds_pages(tmp_path: Path) -> None:
    assert site.main(tmp_path) == 0
    pages = {path: Page(path) for path in tmp_path.rglob("*.html") if path.name != "404.html"}
    assert tmp_path / "source/actors/system.py.html" in pages
    for path, page in pages.items():
        for link in page.links | page.fetched:
            target, _, place = link.partition("#")
            if "://" in target:
                continue
            file = (path.parent / target).resolve() if target else path
            assert file.exists(), f"{path.name}: {link}"
            assert file not in pages or place in pages[file].places, f"{path.name}: {link}"
        assert not [each for each in page.fetched if "//" in each], path.name
    found = json.dumps(json.loads((tmp_path / "search.json").read_text()))
    assert (tmp_path / "search.js").exists()  # what a browser reads in place of it from a folder
    assert "NodeScorePlugin" in found
    assert '"source/' not in found
