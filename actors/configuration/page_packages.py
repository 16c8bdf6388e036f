"""The pages of installed packages, found through the entry-point group `berth.pages`.

Each entry has the name of a page, which answers /NAME and all paths below it, and refers to a
function that makes it. A package is imported when somebody who may asks for its page, so an
installed package that nobody asks can do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib.metadata import entry_points

from ..scheduling.framework.logger import get_logger

log = get_logger(__name__)

ENTRY_POINT_GROUP = "berth.pages"


def every_page(taken: Collection[str]) -> dict[str, Callable[[], object]]:
    """Returns a function for each page by name. It imports the object that the entry point names,
    and returns it.

    A page of a package cannot have a name that is taken; of two packages with the same name, the
    first in alphabetical order is used. The log has a line about each page that is left out.
    """
    pages: dict[str, Callable[[], object]] = {}
    entries = entry_points(group=ENTRY_POINT_GROUP)
    for entry in sorted(entries, key=lambda each: (each.name, each.dist.name if each.dist else "")):
        problem = ""
        if not entry.name or "/" in entry.name:
            problem = "expected a name without a slash"
        elif entry.name in taken:
            problem = "the name is that of a page of the scheduler"
        elif entry.name in pages:
            problem = "another package has a page of this name"
        if problem:
            package = entry.dist.name if entry.dist is not None else "unknown"
            log.warning("page left out", page=entry.name, package=package, error=problem)
        else:
            pages[entry.name] = entry.load
    return pages
