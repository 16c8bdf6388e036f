"""The states of a pod's hollow containers, derived from its document and the time.

Mirrors the kubelet: init containers run in their order, sidecars go on running, containers that
exit are restarted as the restart policy says, with a back-off that doubles, and probes decide which
containers are ready. Hollow probes succeed after their initial delay.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from berth.actors.scheduling.kube.core import FINISHED
from berth.actors.scheduling.kube.times import seconds_of, time_of

from ..objects.structs import Document

INIT_SECONDS = "berth.dev/init-seconds"
READY_SECONDS = "berth.dev/ready-seconds"
BACKOFF_SECONDS, MOST_BACKOFF_SECONDS, RESET_SECONDS = 10, 300, 600
CRASH_LOOP, CREATING = "CrashLoopBackOff", "ContainerCreating"
# How a container has ended of which nothing is known.
_LOST = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}
_BACKOFF = re.compile(r"back-off (?:(\d+)m)?(\d+)s ")


class Exit(msgspec.Struct, frozen=True):
    """How a container ends."""

    code: int = 0
    reason: str = "Completed"
    message: str = ""


class Progress(msgspec.Struct, frozen=True):
    """The status of a pod at a time, and when time alone changes it next; None for never."""

    status: Document
    due: float | None


class Backoffs:
    """The latest back-offs of crashed containers in seconds, by pod and container.

    Kubelets that start again do not know the waits, and use the number of restarts.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, dict[str, int]] = {}

    def next(self, uid: str, name: str, restarts: int, ran: float) -> int:
        """Returns the next wait of a container that has run this long; 0 the first time."""
        last = self._seconds.setdefault(uid, {})
        before = last.get(name, 0 if restarts == 0 else BACKOFF_SECONDS << min(restarts - 1, 5))
        if restarts == 0 or ran >= RESET_SECONDS:
            last[name] = BACKOFF_SECONDS
            return 0
        last[name] = min(2 * before, MOST_BACKOFF_SECONDS)
        return min(before, MOST_BACKOFF_SECONDS)

    def forget(self, uid: str) -> None:
        self._seconds.pop(uid, None)


def progress(pod: Document, now: float) -> Progress:
    """Returns the status of the containers of a pod, whose volumes and devices are ready."""
    return _Pod(pod, now).progress()


def stopped(pod: Document, now: float) -> Document:
    """Returns the last status of a pod that is being deleted: all containers have ended."""
    return _Pod(pod, now).stop()


def is_marked(pod: Document) -> bool:
    """True if a running pod is marked unready although its containers are ready.

    The node lifecycle controller marks the pods of silent kubelets in this way.
    """
    status = pod.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    ready = conditions.get("ContainersReady"), conditions.get("Ready")
    return status.get("phase") == "Running" and ready == ("True", "False")


def waiting(
    pod: Document, now: float, reason: str, *, mounted: bool, messages: Mapping[str, str]
) -> Document:
    """Returns the status of a pod whose containers cannot start yet, for a reason.

    `messages` are by image.
    """
    return _Pod(pod, now).wait(reason, messages, mounted=mounted)


def after_exits(
    pod: Document, now: float, exits: Callable[[Document], Exit | None], backoffs: Backoffs
) -> Progress:
    """Returns the status after running containers have ended as `exits` says."""
    return _Pod(pod, now).end(exits, backoffs).progress()


