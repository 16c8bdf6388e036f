"""The files, sections, flags, fields and gates that the documentation names exist, and its defaults
are right.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

import click
import msgspec
import pytest

from berth.actors.cli import main
from berth.actors.configuration.file import load_file, read_document
from berth.actors.scheduling.decision.profile import Profile
from berth.actors.scheduling.decision.registry import build_profiles, extension_points
from berth.actors.scheduling.plugins.in_tree import IN_TREE
from berth.config.feature_gates import DEFAULTS, NOT_IMPLEMENTED
from berth.config.load import from_mapping
from berth.config.profiles import DEFAULT_MULTI_POINT
from berth.config.types import KubeSchedulerConfiguration
from berth.plugin import DependsOn, Plugin
from berth.tools.answers.explain.decision import Decision, Preemption
from berth.tools.bench.measure import Result
from berth.tools.testing.plugin_commands import plugin_command
from berth.tools.views.commands.serve import serve
from berth.tools.views.commands.sweep import sweep
from tests.docs import fault_table, flag_tables, rule_tables, verb_table
from tests.docs.blocks import (
    BENCH,
    EXPLAIN,
    PAGES,
    PLUGINS,
    PREEMPTION,
    ROOT,
    WHATIF,
    Block,
    blocks,
)
from tests.kit.handle import NoApi

README, CONFIGURATION = ROOT / "README.md", ROOT / "docs/configuration.md"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
ROW = re.compile(r"^\| (`[^|]*) \|([^|]*)\|", re.MULTILINE)
OF_DEV = frozenset(("--static", "--all", "--golden", "--scheduler-perf"))
REMOVED = {"--no-leader-elect"}  # the changelog names them
# Commands whose name follows that of another one.
WITHIN = {"whatif": (serve, sweep), "plugin": tuple(plugin_command.plugin.commands.values())}


@cache
def commands() -> dict[str, frozenset[str]]:
    """Returns the flags of every `berth` subcommand."""
    flags_of = {}
    context = click.Context(main)
    for name in main.list_commands(context):
        _, command, _ = main.resolve_command(context, [name])
        assert command is not None
        flags = (
            flag
            for each in (command, *WITHIN.get(name, ()))
            for parameter in each.params
            for flag in (*parameter.opts, *parameter.secondary_opts)
        )
        flags_of[name] = frozenset(flags)
    return flags_of


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """Returns the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def table_under(heading: str, page: Path = CONFIGURATION) -> dict[str, str]:
    """Returns the first two columns of all tables in a section of a page."""
    section = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {match[1]: match[2].strip() for match in ROW.finditer(section)}


