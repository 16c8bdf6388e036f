"""Makes the options of the process from the flags, or the list of flags that cannot be used.

The rules are those of kube-scheduler. Files that flags name are read here only if their content is
part of the options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from berth.config.feature_gates import (
    FeatureGateError,
    defaults_of,
    gate_warnings,
    parse_gates,
    with_defaults,
)
from berth.config.options import (
    Authentication,
    Authorization,
    LoggingOptions,
    MetricsOptions,
    Options,
    SecureServing,
)
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import CURRENT, Version, emulated, minor_of, version_warnings

from ...server.go_names import ALL_SUITES, VERSIONS
from .flag import attributes
from .table import FLAGS, GROUPS, Flags

S = TypeVar("S", bound=msgspec.Struct)

_METRIC = "[a-zA-Z_:][a-zA-Z0-9_:]*"
_METRIC_LABEL = re.compile(f"{_METRIC},[a-zA-Z_][a-zA-Z0-9_]*")


class FlagError(ValueError):
    """Flags cannot be used; `problems` has a line for each reason, which names the flag."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


def options_from(flags: Flags) -> Options:
    """Returns the options of the process. Raises FlagError."""
    problems = [*_version_problems(flags)]
    version = CURRENT if problems else _version(flags)
    gates, gate_problems = _gates(flags, version)
    labels, label_problems = _metric_labels(flags)
    problems += [
        *gate_problems,
        *_serving_problems(flags),
        *_header_problems(flags, gates),
        *_metrics_problems(flags, version),
        *label_problems,
        *_logging_problems(flags, gates),
        *_own_problems(flags),
    ]
    if problems:
        raise FlagError(problems)
    return Options(
        max_unschedulable=flags["pod-max-in-unschedulable-pods-duration"],
        version=version,
        feature_gates=gates,
        serving=_options(SecureServing, "Secure serving", flags) if flags["secure-port"] else None,
        authentication=_options(Authentication, "Authentication", flags),
        authorization=_options(Authorization, "Authorization", flags),
        metrics=MetricsOptions(
            flags["show-hidden-metrics-for-version"], flags["disabled-metrics"], labels
        ),
        flags=flags.texts(),
        liveness_stall=flags["berth-liveness-stall"],
        recorder_bytes=flags["berth-recorder-bytes"],
        recorder_file=flags["berth-recorder-file"],
        recorder_file_bytes=flags["berth-recorder-file-bytes"],
        plugin_failures=flags["berth-plugin-failures"],
        plugin_call=flags["berth-plugin-call"],
        plugin_attempt=flags["berth-plugin-attempt"],
        plugin_interrupt=flags["berth-plugin-interrupt"],
    )


def logging_from(flags: Flags) -> LoggingOptions:
    form = flags["logging-format"]
    split = form in ("text", "json") and flags[f"log-{form}-split-stream"]
    return LoggingOptions(form, flags["v"], flags["vmodule"], split)


def with_flags(
    configuration: KubeSchedulerConfiguration, flags: Flags
) -> KubeSchedulerConfiguration:
    """Returns the configuration, with the values of flags that are set.

    Flags of the leader election always count, and deprecated flags count only without a file.
    """
    for flag in FLAGS.values():
        counts = flag.field and not (flags["config"] and flag.needs_no_file)
        if counts and flags.is_set(flag.name):
            configuration = _with_value_at(configuration, attributes(flag.field), flags[flag.name])
    return configuration


def _with_value_at(struct: S, path: Sequence[str], value: object) -> S:
    """Returns the struct with another value at a path of attributes."""
    name = path[0]
    if len(path) > 1:
        value = _with_value_at(getattr(struct, name), path[1:], value)
    return msgspec.structs.replace(struct, **{name: value})