class _Pod:
    """The statuses of a pod's containers while they are computed."""

    def __init__(self, pod: Document, now: float) -> None:
        self._pod = pod
        self._now = now
        self._time = time_of(now)
        self._dues: list[float] = []
        spec, status = pod["spec"], pod.get("status") or {}
        self._before = status
        self._is_deleted = "deletionTimestamp" in pod["metadata"]
        self._policy = spec.get("restartPolicy") or "Always"
        self._annotations = pod["metadata"].get("annotations") or {}
        self._init: list[Document] = spec.get("initContainers") or []
        self._main: list[Document] = spec["containers"]
        self._ephemeral: list[Document] = spec.get("ephemeralContainers") or []
        self._of_init = _by_name(status.get("initContainerStatuses"))
        self._of_main = _by_name(status.get("containerStatuses"))
        self._of_ephemeral = _by_name(status.get("ephemeralContainerStatuses"))

    def end(self, exits: Callable[[Document], Exit | None], backoffs: Backoffs) -> _Pod:
        for containers, statuses in ((self._init, self._of_init), (self._main, self._of_main)):
            for container in containers:
                status = statuses.get(container["name"])
                how = exits(container)
                if status is None or how is None or "running" not in _state(status):
                    continue
                statuses[container["name"]] = self._end_or_restart(container, status, how, backoffs)
        return self

    def progress(self) -> Progress:
        initialized = self._initialize()
        phase = "Pending"
        if initialized and (started := self._run()):
            phase = started
        elif not initialized:
            for container in self._main:
                self._of_main.setdefault(
                    container["name"], waiting_status(container, "PodInitializing")
                )
        phase = self._phase_of_failed_init() or phase
        if phase in FINISHED:
            self._end_sidecars()
        self._run_ephemeral(phase)
        return Progress(self._status(phase, initialized), min(self._dues, default=None))

    def wait(self, reason: str, messages: Mapping[str, str], *, mounted: bool) -> Document:
        """Returns the status of a pod whose containers wait. The first init container waits for its
        image before all others.
        """
        default = "PodInitializing" if self._init else CREATING
        for containers, statuses in ((self._init, self._of_init), (self._main, self._of_main)):
            for container in containers:
                statuses[container["name"]] = waiting_status(container, default)
        if reason != CREATING:
            first = [each for each in self._init[:1] if each.get("image", "") in messages]
            statuses = self._of_init if first else self._of_main
            for container in first or self._main:
                status = statuses[container["name"]] = waiting_status(container, reason)
                if message := messages.get(container.get("image", "")):
                    status["state"]["waiting"]["message"] = message
        return self._status("Pending", not self._init, mounted=mounted)

    def stop(self) -> Document:
        """Ends all containers of a pod that is being deleted."""
        before = {each["type"]: each["status"] for each in self._before.get("conditions") or ()}
        initialized = not self._init or before.get("Initialized") == "True"
        for container in self._init:
            completes = container.get("restartPolicy") != "Always"
            status = self._end_container(container, self._of_init, completes=completes)
            self._of_init[container["name"]] = status
        for container in self._main:
            status = self._end_container(container, self._of_main, completes=False)
            if initialized and "terminated" not in _state(status):
                status = {**status, "state": {"terminated": _LOST}}
            self._of_main[container["name"]] = status
        for container in self._ephemeral:
            status = self._end_container(container, self._of_ephemeral, completes=False)
            self._of_ephemeral[container["name"]] = status
        ended = [_state(status).get("terminated") for status in self._of_main.values()]
        succeeded = all(each is not None and not each.get("exitCode") for each in ended)
        return self._status("Succeeded" if succeeded else "Failed", initialized)

    def _end_container(
        self, container: Document, statuses: dict[str, Document], *, completes: bool
    ) -> Document:
        """Ends a running container. For one that waits for its restart, the last exit counts."""
        status = statuses.get(container["name"]) or waiting_status(container, "PodInitializing")
        last = (status.get("lastState") or {}).get("terminated")
        if "running" in _state(status):
            state = self._terminated(status, Exit())
            return {**status, "ready": completes, "started": False, "state": state}
        if last and "waiting" in _state(status):
            return {**status, "state": {"terminated": last}}
        return status

    def _status(self, phase: str, initialized: bool, *, mounted: bool = True) -> Document:
        mains = [self._of_main[container["name"]] for container in self._main]
        status: Document = {
            "observedGeneration": self._generation(),
            "phase": phase,
            "conditions": self._conditions(initialized, mains, phase, mounted=mounted),
            "containerStatuses": sorted(mains, key=lambda main: str(main["name"])),
        }
        if self._init:
            status["initContainerStatuses"] = [self._of_init[c["name"]] for c in self._init]
        if self._ephemeral:
            ephemeral = [self._of_ephemeral.get(c["name"]) for c in self._ephemeral]
            status["ephemeralContainerStatuses"] = [each for each in ephemeral if each]
        return status

    # ------------------------------------------------------------------------------ containers

    def _initialize(self) -> bool:
        """Runs the init containers in their order; True once the containers may start.

        Once a container has started, the pod stays initialized while its sidecars are restarted.
        """
        has_started = any(map(_has_run, self._of_main.values()))
        initialized = True
        for container in self._init:
            name = container["name"]
            status = self._of_init.get(name) or waiting_status(container, "PodInitializing")
            if initialized:
                status = self._start_after_wait(container, status)
                if container.get("restartPolicy") == "Always":
                    status = self._apply_probes(container, status)
                    initialized = has_started or bool(status["started"])
                else:
                    status = self._end_completed_init(container, status)
                    ended = _state(status).get("terminated") or {"exitCode": -1}
                    initialized = ended.get("exitCode") == 0
            self._of_init[name] = status
        return initialized

    def _end_completed_init(self, container: Document, status: Document) -> Document:
        """Ends an init container whose running time is over."""
        running = _state(status).get("running")
        if running is None:
            return status
        end = self._began(running) + self._annotated(INIT_SECONDS, 0.0)
        if end > self._now:
            self._dues.append(end)
            return {**status, "started": True}
        state = self._terminated(status, Exit())
        return {**status, "ready": True, "started": False, "state": state}

    def _run(self) -> str:
        """Starts and probes the containers; returns the phase of the pod."""
        for container in self._main:
            name = container["name"]
            status = self._of_main.get(name) or waiting_status(container, "ContainerCreating")
            self._of_main[name] = self._apply_probes(
                container, self._start_after_wait(container, status)
            )
        ended = [_state(status).get("terminated") for status in self._of_main.values()]
        if not all(ended):
            return "Running"
        return "Failed" if any(each and each.get("exitCode") for each in ended) else "Succeeded"

    def _phase_of_failed_init(self) -> str:
        """Returns Failed if an init container has failed and is not restarted."""
        ended = (_state(self._of_init[c["name"]]).get("terminated") for c in self._init)
        return "Failed" if any(each and each.get("exitCode") for each in ended) else ""

    def _end_sidecars(self) -> None:
        for container in self._init:
            status = self._of_init[container["name"]]
            if "running" in _state(status):
                state = self._terminated(status, Exit())
                ended = {**status, "ready": False, "started": False, "state": state}
                self._of_init[container["name"]] = ended

    def _run_ephemeral(self, phase: str) -> None:
        """Starts the ephemeral containers of a pod that runs, once each, and ends them with it."""
        for container in self._ephemeral:
            name = container["name"]
            status = self._of_ephemeral.get(name)
            if phase == "Running" and status is None:
                self._of_ephemeral[name] = _started(container, self._time)
            elif phase in FINISHED and status is not None:
                ended = self._end_container(container, self._of_ephemeral, completes=False)
                self._of_ephemeral[name] = ended

    def _start_after_wait(self, container: Document, status: Document) -> Document:
        """Starts a waiting container, unless its back-off lasts."""
        waiting = _state(status).get("waiting")
        if waiting is None:
            return status
        restarts = status["restartCount"]
        ended = (status.get("lastState") or {}).get("terminated") or {}
        if waiting.get("reason") == CRASH_LOOP and ended.get("finishedAt"):
            end = seconds_of(ended["finishedAt"]) + _backoff_in(waiting.get("message", ""))
            if end > self._now:
                self._dues.append(end)
                return status
            restarts += 1
        return {**_started(container, self._time), "restartCount": restarts} | (
            {"lastState": status["lastState"]} if status.get("lastState") else {}
        )

    def _apply_probes(self, container: Document, status: Document) -> Document:
        """Sets `started` and `ready` of a container by its probes."""
        running = _state(status).get("running")
        if running is None:
            return {**status, "started": False, "ready": False}
        began = self._began(running)
        started_at = began + sum(_probe_delays(container.get("startupProbe")))
        initial, again = _probe_delays(container.get("readinessProbe"))
        ready_at = max(started_at, began + initial) + again
        if READY_SECONDS in self._annotations:
            ready_at = max(started_at, began + self._annotated(READY_SECONDS, initial + again))
        self._dues += [due for due in (started_at, ready_at) if due > self._now]
        return {**status, "started": started_at <= self._now, "ready": ready_at <= self._now}

    def _end_or_restart(
        self, container: Document, status: Document, how: Exit, backoffs: Backoffs
    ) -> Document:
        """Ends a running container; restarts it if the policy says so, perhaps after a back-off."""
        state = self._terminated(status, how)
        ended = {**status, "state": state, "ready": False, "started": False}
        if not self._is_restarted(container, how.code):
            return ended
        restarts = status["restartCount"]
        metadata = self._pod["metadata"]
        ran = self._now - self._began(_state(status)["running"])
        seconds = backoffs.next(metadata["uid"], container["name"], restarts, ran)
        if seconds == 0:
            restarted = {**_started(container, self._time), "restartCount": restarts + 1}
            return {**restarted, "lastState": state}
        text = f"{seconds // 60}m{seconds % 60}s" if seconds >= 60 else f"{seconds}s"
        which = f"container={container['name']} pod={metadata['name']}_{metadata['namespace']}"
        waiting = {
            "reason": CRASH_LOOP,
            "message": f"back-off {text} restarting failed {which}({metadata['uid']})",
        }
        return {**ended, "state": {"waiting": waiting}, "lastState": state}

    def _is_restarted(self, container: Document, code: int) -> bool:
        """True if a container that has exited with a code is restarted: its first rule that
        matches the code says so, or else its policy, which is by default that of the pod.
        """
        policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
        if policy and any(_matches(rule, code) for rule in rules):
            return True  # there are no other actions than to restart
        policy = policy or self._policy
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    def _terminated(self, status: Document, how: Exit) -> Document:
        ended: Document = {
            "exitCode": how.code,
            "reason": how.reason,
            "startedAt": _state(status)["running"].get("startedAt") or self._time,
            "finishedAt": self._time,
            "containerID": status.get("containerID", ""),
        }
        return {"terminated": {**ended, "message": how.message} if how.message else ended}

    def _began(self, running: Document) -> float:
        text = running.get("startedAt")
        return seconds_of(text) if text else self._now

    def _annotated(self, name: str, default: float) -> float:
        try:
            return float(self._annotations.get(name, default))
        except ValueError:
            return default

    # ------------------------------------------------------------------------------ conditions

    def _conditions(
        self, initialized: bool, mains: list[Document], phase: str, *, mounted: bool
    ) -> list[Document]:
        """Returns the conditions that have changed."""
        sidecars = [
            self._of_init[c["name"]] for c in self._init if c.get("restartPolicy") == "Always"
        ]
        unready = [status["name"] for status in (*sidecars, *mains) if not status["ready"]]
        incomplete = [
            container["name"]
            for container in self._init
            if not self._of_init[container["name"]][
                "started" if container.get("restartPolicy") == "Always" else "ready"
            ]
        ]
        values = {"PodReadyToStartContainers": ("True", "", "")}
        values["Initialized"] = (
            ("True", "", "")
            if initialized
            else (
                "False",
                "ContainersNotInitialized",
                f"containers with incomplete status: [{' '.join(incomplete)}]",
            )
        )
        if phase in FINISHED or not mounted:
            values["PodReadyToStartContainers"] = ("False", "", "")
        if phase in FINISHED and (initialized or not self._is_deleted):
            reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
            if phase == "Succeeded":
                values["Initialized"] = ("True", "PodCompleted", "")
            values["Ready"] = values["ContainersReady"] = ("False", reason, "")
        elif unready:
            message = f"containers with unready status: [{' '.join(unready)}]"
            values["Ready"] = ("False", "ContainersNotReady", message)
            values["ContainersReady"] = values["Ready"]
        else:
            gates = [
                gate["conditionType"] for gate in self._pod["spec"].get("readinessGates") or ()
            ]
            have = {each["type"]: each["status"] for each in self._before.get("conditions") or ()}
            missing = [gate for gate in gates if have.get(gate) != "True"]
            values["Ready"] = (
                ("False", "ReadinessGatesNotReady", _gates_missing(missing, have))
                if missing
                else ("True", "", "")
            )
            values["ContainersReady"] = ("True", "", "")
        values["PodScheduled"] = ("True", "", "")
        return list(self._changed(values))

    def _generation(self) -> int:
        """Returns the generation of the spec: a deletion adds one that no kubelet tells."""
        metadata = self._pod["metadata"]
        return int(metadata.get("generation", 0)) - ("deletionTimestamp" in metadata)

    def _changed(self, values: dict[str, tuple[str, str, str]]) -> Iterable[Document]:
        before = {each["type"]: each for each in self._before.get("conditions") or ()}
        generation = self._generation()
        for kind, (status, reason, message) in values.items():
            old = before.get(kind, {})
            have = (old.get("status"), old.get("reason") or "", old.get("message") or "")
            if have == (status, reason, message) and old.get("observedGeneration") == generation:
                continue
            same = old.get("status") == status
            time = old.get("lastTransitionTime") if same else self._time
            condition: Document = {
                "type": kind,
                "status": status,
                "lastTransitionTime": time,
                "observedGeneration": generation,
            }
            for field, value in (("reason", reason), ("message", message)):
                if value or old.get(field):
                    condition[field] = value or None
            yield condition


