"""Pod Security: the checks of both levels, the labels of a namespace, and what admission does."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.policies.pod_security import (
    LevelVersion,
    described,
    pod_warnings,
    policy_of,
)
from berth.tools.kubernetes.api.policies.pod_security_checks import violations
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

PODS, NAMESPACES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Namespace"]
DEPLOYMENTS = BY_KIND["apps/v1", "Deployment"]
LEVEL = "pod-security.kubernetes.io/"
GOOD: Document = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
UNDEFINED = (
    'allowPrivilegeEscalation != false (container "c" must set '
    "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities "
    '(container "c" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true '
    '(pod or container "c" must set securityContext.runAsNonRoot=true), seccompProfile (pod or '
    'container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
    '"Localhost")'
)


def container(name: str = "c", **context: Any) -> Document:
    return {"name": name, "image": "i", "securityContext": {**GOOD, **context}}


def spec(*containers: Document, **fields: Any) -> Document:
    return {"containers": list(containers) or [container()], **fields}


def told(level: str, spec: Document, minor: int = 36, **annotations: str) -> str:
    return described(violations(level, minor, {"annotations": annotations}, spec))


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (
            spec(container("a", appArmorProfile={"type": "Unconfined"})),
            (
                'forbidden AppArmor profile (container "a" must not set AppArmor profile type to '
                '"Unconfined")'
            ),
        ),
        (
            spec(hostNetwork=True, hostIPC=True, hostPID=False),
            "host namespaces (hostNetwork=true, hostIPC=true)",
        ),
        (
            spec(
                {**container("a"), "ports": [{"hostPort": 30}, {"hostPort": 20}]},
                {**container("b"), "ports": [{"hostPort": 20}, {}]},
            ),
            'hostPort (containers "a", "b" use hostPorts 20, 30)',
        ),
        (
            spec(
                {**container("a"), "livenessProbe": {"httpGet": {"host": "b.com"}}},
                initContainers=[
                    {**container("z"), "lifecycle": {"preStop": {"tcpSocket": {"host": "a.com"}}}}
                ],
            ),
            (
                'probe or lifecycle host (containers "a", "z" use probe or lifecycle hosts '
                '"a.com", "b.com")'
            ),
        ),
        (
            spec(container(privileged=True)),
            'privileged (container "c" must not set securityContext.privileged=true)',
        ),
        (
            spec(container(procMount="Unmasked")),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            spec(
                container(seLinuxOptions={"type": "bar", "role": "r"}),
                securityContext={"seLinuxOptions": {"type": "foo", "user": "u"}},
            ),
            (
                'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions'
                ': types "bar", "foo"; user may not be set; role may not be set)'
            ),
        ),
        (spec(container(seLinuxOptions={"type": "container_engine_t"})), ""),
        (
            spec(
                container(seccompProfile={"type": "Unconfined"}),
                securityContext={"seccompProfile": {"type": "Localhost"}},
            ),
            (
                'seccompProfile (container "c" must not set securityContext.seccompProfile.type to '
                '"Unconfined")'
            ),
        ),
        (
            spec(securityContext={"sysctls": [{"name": "b"}, {"name": "net.ipv4.tcp_rmem"}]}),
            "forbidden sysctls (b)",
        ),
        (
            spec(securityContext={"windowsOptions": {"hostProcess": True}}),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (spec(), ""),
    ],
)
def test_baseline_forbids_known_ways_to_more_rights(
    level: str, pod: Document, expected: str
) -> None:
    assert told(level, pod) == expected


def test_baseline_forbids_capabilities_and_paths_of_the_host() -> None:
    added = {"add": ["CHOWN", "FOO", "BAR"]}
    pod = spec(
        container("a", capabilities=added),
        volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}],
    )
    assert told("baseline", pod) == (
        'non-default capabilities (container "a" must not include "BAR", "FOO" in '
        'securityContext.capabilities.add), hostPath volumes (volume "v")'
    )
    assert told("restricted", pod) == (
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop='
        '["ALL"]; container "a" must not include "BAR", "CHOWN", "FOO" in '
        'securityContext.capabilities.add), restricted volume types (volume "v" uses restricted '
        'volume type "hostPath")'
    )


def test_restricted_asks_for_what_is_left_undefined() -> None:
    bare = {"containers": [{"name": "c"}]}
    assert told("baseline", bare) == ""
    assert told("restricted", bare) == UNDEFINED
    assert told("restricted", {**bare, "os": {"name": "windows"}}) == (
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)'
    )


def test_restricted_forbids_root() -> None:
    root = spec(container("a", runAsUser=0), container("b", runAsNonRoot=False))
    assert told("restricted", root) == (
        'runAsNonRoot != true (container "b" must not set securityContext.runAsNonRoot=false), '
        'runAsUser=0 (container "a" must not set runAsUser=0)'
    )
    assert told("restricted", {**root, "hostUsers": False}) == ""
    assert "runAsUser=0" in told("restricted", {**root, "hostUsers": False}, minor=34)


def test_earlier_versions_have_earlier_checks() -> None:
    pod = spec(container(seLinuxOptions={"type": "container_engine_t"}))
    assert "seLinuxOptions" in told("baseline", pod, minor=30)
    assert told("restricted", {"containers": [{"name": "c"}]}, minor=7) == (
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true)'
    )
    annotation = {"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"}
    assert told("baseline", spec(), minor=18, **annotation) == (
        "seccompProfile (forbidden annotation "
        'container.seccomp.security.alpha.kubernetes.io/c="unconfined")'
    )


def labels(**modes: str) -> dict[str, str]:
    return {LEVEL + mode.replace("_", "-"): value for mode, value in modes.items()}


def test_labels_choose_levels_and_versions() -> None:
    assert policy_of({}).enforce == LevelVersion()
    policy = policy_of(labels(enforce="baseline", enforce_version="v1.30"))
    assert str(policy.enforce) == str(policy.warn) == "baseline:v1.30"
    policy = policy_of(labels(enforce="restricted", warn="baseline"))
    assert (str(policy.enforce), str(policy.warn)) == ("restricted:latest", "baseline:latest")
    policy = policy_of(labels(enforce="x", warn="y", audit_version="1.2"))
    assert (policy.enforce.level, policy.warn.level) == ("restricted", "privileged")
    assert policy.problems == (
        (
            'metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "x": must be one '
            "of privileged, baseline, restricted"
        ),
        (
            'metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "1.2": must '
            'be "latest" or "v1.x"'
        ),
        (
            'metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "y": must be one '
            "of privileged, baseline, restricted"
        ),
    )


def in_namespace(**modes: str) -> Api:
    api = Api(fresh_store())
    api.seed()
    api.create(NAMESPACES, "", {"metadata": {"name": "x", "labels": labels(**modes)}})
    return api


def pod(name: str = "p") -> Document:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def test_a_pod_that_violates_the_level_is_refused() -> None:
    api = in_namespace(enforce="restricted")
    with pytest.raises(RefusedError) as caught:
        api.create(PODS, "x", pod())
    message = f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {UNDEFINED}'
    assert (caught.value.code, str(caught.value)) == (403, message)
    api.create(PODS, "default", pod())
    api.store.plugins -= {"PodSecurity"}
    api.create(PODS, "x", pod())


def test_pods_and_templates_are_warned_about() -> None:
    api = in_namespace(warn="restricted", enforce="baseline")
    warning = f'would violate PodSecurity "restricted:latest": {UNDEFINED}'
    created = api.create(PODS, "x", pod()).document
    assert api.warnings == [warning]
    api.update(PODS, "x", "p", created, "")
    assert api.warnings == [warning]
    changed = {
        **created["spec"],
        "containers": [{**created["spec"]["containers"][0], "image": "j"}],
    }
    api.update(PODS, "x", "p", {**created, "spec": changed}, "")
    assert api.warnings == [warning] * 2
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    deployment = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.create(DEPLOYMENTS, "x", {"metadata": {"name": "d"}, "spec": deployment})
    assert api.warnings == [warning] * 3


def test_a_template_is_never_refused() -> None:
    api = in_namespace(enforce="restricted")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]}
    deployment = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    api.create(DEPLOYMENTS, "x", {"metadata": {"name": "d"}, "spec": deployment})
    assert api.warnings == [f'would violate PodSecurity "restricted:latest": {UNDEFINED}']


def test_labels_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        in_namespace(enforce="x")
    assert (caught.value.code, str(caught.value)) == (
        422,
        (
            'Namespace "x" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: '
            'Invalid value: "x": must be one of privileged, baseline, restricted'
        ),
    )


def test_a_stricter_level_warns_about_the_pods_that_are_there() -> None:
    api = in_namespace()
    for name in ("b", "a"):
        api.create(PODS, "x", pod(name))
    namespace = api.store.get(NAMESPACES, "", "x")
    metadata = {**namespace["metadata"], "labels": labels(enforce="restricted")}
    api.update(NAMESPACES, "", "x", {**namespace, "metadata": metadata}, "")
    assert api.warnings == [
        (
            'existing pods in namespace "x" violate the new PodSecurity enforce level '
            '"restricted:latest"'
        ),
        (
            "a (and 1 other pod): allowPrivilegeEscalation != false, unrestricted capabilities, "
            "runAsNonRoot != true, seccompProfile"
        ),
    ]


def test_pods_of_one_controller_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = {"ownerReferences": [{"uid": "u", "controller": True}]}
    owned = [{**pod(), "metadata": {"name": f"o{i}", **owner}} for i in range(3)]
    monkeypatch.setattr("berth.tools.kubernetes.api.policies.pod_security.MOST_PODS", 2)
    warnings = [*pod_warnings("x", LevelVersion("restricted"), [*owned, pod()])]
    assert warnings[0] == (
        "new PodSecurity enforce level only checked against the first 2 of 4 existing pods"
    )
    assert warnings[2].startswith("o0 (and 1 other pod): ")
