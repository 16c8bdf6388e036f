"""The statuses of pods whose containers are hollow: creating, running and succeeded."""

from __future__ import annotations

from berth.actors.scheduling.kube.core import Container, Pod

from ..objects import Document


def running_status(pod: Pod, host: str, address: str, time: str) -> Document:
    """Returns the status of a pod with all containers started."""
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    running = {"running": {"startedAt": time}}
    ended = {
        "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}
    }
    status: Document = {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": time,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": time} for kind in conditions
        ],
        "containerStatuses": [_container(container, running) for container in pod.spec.containers],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container(container, running if container.restart_policy == "Always" else ended)
            for container in pod.spec.init_containers
        ]
    return status


def creating_status(pod: Pod, host: str, time: str) -> Document:
    """Returns the status of a pod that waits for volumes or devices."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    stopped = {"ready": False, "started": False}
    return {
        "phase": "Pending",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": time,
        "containerStatuses": [
            {**_container(container, waiting), "imageID": "", "containerID": "", **stopped}
            for container in pod.spec.containers
        ],
    }


def succeeded_status(pod: Pod, time: str) -> Document:
    """Returns the status of a pod with all containers succeeded."""
    ended = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": pod.status.start_time,
        "finishedAt": time,
    }
    conditions = [
        {"type": kind, "status": "False", "reason": "PodCompleted", "lastTransitionTime": time}
        for kind in ("Ready", "ContainersReady")
    ]
    statuses = [
        {
            **_container(container, {"running": None, "terminated": ended}),
            "ready": False,
            "started": False,
        }
        for container in pod.spec.containers
    ]
    return {"phase": "Succeeded", "conditions": conditions, "containerStatuses": statuses}


def _container(container: Container, state: Document) -> Document:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"hollow://{container.image}",
        "containerID": f"hollow://{container.name}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