def _gates_missing(gates: list[str], have: dict[str, str]) -> str:
    return ", ".join(
        f'the status of pod readiness gate "{gate}" is not "True", but {have[gate]}'
        if gate in have
        else f'corresponding condition of pod readiness gate "{gate}" does not exist.'
        for gate in gates
    )


def _by_name(statuses: Any) -> dict[str, Document]:
    absent = {"restartCount": 0, "ready": False, "started": False}
    return {status["name"]: {**absent, **status} for status in statuses or ()}


def _state(status: Document) -> Document:
    state: Document = status.get("state") or {"waiting": {"reason": "ContainerCreating"}}
    return {kind: value for kind, value in state.items() if value is not None}


def waiting_status(container: Document, reason: str) -> Document:
    """Returns the status of a container that has not run yet."""
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason}},
        "lastState": {},
    }


def _started(container: Document, time: str) -> Document:
    image, own = container.get("image", ""), container.get("resources") or {}
    resources = {field: own[field] for field in ("requests", "limits") if own.get(field)}
    allocated = {"allocatedResources": own["requests"]} if own.get("requests") else {}
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{container['name']}",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"running": {"startedAt": time}},
        "lastState": {},
        "resources": resources,
        **allocated,
    }


def _probe_delays(probe: Document | None) -> tuple[float, float]:
    """Returns two delays of a probe that always succeeds: until its first success, and from there
    to its success threshold.
    """
    if probe is None:
        return 0.0, 0.0
    again = (probe.get("successThreshold") or 1) - 1
    initial = probe.get("initialDelaySeconds") or 0
    return float(initial), float(again * (probe.get("periodSeconds") or 10))


def _matches(rule: Document, code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def _has_run(status: Document) -> bool:
    state = _state(status)
    return "running" in state or "terminated" in state or bool(status.get("lastState"))


def _backoff_in(message: str) -> int:
    match = _BACKOFF.match(message)
    return 60 * int(match[1] or 0) + int(match[2]) if match else 0
