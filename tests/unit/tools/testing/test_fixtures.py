"""berth's fixtures in a folder of tests that is not berth's own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TESTS = """
from berth.testing import deployment, nodes, pod

async def test_rollout(cluster):
    await cluster.add(nodes(3, cpu=4), deployment("web", replicas=3, cpu=3))
    await cluster.settled()
    assert cluster.pod("web").placed_on("node-1", "node-2", "node-3")
    assert cluster.pod("web").running()
    assert cluster.pod("web").bound_once()

def test_without_asyncio(cluster):
    cluster.add(nodes(1, cpu=1), pod("big", cpu=2))
    cluster.settled()
    assert cluster.pod("big").pending_because("Insufficient cpu")

class TestOfAClass:
    async def test_time_passes(self, cluster, tmp_path):
        await cluster.run_for("10m")
        assert cluster.now == 600 and tmp_path.exists()
"""
MARKED = """
import pytest

@pytest.mark.anyio
@pytest.mark.asyncio
async def test_of_other_plugins(cluster):
    await cluster.run_for("10m")
    assert cluster.now == 600
"""
FAILING = """
import pytest
from berth.testing import pod

@pytest.mark.cluster(nodes=2)
async def test_that_fails(cluster):
    await cluster.add(pod("big", cpu=9))
    await cluster.settled()
    assert cluster.pod("big").placed_on("node-1")
"""

FIXTURES = """
import asyncio, functools, pytest, unittest
from berth.testing import nodes, pod

def wrapped_by_a_plugin(fixture):
    @functools.wraps(fixture)
    def run(request, **arguments):
        raise AssertionError("it runs in the plugin's loop")
    return run

@pytest.fixture
async def loop():
    return asyncio.get_running_loop()

@pytest.fixture
@wrapped_by_a_plugin
async def filled(cluster, loop):
    assert loop is asyncio.get_running_loop()
    await cluster.add(nodes(1), pod("a"))
    await cluster.settled()
    yield cluster
    await cluster.run_for("1m")
    assert cluster.pod("a").running()

async def test_filled(filled, loop):
    assert loop is asyncio.get_running_loop()
    assert filled.pod("a").running()

class TestOfAClass:
    name = "b"

    @pytest.fixture
    async def more(self, filled):
        self.name = "c"
        await filled.add(pod(self.name))

    async def test_more(self, filled, more):
        assert self.name == "c" and len(filled.pods()) == 2

class TestOfAnotherLoop(unittest.IsolatedAsyncioTestCase):
    @pytest.fixture(autouse=True)
    def kept(self, cluster):
        self.cluster = cluster

    async def test_waits(self):
        with pytest.raises(RuntimeError, match="lives in another event loop"):
            await self.cluster.settled()
"""


@pytest.fixture(autouse=True)
def settings(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")


def test_coroutines_run_in_virtual_time_and_functions_need_no_asyncio(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(TESTS)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_fixtures_that_are_coroutines_fill_the_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FIXTURES)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--asyncio-mode=auto")
    result.assert_outcomes(passed=3)


def test_no_other_plugin_takes_a_test_with_a_cluster_into_its_loop(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(MARKED)
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_failing_test_shows_its_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*pod big expected on node-1; big is pending: 0/2 nodes are available*",
            "*-- cluster --*",
            "  node node-1: 0 pods",
            "  pod default/big: is pending after * attempts: 0/2 nodes are available*",
        ]
    )


def test_a_cluster_of_somebody_else_is_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, sys
        @pytest.fixture
        def cluster():
            return 1
        def test_it(cluster):
            assert cluster == 1
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_nothing_is_imported_until_a_fixture_is_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others' take a second
    pytester.makeini("[pytest]")
    pytester.makepyfile(
        """
        import sys
        def test_it():
            assert not [name for name in sys.modules if name.startswith("berth.tools.cluster")]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "pytest_berth")
    result.assert_outcomes(passed=1)


def test_a_program_reaches_the_cluster_by_its_kubeconfig(pytester: pytest.Pytester) -> None:
    scope = "asyncio_default_fixture_loop_scope = function\nberth_scope = module"
    pytester.makeini(f"[pytest]\n{scope}")
    pytester.makepyfile(
        """
        import json, os, urllib.request
        from berth.testing import pod

        def test_one(apiserver, kubeconfig):
            assert os.environ["KUBECONFIG"] == str(kubeconfig)
            server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
            assert server == apiserver.url
            with urllib.request.urlopen(f"{server}/api/v1/nodes") as answer:
                assert json.load(answer)["items"] == []
            apiserver.call(lambda cluster: cluster.add(pod("left")))

        def test_two(apiserver):
            assert apiserver.cluster.pod("left").names == ["left"]
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_client_that_was_imported_before_reaches_the_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        from kubernetes import config
        from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION
        from kubernetes.client import Configuration
        from kubernetes_asyncio import config as of_asyncio
        from kubernetes_asyncio.client import Configuration as OfAsyncio

        here = sys.modules[__name__]
        OfAsyncio._default = kept = OfAsyncio()
        before = KUBE_CONFIG_DEFAULT_LOCATION

        def test_one(kubeconfig):
            for each in (config, config.kube_config, of_asyncio, of_asyncio.kube_config, here):
                assert each.KUBE_CONFIG_DEFAULT_LOCATION == str(kubeconfig)
            config.load_kube_config()
            OfAsyncio.set_default(OfAsyncio())
            assert Configuration._default.host.startswith("http://127.0.0.1:")

        def test_two():
            assert (Configuration._default, OfAsyncio._default) == (None, kept)
            for each in (config, config.kube_config, here):
                assert each.KUBE_CONFIG_DEFAULT_LOCATION == before
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_a_cluster_may_serve_the_tests_of_a_module(pytester: pytest.Pytester) -> None:
    scope = "asyncio_default_fixture_loop_scope = function\nberth_scope = module"
    pytester.makeini(f"[pytest]\n{scope}")
    pytester.makepyfile(
        """
        import pytest
        from berth.testing import pod

        pytestmark = pytest.mark.cluster(nodes=1)

        async def test_one(cluster):
            await cluster.add(pod("a"))
            await cluster.run_for("1m")
            assert cluster.pod("a").running()

        def test_two(cluster):
            assert cluster.cluster.now == 60
            cluster.run_for("1m")

        async def test_three(cluster):
            assert cluster.pod("a").running() and cluster.now == 120
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)
