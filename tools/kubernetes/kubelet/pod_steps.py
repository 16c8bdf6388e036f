"""The Python steps in the stages of pods, and the functions of their templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.times import seconds_of, time_of

from ..objects.structs import Document
from .addresses import Addresses
from .container_events import changed, starts, stops
from .containers import (
    CRASH_LOOP,
    CREATING,
    Backoffs,
    Exit,
    after_exits,
    progress,
    stopped,
    waiting,
)
from .images import Images, Pull, is_pulled, size_of
from .pressure.eviction_ranking import MIRROR
from .pull_events import first_fields, pull_events, pull_message, pulled_message
from .readiness import Readiness
from .stages.actions import Action, DeleteObject, PatchObject, RecordEvent
from .stages.go_builtins import Functions

STOP_SECONDS = "berth.dev/stop-seconds"
VERSION = "hollow"
_FAILED = "pod-container-running-failed.stage.kwok.x-k8s.io"


class PodSteps:
    """The steps of pods. `addresses` has the addresses of the pods.

    `host` returns the address of a node, and `admits` returns True if a pod may start on its node.
    `allocated` returns a pod with the resources that its node has allocated to it. `report` reports
    the images of a node to the server.
    """

    def __init__(
        self,
        readiness: Readiness,
        images: Images,
        host: Callable[[str], str],
        admits: Callable[[Document], bool],
        allocated: Callable[[Document], Document],
        report: Callable[[str], None],
        began: str,
    ) -> None:
        self._readiness = readiness
        self._images = images
        self._report = report
        self._host = host
        self._admits = admits
        self._allocated = allocated
        self._began = began
        self.addresses = Addresses("10.244.0.1")
        self._backoffs = Backoffs()

    def forget(self, pod: Document) -> None:
        """Forgets a pod that no longer exists."""
        self._readiness.forget(pod)
        self._backoffs.forget(pod["metadata"]["uid"])

    def due(self, step: str, pod: Document, since: float) -> float | None:
        """Returns when a step is due; a pod starts once its volumes and devices are ready."""
        status = pod.get("status") or {}
        match step:
            case "start" if not status.get("podIP"):
                if not self._admits(pod):
                    return inf
                if any(self._readiness.lacks(pod)):
                    return inf if status.get("containerStatuses") else since
                pull = self._pull(pod, since)
                return pull.due if pull.reason and pull.reason == _waiting_reason(pod) else since
            case "start" | "run":
                then = progress(pod, since)
                return since if then.status["conditions"] else then.due
            case "stop":
                return since + _seconds_to_stop(pod)
        return since

    def run(self, step: str, pod: Document, now: float) -> Iterator[Action]:
        match step:
            case "start":
                yield from self._start(pod, now)
            case "run":
                yield from self._write(pod, progress(self._allocated(pod), now).status)
            case "complete":
                mains = _main_containers(pod)
                yield from self._exit(
                    pod, now, lambda each: Exit() if each["name"] in mains else None
                )
            case "fail":
                how, mains = _failure_of_annotations(pod), _main_containers(pod)
                name = _annotation(pod, f"{_FAILED}/container-name")
                yield from self._exit(
                    pod,
                    now,
                    lambda each: how if each["name"] in ({name} if name else mains) else None,
                )
            case "kill":
                yield from _liveness_events(pod)
                how = Exit(137, "Error")
                yield from self._exit(
                    pod, now, lambda container: how if "livenessProbe" in container else None
                )
            case "stop":
                status = pod.get("status") or {}
                # the containers of a mirror pod run on
                is_mirror = MIRROR in (pod["metadata"].get("annotations") or {})
                runs = status.get("startTime") and status.get("phase") not in FINISHED
                if runs and not is_mirror:
                    yield PatchObject({"status": stopped(pod, now)})
                    yield from stops(pod)
                yield DeleteObject()

    def _pull(self, pod: Document, now: float) -> Pull:
        if not is_pulled(pod):
            return Pull("", now)
        began = (pod.get("status") or {}).get("startTime")
        return self._images.pull(pod, seconds_of(began) if began else now, now)

    def _start(self, pod: Document, now: float) -> Iterator[Action]:
        """Starts a pod, or sets the reason why its containers wait."""
        status = pod.get("status") or {}
        host = self._host(pod["spec"]["nodeName"])
        began = {
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "startTime": status.get("startTime") or time_of(now),
        }
        if not status.get("podIP"):
            waits = any(self._readiness.lacks(pod))
            reason = CREATING if waits else self._pull(pod, now).reason
            if reason:
                images = {} if waits else dict.fromkeys(self._images.missing(pod), "")
                messages = {image: pull_message(image, reason) for image in images}
                then = waiting(pod, now, reason, mounted=not waits, messages=messages)
                yield PatchObject({"status": {**began, **then}})
                for image, field in first_fields(pod, images).items():
                    yield from pull_events(image, field, reason)
                return
        address = self._address(pod)
        own: Document = {"podIP": address, "podIPs": [{"ip": address}]}
        allocated = self._allocated(pod)
        if resources := allocated["spec"].get("resources"):
            own |= {"resources": resources, "allocatedResources": resources.get("requests") or {}}
        pulled = first_fields(pod, self._images.missing(pod) if is_pulled(pod) else ())
        status = {**began, **own, **progress(allocated, now).status}
        yield PatchObject({"status": status})
        for image, field in pulled.items():
            seconds = self._images.seconds(pod)
            yield RecordEvent(
                "Normal", "Pulled", pulled_message(image, seconds, size_of(pod)), field
            )
        yield from starts(pod, status, pulled.values())
        if self._images.add(pod):
            self._report(pod["spec"]["nodeName"])

    def _exit(
        self, pod: Document, now: float, exits: Callable[[Document], Exit | None]
    ) -> Iterator[Action]:
        """Ends containers, and reports those that wait for their restart."""
        status = after_exits(self._allocated(pod), now, exits, self._backoffs).status
        yield from self._write(pod, status)
        for field, container in changed(pod, status):
            if container["state"].get("waiting", {}).get("reason") == CRASH_LOOP:
                name, which = container["name"], pod["metadata"]
                where = f"{which['name']}_{which['namespace']}({which['uid']})"
                message = f"Back-off restarting failed container {name} in pod {where}"
                yield RecordEvent("Warning", "BackOff", message, field)

    def _write(self, pod: Document, status: Document) -> Iterator[Action]:
        """Writes a status, and the events about the containers that it starts."""
        yield PatchObject({"status": status})
        yield from starts(pod, status)

    def functions(self, pod: Document, now: float) -> Functions:
        host = self._host(pod["spec"]["nodeName"])

        def address(*_: Any) -> str:
            return self._address(pod)

        return {
            "Now": lambda: time_of(now),
            "StartTime": lambda: self._began,
            "Version": lambda: VERSION,
            "NodeName": lambda: pod["spec"]["nodeName"],
            "NodeIP": lambda: host,
            "NodePort": lambda: None,
            "NodeIPWith": self._host,
            "NodeIPsWith": lambda name: [self._host(name)],
            "PodIP": address,
            "PodIPWith": address,
            "PodIPsWith": lambda *_: [address()],
        }

    def _address(self, pod: Document) -> str:
        """Returns the address of a pod: the one that it has, the node's, or a new one."""
        if pod["spec"].get("hostNetwork"):
            return self._host(pod["spec"]["nodeName"])
        own: str | None = (pod.get("status") or {}).get("podIP")
        return own or self.addresses.take()


