"""A job and its pods, whose controller's writes are carried out in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from berth.actors.scheduling.kube.times import rfc3339
from berth.tools.kubernetes.objects.structs import Document, Job, Pod, read
from berth.tools.kubernetes.objects.writes import Again, Create, Delete, Patch, Write
from berth.tools.kubernetes.workloads.job import job_controller
from berth.tools.kubernetes.workloads.job.backoff import Failures

START = datetime(2026, 1, 1, tzinfo=UTC)


def merge(document: Document, change: Document) -> None:
    """Applies a JSON merge patch in place."""
    for field, value in change.items():
        if value is None:
            document.pop(field, None)
        elif isinstance(value, dict) and isinstance(document.get(field), dict):
            merge(document[field], value)
        else:
            document[field] = value


class World:
    """A job, its pods by name, and the time."""

    def __init__(self, *, restart: str = "Never", **spec: Any) -> None:
        template = {"spec": {"restartPolicy": restart, "containers": [{"name": "c"}]}}
        self.job: Document = {
            "metadata": {"name": "j", "namespace": "n", "uid": "u"},
            "spec": {"template": template, **spec},
            "status": {},
        }
        self.pods: dict[str, Document] = {}
        self.now = START
        self.failures = Failures()
        self.refusal = ""
        self.created = 0
        self.agains: list[float] = []

    @property
    def status(self) -> Document:
        status: Document = self.job["status"]
        return status

    def conditions(self) -> dict[str, str]:
        """Returns the reason of each condition that is True."""
        conditions = self.status.get("conditions", ())
        return {each["type"]: each["reason"] for each in conditions if each["status"] == "True"}

    def active(self) -> list[str]:
        """Returns the names of the pods that run, in the order of their creation."""
        return [
            name
            for name, pod in self.pods.items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def decide(self) -> list[Write]:
        pods = [read(pod, Pod) for pod in self.pods.values()]
        job = read(self.job, Job)
        return job_controller.reconcile(job, pods, self.now, self.failures, self.refusal)

    def settle(self, carried_out: Callable[[], bool] = lambda: True) -> None:
        """Decides and writes until nothing is left to do; `carried_out` tells which writes work."""
        for _ in range(200):
            writes = self.decide()
            self.agains = [write.seconds for write in writes if isinstance(write, Again)]
            if len(self.agains) == len(writes):
                return
            for write in writes:
                if carried_out():
                    self._write(write)
        raise AssertionError("the job does not settle")

    def end(
        self, name: str, code: int = 0, phase: str = "", conditions: tuple[str, ...] = ()
    ) -> None:
        """Lets a pod end, with an exit code."""
        terminated = {"exitCode": code, "finishedAt": rfc3339(self.now)}
        self.pods[name]["status"] = {
            "phase": phase or ("Failed" if code else "Succeeded"),
            "conditions": [{"type": each, "status": "True"} for each in conditions],
            "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}],
        }

    def delete(self, name: str) -> None:
        """Begins to delete a pod; it goes once it has no finalizer."""
        pod = self.pods[name]
        pod["metadata"].setdefault("deletionTimestamp", rfc3339(self.now))
        if not pod["metadata"].get("finalizers"):
            del self.pods[name]

    def _write(self, write: Write) -> None:
        match write:
            case Create("Pod", document):
                self.created += 1
                name = f"p{self.created}"
                metadata = {
                    **document["metadata"],
                    "name": name,
                    "uid": f"uid-{name}",
                    "creationTimestamp": rfc3339(self.now),
                }
                self.pods[name] = {
                    "metadata": metadata,
                    "spec": document["spec"],
                    "status": {"phase": "Running"},
                }
            case Patch("Pod", _, name, body) if name in self.pods:
                merge(self.pods[name], body)
                if "deletionTimestamp" in self.pods[name]["metadata"]:
                    self.delete(name)
            case Patch("Job", _, _, body):
                merge(self.job, body)
            case Delete("Pod", _, name) if name in self.pods:
                self.delete(name)
