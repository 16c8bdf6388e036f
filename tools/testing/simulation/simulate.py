"""`berth simulate`: a cluster in a seed."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ...answers.terminal.options import output_option
from ..run_length import run_seconds
from .scenario import Scenario, read_scenario, written
from .shrinking import shrunk
from .simulation import CALM_SECONDS, play
from .timeline import Timeline
from .timeline_page import page
from .worker import Crash, Seed, Told, TurnWatch, Worker

BROKEN = 1
MOST_SHOWN = 5
FRAME = " +-|"  # what groups of exceptions are framed by


class _UnusableError(click.ClickException):
    exit_code = 2


class _Played(NamedTuple):
    name: str
    scenario: Seed | Scenario
    result: Told | Crash


class StoryResult(msgspec.Struct, frozen=True):
    """The outcome of one scenario, as `-o json` prints it."""

    name: str
    digest: str
    writes: int
    bound: int
    seconds: float
    met: dict[str, int]
    situations: dict[str, int]
    violations: list[dict[str, str | float]]
    cpu: float = 0.0
    crash: str = ""
    shrunk: str = ""


@click.command()
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option("--seeds", default=1, show_default=True, type=click.IntRange(1), help="How many.")
@click.option(
    "--time",
    "length",
    default="1h",
    show_default=True,
    help="The length of each story.",
)
@click.option(
    "--short",
    is_flag=True,
    help="Short stories of a few objects with many faults, in place of --time: for many seeds.",
)
@click.option(
    "--scenario",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Play this file instead of seeds; repeatable.",
)
@click.option(
    "--write",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the scenario of each seed that breaks a property here, made as small as it can be.",
)
@click.option(
    "--page",
    "page_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the time line of a single story as an HTML file.",
)
@click.option(
    "-j", "--jobs", default=os.cpu_count() or 1, type=click.IntRange(1), help="Processes at work."
)
@output_option()
def simulate(
    seed: int,
    seeds: int,
    length: str,
    short: bool,
    files: tuple[Path, ...],
    folder: Path | None,
    page_file: Path | None,
    jobs: int,
    output: str,
) -> None:
    """Play a cluster with faults, and check what must hold.

    Clients, faults, schedulers, API server, controllers and kubelets run in one event loop. A seed
    draws what they do; the same seed gives the same writes, byte for byte. The exit code is 1 if a
    property does not hold, and 2 for what cannot be used.

    \b
    berth simulate --seed 4711
    berth simulate --seeds 100 --time 10m --write broken/
    berth simulate --short --seed 1001 --seeds 1000 --write broken/
    berth simulate --scenario broken/seed-17.yaml --page seed-17.html
    """
    try:
        seconds = None if short else run_seconds(length)
        stories: list[tuple[str, Seed | Scenario]] = [
            (str(file), read_scenario(file)) for file in files
        ] or [(f"seed {number}", Seed(number, seconds)) for number in range(seed, seed + seeds)]
    except (ValueError, OSError) as problem:
        raise _UnusableError(str(problem)) from None
    if page_file is not None and len(stories) > 1:
        raise _UnusableError(f"--page: expected a single story, got {len(stories)}")
    results = []
    try:
        for played in _progress(stories, jobs):
            small = _shrink(played, folder) if folder is not None else ""
            results.append(_result(played, small))
            if page_file is not None and isinstance(played.result, Told):
                _write_page(page_file, played)
            elif page_file is not None:
                click.echo("--page: a part of the cluster failed, and left no story", err=True)
    except OSError as problem:
        raise _UnusableError(str(problem)) from None
    places = {name: place for place, (name, _) in enumerate(stories)}
    results.sort(key=lambda result: places[result.name])
    broken = [result for result in results if result.violations or result.crash]
    if output == "json":
        click.echo(msgspec.json.encode({"stories": results}).decode())
    else:
        _show(results, broken)
    sys.exit(BROKEN if broken else 0)


def _played(stories: Sequence[tuple[str, Seed | Scenario]], jobs: int) -> Iterator[_Played]:
    """Yields each story once it is played, in processes side by side."""
    idle: SimpleQueue[Worker] = SimpleQueue()
    done: SimpleQueue[_Played | BaseException] = SimpleQueue()
    jobs = min(jobs, len(stories))

    def play(name: str, story: Seed | Scenario) -> None:
        worker = idle.get()
        try:
            done.put(_Played(name, story, worker.play(story)))
        except ConnectionError as ended:
            done.put(ConnectionError(f"{name}: {ended}"))
        except BaseException as error:  # noqa: BLE001 - raised by who waits for the story
            done.put(error)
        finally:
            idle.put(worker)

    with ThreadPoolExecutor(jobs) as pool, ExitStack() as workers:
        for _ in range(jobs):
            idle.put(workers.enter_context(Worker()))
        workers.callback(pool.shutdown, wait=False, cancel_futures=True)
        for name, story in stories:
            pool.submit(play, name, story)
        for _ in stories:
            played = done.get()
            if isinstance(played, BaseException):
                raise played
            yield played


def _progress(stories: Sequence[tuple[str, Seed | Scenario]], jobs: int) -> Iterator[_Played]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("stories", total=len(stories))
        for played in _played(stories, jobs):
            bar.advance(task)
            yield played


def _scenario_of(played: _Played) -> Scenario:
    story = played.scenario
    return story.drawn() if isinstance(story, Seed) else story


def _write_page(file: Path, played: _Played) -> None:
    """Plays the story once more, and writes its time line. Raises OSError."""
    scenario, timeline, watch = _scenario_of(played), Timeline(), TurnWatch()
    watch.begin()
    try:
        with timeline.logged():
            story = play(scenario, timeline.follow)
    finally:
        watch.end()
    text = page(played.name, story, timeline, scenario.seconds + CALM_SECONDS)
    file.write_text(text, encoding="utf-8")


def _shrink(played: _Played, folder: Path) -> str:
    """Writes the smallest scenario that breaks the same properties. Returns its file, or ""."""
    story = played.result
    broken = story.story.broken if isinstance(story, Told) else frozenset[str]()
    if isinstance(story, Told) and not broken:
        return ""
    scenario = _scenario_of(played)
    with Worker() as worker:

        def breaks(candidate: Scenario) -> bool:
            result = worker.play(candidate)
            if isinstance(result, Crash):
                return not broken
            return bool(broken & result.story.broken)

        scenario = shrunk(scenario, breaks)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"seed-{scenario.seed}.yaml"
    file.write_bytes(written(scenario))
    return str(file)


def _result(played: _Played, small: str) -> StoryResult:
    match played.result:
        case Crash(trace):
            return StoryResult(played.name, "", 0, 0, 0.0, {}, {}, [], 0.0, trace, small)
        case Told(story, cpu):
            found: list[dict[str, str | float]] = [
                {"at": each.at, "property": each.property, "text": each.text}
                for each in story.violations
            ]
            return StoryResult(
                played.name,
                story.digest,
                story.writes,
                story.bound,
                story.seconds,
                story.met,
                story.situations,
                found,
                round(cpu, 3),
                "",
                small,
            )


def _show(results: list[StoryResult], broken: list[StoryResult]) -> None:
    if len(results) == 1:
        (only,) = results
        click.echo(
            f"{only.name}: {only.writes} writes, {only.bound} pods bound, digest {only.digest}"
        )
    for result in broken:
        _show_broken(result)
    _show_counts("fault", [result.met for result in results])
    _show_counts("situation", [result.situations for result in results])
    told = "every property holds" if not broken else f"{len(broken)} break a property"
    cpu = sum(result.cpu for result in results)
    hours = sum(result.seconds for result in results) / 3600
    faults = sum(sum(result.met.values()) for result in results)
    speed = f"{cpu:.1f} CPU-seconds, {hours / cpu:.2f} cluster-hours in each" if cpu else ""
    click.echo(f"{len(results)} stories, {hours:.1f} hours, {faults} faults: {told} ({speed})")


def _show_broken(result: StoryResult) -> None:
    click.echo(f"{result.name}:")
    for violation in result.violations[:MOST_SHOWN]:
        click.echo(f"  {violation['at']:g} s, {violation['property']}: {violation['text']}")
    more = len(result.violations) - MOST_SHOWN
    if more > 0:
        click.echo(f"  and {more} more")
    if result.crash:
        click.echo(f"  {_last_line(result.crash)}")
    if result.shrunk:
        click.echo(f"  the smallest scenario: {result.shrunk}")


def _last_line(trace: str) -> str:
    """Returns the last line of a traceback that says something; groups end with a frame."""
    return [told for line in trace.splitlines() if (told := line.strip(FRAME))][-1]


def _show_counts(title: str, counts: list[dict[str, int]]) -> None:
    """Prints how often each was counted, and in how many of the stories."""
    if len(counts) == 1:
        return
    times, stories = Counter[str](), Counter[str]()
    for count in counts:
        times.update(count)
        stories.update(count.keys())
    click.echo(f"{title:<32}{'times':>9}{'stories':>9}")
    for name, number in sorted(times.items()):
        click.echo(f"{name:<32}{number:>9}{stories[name]:>9}")