def warnings_about(flags: Flags) -> list[str]:
    """Returns a line for each flag that has no effect, and the warnings about the feature gates and
    the version. The flags are those that `options_from` accepted.
    """
    lines = []
    for flag in FLAGS.values():
        if not flags.is_set(flag.name):
            continue
        if flag.needs_no_file and flags["config"]:
            lines.append(f"--{flag.name} is ignored with --config: set {flag.field} in the file")
        elif flag.idle and flags[flag.name] != flag.default:
            lines.append(f"--{flag.name} has no effect: {flag.idle}")
    if flags.is_set("feature-gates"):
        lines += gate_warnings(parse_gates(_gates_text(flags)), _version(flags))
    for text in flags["emulated-version"]:
        lines += version_warnings(text)
    return lines


# ---------------------------------------------------------------------------------------- the parts


def _options(kind: type[S], group: str, flags: Flags) -> S:
    """Makes the options of a group of flags."""
    return kind(**{flag.option: flags[flag.name] for flag in GROUPS[group] if flag.option})


def _version(flags: Flags) -> Version:
    """Returns the version to decide as. Raises ValueError."""
    asked: Sequence[str] = flags["emulated-version"]
    oldest: Sequence[str] = flags["min-compatibility-version"]
    version = emulated(asked[0]) if asked else CURRENT
    return msgspec.structs.replace(version, beside=minor_of(oldest[0])) if oldest else version


def _gates(flags: Flags, version: Version) -> tuple[Mapping[str, bool], list[str]]:
    """Returns every gate with its value, and the problems in --feature-gates."""
    try:
        return with_defaults(parse_gates(_gates_text(flags)), version), []
    except FeatureGateError as problem:
        return defaults_of(version), [
            f"--feature-gates: {str(problem).removeprefix('feature gates: ')}"
        ]


def _gates_text(flags: Flags) -> str:
    gates: tuple[tuple[str, str], ...] = flags["feature-gates"]
    return ",".join(f"{component}:{pair}" if component else pair for component, pair in gates)


