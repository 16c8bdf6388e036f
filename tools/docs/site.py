"""Makes the site of the documentation: the pages of docs/, the tour of the README, and the files
that they link to.

    .venv/bin/python -m berth.tools.docs.site FOLDER

Zensical renders it, without the network: no page needs anything from another host. site.toml beside
this file says which page is on which of the three paths.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = Path(__file__).with_name("site.toml")
TOUR = "tour.md"  # the README's name in the site
SOURCES = "source"  # the folder in the site with the files that pages link to
_LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(```\w+) (title)=([^\s\"]+)$", re.MULTILINE)
# What Zensical adds for the search from a folder: browsers of today search without it.
_SHIM = re.compile(r'<script src="https://[^"]*/iframe-worker/shim"[^>]*></script>')
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json"}


def main(folder: Path) -> int:
    """Writes the site into a folder. Returns the exit code of the renderer: not 0 if a page that is
    named is not there, or a link leads nowhere.
    """
    with tempfile.TemporaryDirectory(prefix="berth-site-") as name:
        work = Path(name)
        gather(work / "docs")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        (work / "zensical.toml").write_text(settings(project.get("urls", {})), encoding="utf-8")
        program = Path(sys.executable).with_name("zensical")
        build = [str(program), "build", "--strict"]
        code = subprocess.run(build, cwd=work, check=False).returncode
        if code == 0:
            for page in (work / "site").rglob("*.html"):
                page.write_text(_SHIM.sub("", page.read_text(encoding="utf-8")), encoding="utf-8")
            shutil.copytree(work / "site", folder, dirs_exist_ok=True)
        return code


def settings(addresses: Mapping[str, str]) -> str:
    """Returns what Zensical needs to know, by the addresses of the project. The page of what is not
    found, and the map of the site, need that of the documentation.
    """
    text = SETTINGS.read_text(encoding="utf-8")
    address = addresses.get("Documentation")
    line = f"[project]\nsite_url = {json.dumps(address)}\n"
    return text.replace("[project]\n", line, 1) if address else text


def gather(folder: Path) -> None:
    """Copies the pages, and makes a page of each file outside docs/ that one of them links to."""
    docs = ROOT / "docs"
    shutil.copytree(docs, folder, ignore=shutil.ignore_patterns("README.md"))
    shutil.copy(ROOT / "README.md", folder / TOUR)
    sources = set[Path]()
    for page in folder.glob("*.md"):
        original = ROOT / "README.md" if page.name == TOUR else docs / page.name

        def link(match: re.Match[str], original: Path = original) -> str:
            target = (original.parent / match[1]).resolve()
            place = _place(target)
            if place.startswith(f"{SOURCES}/"):
                sources.add(target)
            return place + (match[2] or "")

        text = _LINK.sub(link, page.read_text(encoding="utf-8"))
        page.write_text(_FENCE.sub(r'\1 \2="\3"', text), encoding="utf-8")
    for source in sorted(sources):
        _write_source(source, folder)


def _place(target: Path) -> str:
    """Returns where a file is in the site."""
    if target == ROOT / "README.md":
        return TOUR
    if target.is_relative_to(ROOT / "docs"):
        return target.relative_to(ROOT / "docs").as_posix()
    return _source_page(target)


def _source_page(source: Path) -> str:
    """Returns the page of a file. Zensical leaves hidden folders out, such as .ci."""
    return f"{SOURCES}/{source.relative_to(ROOT).as_posix().lstrip('.')}.md"


def _write_source(source: Path, folder: Path) -> None:
    """Writes a page that shows a file; the search leaves it out."""
    name = source.relative_to(ROOT).as_posix()
    page = folder / _source_page(source)
    page.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text(encoding="utf-8").rstrip()
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`{3,}", text))])
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    language = _LANGUAGES.get(source.suffix, "text")
    page.write_text(f"{head}{fence}{language}\n{text}\n{fence}\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m berth.tools.docs.site FOLDER")
    sys.exit(main(Path(sys.argv[1])))