def test_the_readme_opens_with_the_two_commands() -> None:
    assert blocks(README)[0].text == "python3 tools/dev.py demo\npython3 tools/dev.py test\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(prose(page)) if "://" not in link]
    assert links or page.name == "explain.md"
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page.name}: {link}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{page.name}: {link}"


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(ROOT / link).resolve() for link in LINK.findall(prose(README)) if "://" not in link}
    assert {page for page in PAGES if page != README} <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_flag_exists(page: Path) -> None:
    flags_of = commands()
    lines = [line.strip() for block in blocks(page) for line in block.text.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", prose(page))
    for text in (*lines, *spans):
        called = re.match(r"(?:\$ )?(?:\.venv/bin/)?berth (\w+)", text)
        if called is not None:
            assert called[1] in flags_of, f"{page.name}: {text}"
            assert set(FLAG.findall(text)) <= flags_of[called[1]], f"{page.name}: {text}"
        elif text in spans and text.startswith("--"):
            assert set(FLAG.findall(text)) <= frozenset().union(
                OF_DEV, REMOVED, *flags_of.values()
            ), f"{page.name}: {text}"


def test_the_tables_of_flags_are_those_of_run() -> None:
    assert flag_tables.tables() in CONFIGURATION.read_text(), "run python -m tests.docs.refresh"


def test_the_table_of_steps_is_that_of_the_verbs() -> None:
    assert verb_table.table() in WHATIF.read_text(), "run python -m tests.docs.refresh"


def test_the_tables_of_faults_are_those_of_the_vocabulary() -> None:
    assert fault_table.tables() in fault_table.PAGE.read_text(), "run python -m tests.docs.refresh"


def test_the_options_of_bench_and_their_defaults() -> None:
    command = entry_points(group="berth.commands", name="bench")["bench"].load()
    options = {
        option: parameter
        for parameter in command.params
        for option in parameter.opts
        if option[:2] == "--"
    }
    rows = table_under("Options", BENCH)
    assert {flag for names in rows for flag in FLAG.findall(names)} == options.keys()
    for names, default in rows.items():
        option = options[FLAG.findall(names)[0]]
        told = re.search(r"\[default: (\S+)\]", option.help or "")
        expected = told[1] if told else str(option.default) if option.show_default else ""
        assert default == expected or (default == "all" and not expected), names


def test_the_fields_that_bench_writes() -> None:
    told = {
        name
        for names in table_under("What is measured", BENCH)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert told == set(Result.__struct_fields__)


def test_the_fields_that_explain_answers() -> None:
    for heading, page, fields in (("JSON", EXPLAIN, Decision), ("Preview", PREEMPTION, Preemption)):
        told = {
            name for names in table_under(heading, page) for name in re.findall(r"`(\w+)`", names)
        }
        assert told >= {field.encode_name for field in msgspec.structs.fields(fields)}


def test_the_feature_gates_and_their_defaults() -> None:
    told = {name.strip("`"): value for name, value in table_under("Feature gates").items()}
    assert told.items() <= {name: str(value).lower() for name, value in DEFAULTS.items()}.items()
    section = CONFIGURATION.read_text().split("\n## Feature gates\n")[1]
    assert {*NOT_IMPLEMENTED} <= {*re.findall(r"`(\w+)`", section)}
    assert not {*NOT_IMPLEMENTED} & told.keys()
    read = {
        name
        for file in (ROOT / "actors").rglob("*.py")
        for name in re.findall(r'(?:gates\[|gates\.get\(|by\()"(\w+)"', file.read_text())
        if name in DEFAULTS
    }
    assert len(read) > 20
    assert told.keys() >= read


def test_what_the_answers_of_plugins_depend_on() -> None:
    row = r"^\| `DependsOn\.([A-Z_]+)`.*\| ([^|]*) \|$"
    told = dict(re.findall(row, PLUGINS.read_text(), re.MULTILINE))
    assert told.keys() == {kind.name for kind in DependsOn}
    for name, plugin in IN_TREE.items():
        if extension_points(plugin) & {"preFilter", "filter", "preScore", "score"}:
            assert name in told[plugin.depends_on.name].split(", "), name


def test_the_default_plugins_and_their_weights() -> None:
    told = {
        name: weight
        for names, weight in table_under("Profiles").items()
        for name in re.findall(r"`(\w+)`", names)
        if name != "multiPoint"
    }
    assert told == {ref.name: str(ref.weight or "") for ref in DEFAULT_MULTI_POINT}


def configurations() -> list[Block]:
    every = (block for page in PAGES for block in blocks(page, "yaml"))
    return [
        block
        for block in every
        if "kind: KubeSchedulerConfiguration" in block.text and block.title != "misspelled.yaml"
    ]


def profiles(block: Block, folder: Path) -> dict[str, Profile]:
    path = folder / "configuration.yaml"
    path.write_text(block.text)
    return build_profiles(load_file(path), IN_TREE, NoApi())


@pytest.mark.parametrize(
    "block", [b for b in configurations() if b.page == "configuration.md"], ids=str
)
def test_every_configuration_is_valid(block: Block, tmp_path: Path) -> None:
    assert profiles(block, tmp_path)


def test_every_example_of_a_user_plugin_is_read(tmp_path: Path) -> None:
    for block in configurations():
        if block.page == "plugins.md":
            path = tmp_path / "configuration.yaml"
            path.write_text(block.text)
            read = from_mapping(read_document(path))  # its plugins are not installed
            assert read.profiles[0].plugins.multi_point.enabled


def test_the_default_configuration_is_the_default(tmp_path: Path) -> None:
    (block,) = (block for block in configurations() if block.title == "default.yaml")
    path = tmp_path / block.title
    path.write_text(block.text)
    assert load_file(path) == from_mapping(None)
    told = set(re.findall(r"^(\w+):", block.text, re.MULTILINE))
    assert {
        field.encode_name for field in msgspec.structs.fields(KubeSchedulerConfiguration)
    } <= told


def test_the_default_args_are_the_defaults(tmp_path: Path) -> None:
    (block,) = (block for block in configurations() if block.title == "plugin-defaults.yaml")
    (told,) = profiles(block, tmp_path).values()
    (default,) = build_profiles(from_mapping(None), IN_TREE, NoApi()).values()

    def rules(plugin: Plugin) -> dict[str, object]:
        # What a plugin remembers while it runs is no arg.
        remembered = {"handle", "neighbours", "_hinted", "_node_allocations", "_own_columns"}
        remembered |= {"_indexes", "_binding", "_budget", "_room", "_limits", "_classes", "_totals"}
        remembered |= {"_preferred", "_kept_budgets", "_readings", "_dry_runs", "_lowest"}
        return {name: value for name, value in vars(plugin).items() if name not in remembered}

    assert {p.name: rules(p) for p in told.plugins} == {p.name: rules(p) for p in default.plugins}


def test_the_tables_of_rules_are_those_of_the_types() -> None:
    assert rule_tables.PAGE.read_text().endswith(rule_tables.tables()), (
        "run python -m tests.docs.refresh"
    )
