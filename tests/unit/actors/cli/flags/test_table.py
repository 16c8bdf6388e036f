"""The flags are those of kube-scheduler, with its groups and defaults."""

from __future__ import annotations

import pytest

from berth.actors.cli.flags.flag import Flag
from berth.actors.cli.flags.table import FLAGS, GROUPS

# What kube-scheduler 1.36.2 has: --help by group, and the defaults as /flagz shows them.
KUBE_SCHEDULER = """
[Misc]
config:
master:
unsupported-kube-api-over-localhost:false
write-config-to:
[Secure serving]
bind-address:0.0.0.0
cert-dir:
disable-http2-serving:false
http2-max-streams-per-connection:0
permit-address-sharing:false
permit-port-sharing:false
secure-port:10259
tls-cert-file:
tls-cipher-suites:[]
tls-curve-preferences:[]
tls-min-version:
tls-private-key-file:
tls-sni-cert-key:[]
[Authentication]
authentication-kubeconfig:
authentication-skip-lookup:false
authentication-token-webhook-cache-ttl:10s
authentication-tolerate-lookup-failure:true
client-ca-file:
requestheader-allowed-names:[]
requestheader-client-ca-file:
requestheader-extra-headers-prefix:[x-remote-extra-]
requestheader-group-headers:[x-remote-group]
requestheader-uid-headers:[]
requestheader-username-headers:[x-remote-user]
[Authorization]
authorization-always-allow-paths:[/healthz,/readyz,/livez]
authorization-kubeconfig:
authorization-webhook-cache-authorized-ttl:10s
authorization-webhook-cache-unauthorized-ttl:10s
[Deprecated]
contention-profiling:true
kube-api-burst:100
kube-api-content-type:application/vnd.kubernetes.protobuf
kube-api-qps:50
kubeconfig:
pod-max-in-unschedulable-pods-duration:5m0s
profiling:true
[Leader election]
leader-elect:true
leader-elect-lease-duration:15s
leader-elect-renew-deadline:10s
leader-elect-resource-lock:leases
leader-elect-resource-name:kube-scheduler
leader-elect-resource-namespace:kube-system
leader-elect-retry-period:2s
[Feature gate]
emulated-version:[]
feature-gates:
min-compatibility-version:[]
[Metrics]
allow-metric-labels:[]
allow-metric-labels-manifest:
disabled-metrics:[]
show-hidden-metrics-for-version:
[Logs]
log-flush-frequency:5s
log-json-info-buffer-size:0
log-json-split-stream:false
log-text-info-buffer-size:0
log-text-split-stream:false
logging-format:text
v:0
vmodule:
[Global]
version:false
"""


def test_groups_names_and_defaults() -> None:
    lines = []
    for title, flags in GROUPS.items():
        if title == "Berth":
            assert all(flag.name.startswith("berth-") for flag in flags)
            continue
        lines.append(f"[{title}]")
        lines += [f"{flag.name}:{flag.default_text}" for flag in flags]
    assert lines == KUBE_SCHEDULER.strip().splitlines()


@pytest.mark.parametrize("flag", FLAGS.values(), ids=lambda flag: flag.name)
def test_every_flag_is_explained_in_a_sentence(flag: Flag) -> None:
    assert flag.help.endswith(".")
    assert not flag.idle.endswith(".")
