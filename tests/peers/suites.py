"""The suites: how each is run, how many of its tests pass, and why others cannot."""

from __future__ import annotations

import msgspec

NO_CONTAINER = "needs a container that runs"


class Suite(msgspec.Struct, frozen=True):
    """A suite of tests in the checkout of a project.

    `tests` are pytest's arguments, `needs` the requirements besides the project itself, `passes`
    the number of tests that pass. `reasons` has a reason for each test that cannot pass, by the end
    of its name. `flags` are further ones of the demo.
    """

    name: str
    checkout: str
    tests: tuple[str, ...]
    passes: int
    needs: tuple[str, ...] = ()
    project: str = "."
    reasons: dict[str, str] = {}
    flags: tuple[str, ...] = ()


_PYTEST = ("pytest", "pytest-asyncio", "pytest-timeout")
_KOPF = (
    *_PYTEST,
    "pytest-aiohttp",
    "pytest-mock",
    "pytest-cov",
    "looptime",
    "kubernetes",
    "pykube-ng",
)
_HUB = (
    "pytest<8",
    "pytest-asyncio<0.23",
    "pytest-timeout",
    "pytest-cov",
    "kubernetes",
    "jupyterhub",
)
_DASK = (*_PYTEST, "pytest-rerunfailures", "kopf", "kr8s")
SUITES = (
    Suite(
        "kr8s",
        "kr8s",
        ("kr8s", "--ignore=kr8s/conformance", "-o", "addopts="),
        294,
        (
            *_PYTEST,
            "pytest-cov",
            "pytest-rerunfailures",
            "trio",
            "types-PyYAML",
            "lightkube",
            "kubernetes",
            "kubernetes-asyncio",
            "pykube-ng",
        ),
        reasons={
            "test_cast_to_from_kubernetes": "it needs an older version of the package kubernetes",
        },
        flags=("--no-metrics",),  # it looks for the one kind named pods
    ),
    Suite(
        "cloudcoil",
        "cloudcoil",
        (
            "tests/test_async_e2e.py",
            "tests/test_sync_e2e.py",
            "tests/test_informers.py",
            "tests/test_informers_edge_cases.py",
        ),
        43,
        (*_PYTEST, "pytest-xdist", "pytest-cov", "filelock", "cloudcoil.models.kubernetes"),
    ),
    Suite("kopf-examples", "kopf", ("tests/e2e",), 13, _KOPF),
    Suite(
        "kopf-own-tests",
        "kopf",
        ("examples/09-testing", "examples/10-builtins", "examples/12-embedded"),
        3,
        _KOPF,
    ),
    Suite("kubernetes", "python", ("kubernetes/e2e_test",), 42, _PYTEST),
    Suite("kubernetes-dynamic", "python", ("kubernetes/dynamic",), 16, _PYTEST),
    Suite(
        "kubernetes_asyncio",
        "kubernetes_asyncio",
        ("kubernetes_asyncio/e2e_test",),
        12,
        _PYTEST,
    ),
    Suite("lightkube", "lightkube", ("e2e-tests",), 22, (*_PYTEST, "lightkube-models")),
    Suite("kubespawner", "kubespawner", ("tests",), 66, _HUB),
    Suite("dask-kubernetes", "dask-kubernetes", ("dask_kubernetes",), 8, _DASK),
    Suite("pytest-kubernetes", "pytest-kubernetes", ("--pyargs", "stand_in_external"), 2, _PYTEST),
)
