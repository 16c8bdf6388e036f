"""The suites, as they are listed in suites.yaml."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

LIST = Path(__file__).with_name("suites.yaml")


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A suite of tests in the checkout of a project.

    `tests` are pytest's arguments, of which `count` is the number of tests. `needs` are the
    requirements besides the project itself. If it is a `released` package, they name it too, and
    modules that only the checkout has are added to those of the package.
    `flags` are further ones of the demo. `not_passed` has the reasons why tests do not pass, each
    with their names; those of `not_run` would wait for nothing for minutes.
    """

    name: str
    project: str
    tests: list[str]
    count: int
    needs: list[str]
    released: str = ""
    flags: list[str] = []
    not_passed: dict[str, list[str]] = {}
    not_run: dict[str, list[str]] = {}

    @property
    def checkout(self) -> str:
        return self.project.partition("/")[2]

    @property
    def passes(self) -> int:
        """The number of tests that pass."""
        reasons = *self.not_passed.values(), *self.not_run.values()
        return self.count - sum(len(tests) for tests in reasons)


def _read() -> list[Suite]:
    return msgspec.convert(yaml.safe_load(LIST.read_text()), list[Suite])


SUITES = _read()
