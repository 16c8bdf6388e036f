"""Extenders in a configuration: what is refused, by the path of the field, and what it changes
elsewhere.
"""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.wiring.profiles import profiles_of
from berth.config.extenders import is_url, without_ignored_resources
from berth.config.load import ConfigError, from_mapping
from berth.config.names import is_extended_resource
from berth.config.types import API_VERSION, KIND, Duration, Extender, KubeSchedulerConfiguration
from tests.kit.cases import documents
from tests.kit.handle import NoApi


def configured(*extenders: dict[str, Any], **fields: Any) -> KubeSchedulerConfiguration:
    return from_mapping(
        {"apiVersion": API_VERSION, "kind": KIND, "extenders": list(extenders), **fields}
    )


URL = {"urlPrefix": "http://h:8888/x"}


def test_an_extender_is_read_in_full() -> None:
    whole = {
        "urlPrefix": "https://h:8888/x/",
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": {"serverName": "h", "caData": "Y2E="},
        "httpTimeout": "300ms",
        "nodeCacheCapable": True,
        "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
        "ignorable": True,
    }
    (extender,) = configured(whole).extenders
    assert (extender.weight, extender.enable_https, extender.http_timeout, extender.ignorable) == (
        5,
        True,
        0.3,
        True,
    )
    assert extender.tls_config is not None
    assert extender.tls_config.ca_data == b"ca"
    assert extender.managed_resources[0].ignored_by_scheduler


def test_the_time_out_is_five_seconds_unless_given() -> None:
    assert configured(URL).extenders == (Extender("http://h:8888/x"),)
    assert configured(URL).extenders[0].http_timeout == Duration(5)


@pytest.mark.parametrize(
    ("extender", "problem"),
    [
        *documents(r"""
{} => extenders\[0\].urlPrefix: expected a URL
{urlPrefix: 'h:8888'} =>
    extenders\[0\].urlPrefix: expected a URL such as http://host:8888, got 'h:8888'
{urlPrefix: 'http://h:8888/x', filterverb: f} => extenders\[0\].filterverb: unknown field
{urlPrefix: 'http://h:8888/x', prioritizeVerb: p} =>
    extenders\[0\].weight: expected a positive weight .*, got 0
{urlPrefix: 'http://h:8888/x', prioritizeVerb: p, weight: -1} =>
    extenders\[0\].weight: expected a positive weight .*, got -1
{urlPrefix: 'http://h:8888/x', httpTimeout: -1s} => extenders\[0\].httpTimeout: expected 0s or more
{urlPrefix: 'http://h:8888/x', httpTimeout: soon} => extenders\[0\].httpTimeout: expected a duration
{urlPrefix: 'http://h:8888/x', tlsConfig: {insecure: true, caFile: ca.crt}} =>
    extenders\[0\].tlsConfig.insecure: expected false with a certificate authority, got true
{urlPrefix: 'http://h:8888/x', managedResources: [{name: example.com/a}, {name: cpu}]} =>
    extenders\[0\].managedResources\[1\].name: expected an extended resource .*, got 'cpu'
{urlPrefix: 'http://h:8888/x', managedResources: [{name: example.com/a}, {name: example.com/a}]} =>
    extenders\[0\].managedResources\[1\].name: expected a resource managed once, got 'example.com/a'
"""),
        ({**URL, "tlsConfig": {"caData": "?"}}, r"extenders\[0\].tlsConfig.caData: "),
    ],
)
def test_what_does_not_fit_is_named(extender: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        configured(extender)


def test_extenders_are_judged_together() -> None:
    gpu = {"managedResources": [{"name": "example.com/gpu"}]}
    with pytest.raises(ConfigError) as refused:
        configured(
            {**URL, **gpu, "bindVerb": "b"}, {**URL, **gpu, "bindVerb": "b", "prioritizeVerb": "p"}
        )
    message = str(refused.value)
    assert "extenders[1].managedResources[0].name: expected a resource managed once" in message
    assert "extenders[1].weight: expected a positive weight" in message
    assert "extenders: expected at most one with a bindVerb, got 2" in message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("example.com/gpu", True),
        ("a/b", True),
        ("a/" + "b" * 63, True),
        ("a/" + "b" * 64, False),
        ("cpu", False),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("node.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("Example.com/gpu", False),
        ("example.com/", False),
        ("example.com/a/b", False),
        ("a." * 122 + "a/b", False),
        ("", False),
    ],
)
def test_extended_resources(name: str, expected: bool) -> None:
    assert is_extended_resource(name) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://h", True),
        ("HTTPS://h:1/p", True),
        ("http://[::1]:80", True),
        ("ftp://h", False),
        ("http://", False),
        ("http://:80", False),
        ("http://h:99999", False),
        ("http://[::1", False),
        ("", False),
    ],
)
def test_urls(text: str, expected: bool) -> None:
    assert is_url(text) is expected


def test_what_extenders_count_alone_replaces_what_fit_ignores() -> None:
    resources = [{"name": "example.com/a", "ignoredByScheduler": True}, {"name": "example.com/b"}]
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/z"]}}
    other = {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 3}}
    without = {"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}
    configuration = configured(
        {**URL, "managedResources": resources},
        profiles=[
            {"schedulerName": "x", "pluginConfig": [fit, other]},
            {"schedulerName": "y", **without},
        ],
    )
    adapted = without_ignored_resources(configuration)
    args = [
        {entry.name: entry.args for entry in profile.plugin_config} for profile in adapted.profiles
    ]
    assert args[0] == {
        "InterPodAffinity": {"hardPodAffinityWeight": 3},
        "NodeResourcesFit": {"ignoredResources": ["example.com/a"]},
    }
    assert args[1] == {"NodeResourcesFit": {"ignoredResources": ["example.com/a"]}}
    assert profiles_of(configuration, NoApi()).keys() == {"x", "y"}


def test_nothing_changes_where_nothing_is_ignored() -> None:
    configuration = configured({**URL, "managedResources": [{"name": "example.com/b"}]})
    assert without_ignored_resources(configuration) is configuration