def _metric_labels(flags: Flags) -> tuple[Mapping[str, frozenset[str]], list[str]]:
    """Returns the allowed values of labels, and the problems in the flags about them."""
    name, kept_values = "allow-metric-labels", flags["allow-metric-labels"]
    manifest: str = flags["allow-metric-labels-manifest"]
    if manifest and kept_values:
        return {}, [
            "--allow-metric-labels: expected it or --allow-metric-labels-manifest, not both"
        ]
    if manifest:
        name = f"allow-metric-labels-manifest: {manifest}"
        try:
            kept_values = yaml.safe_load(Path(manifest).read_bytes())
        except (OSError, ValueError, yaml.YAMLError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "expected YAML"
            return {}, [f"--{name}: cannot be read: {reason}"]
        if not isinstance(kept_values, dict) or not all(
            isinstance(v, str) for v in kept_values.values()
        ):
            return {}, [f"--{name}: expected a mapping from METRIC,LABEL to text"]
    problems = [
        f"--{name}: expected METRIC,LABEL before the equals sign, got {key!r}"
        for key in kept_values
        if not _METRIC_LABEL.fullmatch(str(key))
    ]
    allowed = {key: frozenset(values.split(",")) for key, values in kept_values.items()}
    return allowed, problems


# ------------------------------------------------------------------------------------- the problems


def _serving_problems(flags: Flags) -> Iterator[str]:
    port = flags["secure-port"]
    if not 0 <= port <= 65535:
        yield f"--secure-port: expected 0 to 65535, got {port}"
    if port == 0:
        return
    if bool(flags["tls-cert-file"]) != bool(flags["tls-private-key-file"]):
        yield "--tls-cert-file and --tls-private-key-file: expected both or neither"
    lowest = flags["tls-min-version"]
    if lowest and lowest not in VERSIONS:
        yield f"--tls-min-version: expected one of {', '.join(VERSIONS)}, got {lowest!r}"
    for name in flags["tls-cipher-suites"]:
        if name not in ALL_SUITES:
            yield f"--tls-cipher-suites: {name!r} is not a cipher suite"
    curves = flags["tls-curve-preferences"]
    for i, curve in enumerate(curves):
        if not 0 < curve < 65536 or curve in curves[:i]:
            yield f"--tls-curve-preferences: expected numbers from 1 to 65535 once, got {curve}"


def _header_problems(flags: Flags, gates: Mapping[str, bool]) -> Iterator[str]:
    for kind in (
        "username-headers",
        "group-headers",
        "extra-headers-prefix",
        "allowed-names",
        "uid-headers",
    ):
        name = f"requestheader-{kind}"
        if not all(value.strip() for value in flags[name]):
            yield f"--{name}: expected names, got one that is empty"
    uids = flags["requestheader-uid-headers"]
    if uids and not gates.get("RemoteRequestHeaderUID", True):
        yield "--requestheader-uid-headers: needs the feature gate RemoteRequestHeaderUID"
    elif uids and "x-remote-uid" not in {header.lower() for header in uids}:
        yield "--requestheader-uid-headers: expected X-Remote-Uid among the headers"


def _version_problems(flags: Flags) -> Iterator[str]:
    minors = {}
    for name in ("emulated-version", "min-compatibility-version"):
        texts = flags[name]
        if len(texts) > 1:
            yield f"--{name}: expected one version, got {len(texts)}"
        for text in texts:
            try:
                minors[name] = minor_of(text)
            except ValueError as problem:
                yield f"--{name}: {problem}"
    lowest, own = minors.get("min-compatibility-version", 0), minors.get("emulated-version")
    if lowest > (CURRENT.minor if own is None else own):
        yield f"--min-compatibility-version: expected at most the emulated version, got 1.{lowest}"


def _metrics_problems(flags: Flags, version: Version) -> Iterator[str]:
    shown, previous = flags["show-hidden-metrics-for-version"], f"1.{version.minor - 1}"
    if shown not in ("", previous):
        yield f"--show-hidden-metrics-for-version: expected {previous}, got {shown!r}"
    for metric in flags["disabled-metrics"]:
        if not re.fullmatch(_METRIC, metric):
            yield f"--disabled-metrics: expected the name of a metric, got {metric!r}"


def _logging_problems(flags: Flags, gates: Mapping[str, bool]) -> Iterator[str]:
    form = flags["logging-format"]
    if form not in ("text", "json"):
        yield f"--logging-format: expected text or json, got {form!r}"
    if form == "json" and not gates.get("LoggingBetaOptions", True):
        yield "--logging-format: json needs the feature gate LoggingBetaOptions"
    if flags["vmodule"] and form != "text":
        yield "--vmodule: only the format text has it"
    if flags["log-flush-frequency"] <= 0:
        yield "--log-flush-frequency: expected more than 0s"
    if not gates.get("LoggingAlphaOptions", False):
        for name in _ALPHA:
            if flags[name] != FLAGS[name].default:
                yield f"--{name}: needs the feature gate LoggingAlphaOptions"


def _own_problems(flags: Flags) -> Iterator[str]:
    if flags["berth-liveness-stall"] <= 0:
        yield "--berth-liveness-stall: expected more than 0s"
    if flags["berth-recorder-bytes"] < 0:
        yield "--berth-recorder-bytes: expected 0 or more"
    if flags["berth-recorder-file"] and not flags["berth-recorder-bytes"]:
        yield "--berth-recorder-file: needs --berth-recorder-bytes above 0"
    if flags["berth-recorder-file-bytes"] < 1 << 20:
        yield "--berth-recorder-file-bytes: expected 1048576 or more"
    if flags["berth-plugin-failures"] < 0:
        yield "--berth-plugin-failures: expected 0 or more"
    for name in ("berth-plugin-call", "berth-plugin-attempt", "berth-plugin-interrupt"):
        if flags[name] <= 0:
            yield f"--{name}: expected more than 0s"


_ALPHA = (
    "log-json-info-buffer-size",
    "log-json-split-stream",
    "log-text-info-buffer-size",
    "log-text-split-stream",
)
