"""The pods of the control plane in kube-system: one for each of its programs that the demo plays.

Clients look for them by the labels that kubeadm gives them. They stand for the demo's own process
and the scheduler's: they are on no node, so they take no room, and no scheduler is asked for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from berth.config.versions import Version

from ...cluster.controllers.embedded_access import EmbeddedAccess
from ...kubernetes.api.types.resources import BY_KIND

Document = dict[str, Any]
PODS = BY_KIND["v1", "Pod"]
NAMESPACE, TIER = "kube-system", {"tier": "control-plane"}
SCHEDULER = "kube-scheduler"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", SCHEDULER)
NOBODY = "control-plane"  # the schedulerName, of no scheduler
SCHEDULED = f"fieldSelector=spec.schedulerName!={NOBODY}"  # the pods that are not of these
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def is_of_control_plane(pod: Document) -> bool:
    """True for one of these pods."""
    metadata = pod["metadata"]
    in_system = metadata.get("namespace") == NAMESPACE
    return in_system and bool(pod["spec"].get("schedulerName") == NOBODY)


async def create_control_plane(
    access: EmbeddedAccess, version: Version, now: str, *, metrics: bool, schedules: bool = True
) -> None:
    """Creates the pods, which run since `now`; with `metrics`, one of metrics-server too, and none
    of a scheduler unless the demo `schedules`. Raises ApiError.
    """
    programs = PROGRAMS if schedules else [each for each in PROGRAMS if each != SCHEDULER]
    for pod in (*_pods(programs, version), *([_metrics_server()] if metrics else ())):
        await access.call("POST", PODS.path(NAMESPACE), dict, pod)
        (container,) = pod["spec"]["containers"]
        path = f"{PODS.path(NAMESPACE, pod['metadata']['name'])}/status"
        status = {"status": _status(container, now)}
        await access.call("PATCH", path, dict, status, "application/merge-patch+json")


def _pods(programs: Iterable[str], version: Version) -> Iterator[Document]:
    for program in programs:
        image = f"registry.k8s.io/{program}:{version.release}"
        yield _pod(program, image, {"component": program, **TIER})


def _metrics_server() -> Document:
    name = "metrics-server"
    return _pod(name, f"registry.k8s.io/{name}/{name}:v0.8.0", {"k8s-app": name})


def _pod(program: str, image: str, labels: Document) -> Document:
    return {
        "metadata": {"name": f"{program}-berth", "labels": labels},
        "spec": {
            "schedulerName": NOBODY,
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"name": program, "image": image, "command": [program]}],
        },
    }


def _status(container: Document, now: str) -> Document:
    ready = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "containerID": f"hollow://{container['name']}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
        "lastState": {},
    }
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now} for kind in _CONDITIONS
        ],
        "containerStatuses": [ready],
    }
