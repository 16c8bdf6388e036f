"""The project's task runner: one file, standard library only.

    python3 tools/dev.py setup             make .venv with the locked dependencies and the project
    python3 tools/dev.py demo  [ARGS...]   run `berth demo`: a toy cluster, scheduled end to end
    python3 tools/dev.py test  [ARGS...]   run the quick tests (pytest, in parallel)
                                           (--all: every test, and the lines of the states)
    python3 tools/dev.py check [--static]  run ruff, mypy, import-linter, deptry and
                                           the quick tests (--static: no tests)
    python3 tools/dev.py bench [ARGS...]   run `berth bench`

Every task first makes the environment, unless this Python has already made it from the current
lock. Further arguments are passed on. Needs only Python 3.11 or later with pip.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "berth-installed"
TASKS = ("setup", "demo", "test", "check", "bench")


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if argv else 2
    task, arguments = argv[0], argv[1:]
    if task not in TASKS:
        print(f"dev.py: unknown task {task!r}; expected one of {', '.join(TASKS)}", file=sys.stderr)
        return 2
    if sys.version_info < (3, 11):  # noqa: UP036 - this message is for an older Python
        print(
            f"dev.py: expected Python 3.11 or later, got {sys.version.split()[0]}",
            file=sys.stderr,
        )
        return 2
    try:
        setup()
    except subprocess.CalledProcessError as error:
        print(
            f"dev.py: setup failed: {' '.join(map(str, error.cmd))} exited with {error.returncode}",
            file=sys.stderr,
        )
        return 1
    match task:
        case "test":
            return test(arguments)
        case "check":
            return check(arguments)
        case "demo" | "bench":
            become("berth", task, *arguments)
    return 0


def setup() -> None:
    """Makes .venv, unless this Python made it from the current lock and metadata of the package."""
    import tomllib  # an older Python has none, and gets a message instead

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    installed = [project["build-system"], project["project"], project["tool"]["hatch"]]
    made_from = hashlib.sha256(LOCK.read_bytes() + repr(installed).encode()).hexdigest()
    stamp = f"{sys.implementation.cache_tag} {made_from}"
    python = VENV / "bin" / "python"
    if python.exists() and STAMP.exists() and STAMP.read_text() == stamp:
        return
    print(
        "dev.py: making .venv (first use, another Python or a changed lock); about a minute",
        file=sys.stderr,
    )
    venv.create(VENV, with_pip=True, clear=True)
    pip: list[str | Path] = [
        python,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
    ]
    locked: list[str | Path] = [*pip, "--no-compile", "--require-hashes", "--no-deps", "-r"]
    halves = (VENV / "locked-1.txt", VENV / "locked-2.txt")
    packages = re.split(r"\n(?=\S)", LOCK.read_text())
    with ThreadPoolExecutor() as threads:  # pip uses one processor
        for number, half in enumerate(halves):
            half.write_text("\n".join(packages[number::2]))
        list(threads.map(lambda half: subprocess.run([*locked, half], check=True), halves))
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], check=True, cwd=ROOT)
    # Without bytecode, half of a command's start goes into compiling, again and again where Python
    # may write none. Of the clients of Kubernetes and of the packages' tests, few modules are used.
    compiling = ["-m", "compileall", "-q", "-j0", "-x", "packages/(kubernetes|.*/tests)/"]
    folders = [".venv/lib", "actors", "config", "src", "tools"]
    subprocess.run([python, *compiling, *folders], check=False, cwd=ROOT, stdout=subprocess.DEVNULL)
    STAMP.write_text(stamp)


def become(program: str, *arguments: str) -> NoReturn:
    """Runs a program of the environment in place of this one, so that signals reach it."""
    sys.stdout.flush()
    os.execv(VENV / "bin" / program, [program, *arguments])  # noqa: S606 - there is no shell


def run(program: str, *arguments: str) -> int:
    """Runs a program of the environment; returns its exit code (130 if the user interrupts it)."""
    try:
        return subprocess.run(
            [VENV / "bin" / program, *arguments], cwd=Path.cwd(), check=False
        ).returncode
    except KeyboardInterrupt:
        return 130


def captured(command: tuple[str, ...]) -> tuple[int, str]:
    """Runs a program of the environment; returns its exit code and its output."""
    ended = subprocess.run(
        [VENV / "bin" / command[0], *command[1:]],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return ended.returncode, ended.stdout


def test(arguments: list[str]) -> int:
    """Runs the quick tests; with --all every test, and measures the lines of the states.

    BERTH_PROFILE=long repeats the property tests with other examples, until one fails.
    """
    os.chdir(ROOT)
    # Each worker would compile a thousand files; `setup` has written bytecode in any case.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    every = "--all" in arguments
    arguments = [a for a in arguments if a != "--all"]
    pytest = ["pytest", "--dist", "worksteal"]
    if not any(a.startswith("-n") for a in arguments):
        # Of all tests, some minutes are waits for processes and for time that passes.
        pytest += ["-n", str((os.cpu_count() or 2) * (1 + every))]
    profile = os.environ.setdefault("BERTH_PROFILE", "full" if every else "quick")
    if profile == "long":
        while not (code := run(*pytest, *(arguments or ["tests/properties"]))):
            pass
        return code
    if not every:
        become(*pytest, "-m", "not full", *arguments)
    if arguments:
        become(*pytest, *arguments)
    if sys.version_info >= (3, 12):
        os.environ.setdefault("COVERAGE_CORE", "sysmon")
    become(*pytest, "--cov", "--cov-report=term-missing")


def check(arguments: list[str]) -> int:
    static = "--static" in arguments
    os.chdir(ROOT)
    steps = [  # side by side, and the longest first
        ("mypy",),
        ("lint-imports",),
        ("deptry", "src", "actors", "config", "tools"),
        # Nobody installs the tests: they may import what only `dev` declares.
        ("deptry", "tests", "--ignore", "DEP002,DEP004"),
        ("ruff", "check", "--quiet", "."),
        ("ruff", "format", "--check", "--quiet", "."),
    ]
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for step, (code, output) in zip(steps, threads.map(captured, steps), strict=True):
            print(output, end="", flush=True)
            if code:
                failed.append(" ".join(step))
    if failed:
        print(f"dev.py: check failed: {'; '.join(failed)}", file=sys.stderr)
        return 1
    return 0 if static else test([a for a in arguments if a != "--static"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
