"""The statuses of pods whose containers are hollow: creating, running and succeeded."""

from __future__ import annotations

from ..objects import Document


def running_status(pod: Document, host: str, address: str, time: str) -> Document:
    """Returns the status of a pod with all containers started."""
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    running = {"running": {"startedAt": time}}
    ended = {
        "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}
    }
    spec = pod["spec"]
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
        "containerStatuses": [_container(container, running) for container in spec["containers"]],
    }
    if spec.get("initContainers"):
        status["initContainerStatuses"] = [
            _container(container, running if container.get("restartPolicy") == "Always" else ended)
            for container in spec["initContainers"]
        ]
    return status


def creating_status(pod: Document, host: str, time: str) -> Document:
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
            for container in pod["spec"]["containers"]
        ],
    }


def succeeded_status(pod: Document, time: str) -> Document:
    """Returns the status of a pod with all containers succeeded."""
    ended = {
        "exitCode": 0,
        "reason": "Completed",
        "startedAt": pod["status"].get("startTime"),
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
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Succeeded", "conditions": conditions, "containerStatuses": statuses}


def _container(container: Document, state: Document) -> Document:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": f"hollow://{container.get('image', '')}",
        "containerID": f"hollow://{container['name']}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }
