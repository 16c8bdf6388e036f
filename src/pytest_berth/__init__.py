"""The fixtures of berth for pytest: `cluster`, `apiserver` and `kubeconfig`. Nothing of berth is
imported until one of them is used.

This is a package of its own, because pytest rewrites the assert statements of the whole package
that a plugin is in, which slows an editable installation of berth down by a quarter.

`@pytest.mark.cluster(nodes=3, ...)` gives the cluster of a test the arguments of Cluster. A
coroutine with the fixture `cluster` runs in virtual time, and so do the fixtures of its own that
are coroutines.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MARK = "cluster"
SCOPE = "berth_scope"
RUNNING = "_running_cluster"
# What kubernetes and kubernetes-asyncio keep of $KUBECONFIG when they are imported, in two modules
# each, and programs that import it from them in theirs.
READ_AT_IMPORT = "KUBE_CONFIG_DEFAULT_LOCATION"
# Where their Configuration keeps what clients get that are given none; load_kube_config sets it.
DEFAULT = "_default"
_WITH_DEFAULT = ("kubernetes", "kubernetes.aio", "kubernetes_asyncio")
_SCOPES = ("function", "class", "module", "package", "session")


def pytest_addoption(parser: pytest.Parser) -> None:
    text = f"scope of the fixtures cluster, apiserver and kubeconfig: {', '.join(_SCOPES)}"
    parser.addini(SCOPE, text, default="function")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(nodes=3, ...): arguments of the test's cluster")


def _arguments(request: pytest.FixtureRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
    mark = request.node.get_closest_marker(MARK)
    return ((), {}) if mark is None else (mark.args, dict(mark.kwargs))


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ARG001 - pytest names it
    scope = str(config.getini(SCOPE))
    if scope not in _SCOPES:
        raise pytest.UsageError(f"{SCOPE}: expected one of {', '.join(_SCOPES)}, got {scope!r}")
    return scope


@pytest.fixture(scope=_scope)
def _running_cluster(request: pytest.FixtureRequest) -> Generator[Any, None, None]:
    from berth.testing import BlockingCluster

    objects, arguments = _arguments(request)
    with BlockingCluster(*objects, **arguments) as running:
        yield running


@pytest.fixture
def cluster(request: pytest.FixtureRequest, _running_cluster: Any) -> Any:
    """A cluster in virtual time: for a coroutine a Cluster, else a BlockingCluster."""
    return _running_cluster.cluster if _is_coroutine(request.function) else _running_cluster


@pytest.fixture(scope=_scope)
def apiserver(request: pytest.FixtureRequest) -> Generator[Any, None, None]:
    """A cluster over HTTP on loopback, in real time: a ServedCluster."""
    from berth.testing import ServedCluster

    objects, arguments = _arguments(request)
    with ServedCluster(*objects, **arguments) as served:
        yield served


@pytest.fixture(scope=_scope)
def kubeconfig(apiserver: Any) -> Generator[Path, None, None]:
    """The file by which other programs reach the cluster; $KUBECONFIG names it meanwhile, also for
    the clients that read it when they are imported. They forget the cluster afterwards.
    """
    file = str(apiserver.kubeconfig)
    with pytest.MonkeyPatch.context() as patch, _default_configurations_kept():
        patch.setenv("KUBECONFIG", file)
        for module in list(sys.modules.values()):
            if READ_AT_IMPORT in getattr(module, "__dict__", ()):
                patch.setattr(module, READ_AT_IMPORT, file)
        yield apiserver.kubeconfig


@contextmanager
def _default_configurations_kept() -> Generator[None, None, None]:
    """Gives the official clients back the default configuration that they had; one that is imported
    meanwhile had none.
    """
    before = {each: getattr(each, DEFAULT) for each in _configurations()}
    try:
        yield
    finally:
        for configuration in _configurations():
            setattr(configuration, DEFAULT, before.get(configuration))


def _configurations() -> list[Any]:
    """Returns the classes of configurations that are imported."""
    names = [f"{package}.client.configuration" for package in _WITH_DEFAULT]
    return [sys.modules[name].Configuration for name in names if name in sys.modules]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Runs a coroutine that has a cluster in virtual time, together with that cluster. The plugins
    that run coroutines in loops of their own, such as anyio's, see a function.
    """
    running: Any = pyfuncitem.funcargs.get(RUNNING)
    if running is None or not _is_coroutine(pyfuncitem.obj):
        return (yield)
    seen = pyfuncitem.obj
    test = inspect.unwrap(seen)

    def run(**arguments: Any) -> None:
        running.run(test(**arguments))

    pyfuncitem.obj = run
    try:
        return (yield)
    finally:
        pyfuncitem.obj = seen


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Runs a coroutine, or an asynchronous generator, that is a fixture of such a test together
    with its cluster.
    """
    held: Any = fixturedef.func
    seen: Any = inspect.unwrap(held)  # before 1.0, pytest-asyncio wraps fixtures when it finds them
    is_generator = inspect.isasyncgenfunction(seen)
    is_ours = (
        (is_generator or inspect.iscoroutinefunction(seen))
        and fixturedef.scope == "function"
        and RUNNING in request.fixturenames
        and _is_coroutine(request.function)
    )
    if not is_ours:
        return (yield)
    running = request.getfixturevalue(RUNNING)
    fixture = seen
    if inspect.ismethod(seen) and type(seen.__self__) is type(request.instance):
        fixture = seen.__func__.__get__(request.instance)
    names = inspect.signature(fixture).parameters

    def begin(arguments: dict[str, Any]) -> Any:
        return fixture(**{name: arguments[name] for name in names})

    def run(**arguments: Any) -> Any:
        return running.run(begin(arguments))

    def run_in_steps(**arguments: Any) -> Generator[Any, None, None]:
        steps = begin(arguments)
        yield running.run(_first(steps))
        running.run(_end(steps))

    patched: Any = fixturedef
    patched.func = run_in_steps if is_generator else run
    try:
        return (yield)
    finally:
        patched.func = held


async def _first(steps: AsyncGenerator[Any, None]) -> Any:
    return await anext(steps)


async def _end(steps: AsyncGenerator[Any, None]) -> None:
    async for _ in steps:
        raise RuntimeError("a fixture yields once")


def _is_coroutine(test: Any) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(test))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Shows the cluster when its test fails."""
    report = yield
    arguments = getattr(item, "funcargs", {})
    held = arguments.get("cluster") or arguments.get("apiserver")
    is_ours = type(held).__module__.startswith("berth.tools.testing.")
    if is_ours and report.when == "call" and report.failed:
        report.sections.append(("cluster", _report(held)))
    return report


def _report(held: Any) -> str:
    try:
        return str(held.report())
    except RuntimeError as ended:  # its loop, by an error that the end of the fixture raises
        return f"the cluster has ended: {ended}"