def _waiting_reason(pod: Document) -> str:
    """Returns the reason in its status why the containers of a pod wait; "" if there is none."""
    status = pod.get("status") or {}
    statuses = (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    )
    states = [(each.get("state") or {}).get("waiting") or {} for each in statuses]
    reasons = [str(state.get("reason", "")) for state in states]
    return next(
        (each for each in reasons if each != "PodInitializing"), CREATING if reasons else ""
    )


def _main_containers(pod: Document) -> set[str]:
    """Returns the names of the containers, without those of init containers and sidecars."""
    return {container["name"] for container in pod["spec"]["containers"]}


def _liveness_events(pod: Document) -> Iterator[RecordEvent]:
    for container in pod["spec"]["containers"]:
        if "livenessProbe" in container:
            name = container["name"]
            field = f"spec.containers{{{name}}}"
            yield RecordEvent("Warning", "Unhealthy", "Liveness probe failed: hollow", field)
            message = f"Container {name} failed liveness probe, will be restarted"
            yield RecordEvent("Normal", "Killing", message, field)


def _annotation(pod: Document, name: str, default: str = "") -> str:
    text: str = (pod["metadata"].get("annotations") or {}).get(name, default)
    return text


def _failure_of_annotations(pod: Document) -> Exit:
    """Returns the failure of a pod's containers that its annotations ask for."""
    code = _annotation(pod, f"{_FAILED}/exit-code", "1")
    return Exit(
        int(code) if code.isdecimal() else 1,
        _annotation(pod, f"{_FAILED}/reason", "Error"),
        _annotation(pod, f"{_FAILED}/message"),
    )


def _seconds_to_stop(pod: Document) -> float:
    """Returns how long the containers take to stop: no longer than the grace period.

    The hooks of sidecars begin with those of the others.
    """
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        return 0.0
    sidecars = (
        container
        for container in pod["spec"].get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    )
    containers = (*pod["spec"]["containers"], *sidecars)
    hooks = (container.get("lifecycle") or {} for container in containers)
    sleeps = ((hook.get("preStop") or {}).get("sleep") or {} for hook in hooks)
    longest = max((sleep.get("seconds") or 0 for sleep in sleeps), default=0)
    try:
        stop = float(_annotation(pod, STOP_SECONDS, "0"))
    except ValueError:
        stop = 0.0
    return float(min(longest + stop, pod["metadata"].get("deletionGracePeriodSeconds") or 0))
