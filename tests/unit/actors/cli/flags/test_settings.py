"""The options of the process as the flags give them, and the flags that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.actors.cli.flags.settings import (
    FlagError,
    logging_from,
    options_from,
    warnings_about,
    with_flags,
)
from berth.actors.cli.flags.table import FLAGS, Flags
from berth.config.options import LoggingOptions, MetricsOptions, NamedCertificate, Options
from berth.config.types import Duration, KubeSchedulerConfiguration


def flags_of(**texts: str) -> Flags:
    """Returns flags with these values; underscores stand for dashes."""
    named = {name.replace("_", "-"): text for name, text in texts.items()}
    return Flags({name: [FLAGS[name].kind.parse(text)] for name, text in named.items()})


def test_the_defaults_are_those_of_the_options() -> None:
    options, default = options_from(flags_of()), Options()
    assert options.serving is not None
    assert options.serving.secure_port == 10259
    for field in ("max_unschedulable", "feature_gates", "authentication", "authorization"):
        assert getattr(options, field) == getattr(default, field), field
    assert options.metrics == MetricsOptions()
    assert logging_from(flags_of()) == LoggingOptions()
    assert options.flags["secure-port"] == "10259"


def test_flags_fill_the_options() -> None:
    flags = flags_of(
        bind_address="127.0.0.1",
        secure_port="10359",
        tls_sni_cert_key="a.crt,a.key:a.com",
        tls_min_version="VersionTLS13",
        tls_cipher_suites="TLS_AES_128_GCM_SHA256",
        authentication_kubeconfig="k",
        authentication_token_webhook_cache_ttl="3s",
        authorization_always_allow_paths="/metrics",
        disabled_metrics="one,two",
        show_hidden_metrics_for_version="1.35",
        allow_metric_labels="m,l=a,b",
        feature_gates="kube:SchedulerAsyncAPICalls=true",
        pod_max_in_unschedulable_pods_duration="1m",
        berth_liveness_stall="20s",
    )
    options = options_from(flags)
    serving = options.serving
    assert serving is not None
    assert (serving.bind_address, serving.secure_port) == ("127.0.0.1", 10359)
    assert serving.tls_sni_cert_key == (NamedCertificate("a.crt", "a.key", ("a.com",)),)
    assert serving.tls_min_version == "VersionTLS13"
    assert serving.tls_cipher_suites == ("TLS_AES_128_GCM_SHA256",)
    assert options.authentication.kubeconfig == "k"
    assert options.authentication.token_webhook_cache_ttl == Duration(3)
    assert options.authorization.always_allow_paths == ("/metrics",)
    labels = {"m,l": frozenset({"a", "b"})}
    assert options.metrics == MetricsOptions("1.35", ("one", "two"), labels)
    assert options.feature_gates["SchedulerAsyncAPICalls"]
    assert options.max_unschedulable == 60
    assert options.liveness_stall == 20


@pytest.mark.parametrize(
    ("emulated", "oldest", "on"),
    [("1.37", "1.36", False), ("1.37", "kube=1.37", True), ("1.38", "1.37", True)],
)
def test_defaults_of_gates_depend_on_the_oldest_component(
    emulated: str, oldest: str, on: bool
) -> None:
    options = options_from(flags_of(emulated_version=emulated, min_compatibility_version=oldest))
    assert options.feature_gates["DRAFractionalCapacityRange"] is on
    assert options.version.oldest == int(oldest[-2:])


def test_metrics_of_the_version_before_the_one_that_it_decides_as_may_be_shown() -> None:
    for emulated, shown in (("1.36", "1.35"), ("1.37", "1.36")):
        options_from(flags_of(emulated_version=emulated, show_hidden_metrics_for_version=shown))


def test_port_0_serves_nothing() -> None:
    assert options_from(flags_of(secure_port="0", tls_cipher_suites="any")).serving is None


def test_the_log() -> None:
    flags = flags_of(v="4", vmodule="a=2", log_text_split_stream="true")
    assert logging_from(flags) == LoggingOptions("text", 4, (("a", 2),), split_stream=True)
    assert logging_from(
        flags_of(logging_format="json", log_text_split_stream="1")
    ) == LoggingOptions("json")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"secure_port": "65536"}, "--secure-port: expected 0 to 65535, got 65536"),
        ({"tls_cert_file": "a"}, "--tls-cert-file and --tls-private-key-file: expected both"),
        ({"tls_min_version": "1.2"}, "--tls-min-version: expected one of VersionTLS10,"),
        ({"tls_cipher_suites": "AES"}, "--tls-cipher-suites: 'AES' is not a cipher suite"),
        ({"tls_curve_preferences": "0"}, "--tls-curve-preferences: expected numbers from 1"),
        ({"tls_curve_preferences": "23,23"}, "--tls-curve-preferences: expected numbers from 1"),
        ({"requestheader_group_headers": "a, "}, "--requestheader-group-headers: expected names"),
        ({"requestheader_uid_headers": "a"}, "--requestheader-uid-headers: expected X-Remote-Uid"),
        (
            {"requestheader_uid_headers": "a", "feature_gates": "RemoteRequestHeaderUID=false"},
            "--requestheader-uid-headers: needs the feature gate RemoteRequestHeaderUID",
        ),
        ({"emulated_version": "1.32"}, "--emulated-version: expected 1.33 to 1.38, got '1.32'"),
        ({"emulated_version": "new"}, "--emulated-version: expected 1.33 to 1.38, got 'new'"),
        ({"emulated_version": "1.36.1"}, "--emulated-version: expected 1.33 to 1.38"),
        ({"emulated_version": "a=1.36"}, "--emulated-version: component not registered: a"),
        ({"emulated_version": "1.36,kube=1.36"}, "--emulated-version: expected one version"),
        (
            {"emulated_version": "1.34", "min_compatibility_version": "1.35"},
            "--min-compatibility-version: expected at most the emulated version, got 1.35",
        ),
        ({"min_compatibility_version": "1.39"}, "--min-compatibility-version: expected 1.33"),
        ({"show_hidden_metrics_for_version": "1.34"}, "--show-hidden-metrics-for-version: exp"),
        (
            {"show_hidden_metrics_for_version": "1.35", "emulated_version": "1.37"},
            "--show-hidden-metrics-for-version: expected 1.36, got '1.35'",
        ),
        ({"disabled_metrics": "a-b"}, "--disabled-metrics: expected the name of a metric"),
        ({"allow_metric_labels": "a=1"}, "--allow-metric-labels: expected METRIC,LABEL before"),
        ({"feature_gates": "Sheduler=true"}, "--feature-gates: "),
        ({"feature_gates": "other:A=true"}, "--feature-gates: component not registered: other"),
        ({"logging_format": "xml"}, "--logging-format: expected text or json, got 'xml'"),
        ({"logging_format": "json", "vmodule": "a=2"}, "--vmodule: only the format text has it"),
        (
            {"logging_format": "json", "feature_gates": "LoggingBetaOptions=false"},
            "--logging-format: json needs the feature gate LoggingBetaOptions",
        ),
        ({"log_flush_frequency": "0s"}, "--log-flush-frequency: expected more than 0s"),
        ({"berth_liveness_stall": "0s"}, "--berth-liveness-stall: expected more than 0s"),
        ({"berth_recorder_bytes": "-1"}, "--berth-recorder-bytes: expected 0 or more"),
        (
            {"berth_recorder_bytes": "0", "berth_recorder_file": "f"},
            "--berth-recorder-file: needs --berth-recorder-bytes above 0",
        ),
        ({"berth_recorder_file_bytes": "1000"}, "--berth-recorder-file-bytes: expected 1048576"),
        ({"log_text_split_stream": "true"}, "--log-text-split-stream: needs the feature gate"),
    ],
)
def test_a_problem_names_its_flag(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(FlagError) as refused:
        options_from(flags_of(**texts))
    (text,) = refused.value.problems
    assert text.startswith(problem)


def test_every_problem_is_named() -> None:
    with pytest.raises(FlagError) as refused:
        options_from(flags_of(secure_port="-1", tls_min_version="x", feature_gates="A=1"))
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m,l: 'a,b'\n", {"m,l": frozenset({"a", "b"})}),
        ("- m", "expected a mapping from METRIC,LABEL to text"),
        ("m: a", "expected METRIC,LABEL"),
        ("m: [", "cannot be read: expected YAML"),
        (None, "cannot be read: No such file"),
    ],
)
def test_the_manifest_of_labels(tmp_path: Path, text: str | None, expected: Any) -> None:
    manifest = tmp_path / "labels.yaml"
    if text is not None:
        manifest.write_text(text)
    flags = flags_of(allow_metric_labels_manifest=str(manifest))
    if isinstance(expected, dict):
        assert options_from(flags).metrics.allow_labels == expected
        return
    with pytest.raises(FlagError) as refused:
        options_from(flags)
    (problem,) = refused.value.problems
    assert problem.startswith(f"--allow-metric-labels-manifest: {manifest}: {expected}")


def test_labels_come_from_the_flag_or_the_manifest() -> None:
    flags = flags_of(allow_metric_labels="m,l=a", allow_metric_labels_manifest="file")
    with pytest.raises(FlagError, match="--allow-metric-labels-manifest, not both"):
        options_from(flags)


ELECTION = {"leader_elect": "false", "leader_elect_resource_name": "mine"}
CONNECTION = {"kubeconfig": "k", "kube_api_qps": "5", "kube_api_burst": "7", "profiling": "false"}


def test_flags_of_the_election_count_with_a_file_and_deprecated_flags_do_not() -> None:
    default = KubeSchedulerConfiguration()
    settings = with_flags(default, flags_of(config="file", **ELECTION, **CONNECTION))
    assert not settings.leader_election.leader_elect
    assert settings.leader_election.resource_name == "mine"
    assert settings.leader_election.lease_duration == default.leader_election.lease_duration
    assert settings.client_connection == default.client_connection
    assert settings.enable_profiling


def test_without_a_file_deprecated_flags_count_too() -> None:
    settings = with_flags(KubeSchedulerConfiguration(), flags_of(**ELECTION, **CONNECTION))
    connection = settings.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("k", 5, 7)
    assert not settings.enable_profiling
    assert settings.enable_contention_profiling
    assert not settings.leader_election.leader_elect


@pytest.mark.parametrize(
    ("texts", "warning"),
    [
        (
            {"kubeconfig": "k", "config": "f"},
            "--kubeconfig is ignored with --config: set clientConnection.kubeconfig in the file",
        ),
        ({"kube_api_qps": "5", "config": "f"}, "--kube-api-qps is ignored with --config: set cl"),
        ({"disable_http2_serving": "true"}, "--disable-http2-serving has no effect: berth serves"),
        ({"profiling": "false"}, "--profiling has no effect: "),
        (
            {"feature_gates": "GangScheduling=true,GenericWorkload=1"},
            "feature gates without an eff",
        ),
        ({"emulated_version": "kube=1.35"}, "--emulated-version=kube=1.35: berth decides as Kub"),
        ({"emulated_version": "1.37"}, "--emulated-version=1.37 is a preview: not all of its"),
    ],
)
def test_a_flag_without_effect_is_warned_of_in_one_line(
    texts: dict[str, str], warning: str
) -> None:
    (line,) = warnings_about(flags_of(**texts))
    assert line.startswith(warning)


def test_a_flag_without_effect_that_has_its_default_is_fine() -> None:
    assert warnings_about(flags_of(disable_http2_serving="false", emulated_version="1.36")) == []
    assert warnings_about(flags_of(http2_max_streams_per_connection="0", v="4")) == []


def test_a_deprecated_flag_that_has_its_effect_is_fine() -> None:
    assert warnings_about(flags_of(kubeconfig="k", kube_api_qps="5")) == []
