"""What is compared of the lives of pods on kubelets: each version of a pod, and the events."""

from __future__ import annotations

from tests.kit.documents import Document

BRIEF_SECONDS = 2.5  # a kubelet may leave out a version that lasts for less


def version(pod: Document) -> Document:
    """Returns what a version of a pod says, without times, addresses and names of its own."""
    metadata, status = pod["metadata"], pod["status"]
    view: Document = {"phase": status.get("phase")}
    if metadata.get("deletionTimestamp"):
        view["grace"] = metadata["deletionGracePeriodSeconds"]
    for field in ("reason", "message", "qosClass", "observedGeneration"):
        if field in status:
            view[field] = status[field]
    for field in ("startTime", "hostIP", "podIP"):
        if field in status:
            view[field] = True
    view["conditions"] = {
        each["type"]: " ".join(
            str(each[field])
            for field in ("status", "observedGeneration", "reason", "message")
            if field in each
        )
        for each in status.get("conditions") or ()
    }
    for field in ("initContainerStatuses", "containerStatuses"):
        if field in status:
            view[field] = [_container(each, metadata) for each in status[field]]
    return view


def _container(status: Document, metadata: Document) -> str:
    """Returns what the status of a container says in a line."""
    flags = " ".join(field for field in ("ready", "started") if status.get(field))
    last = _state(status.get("lastState") or {}, metadata)
    return (
        f"{status['name']} {_state(status['state'], metadata)}; {flags or 'not started'}; "
        f"{status['restartCount']} restarts{f' after {last}' if last else ''}"
    )


def _state(state: Document, metadata: Document) -> str:
    for kind, detail in state.items():
        if detail is not None:
            words = (detail.get("reason", ""), detail.get("exitCode", ""), detail.get("message"))
            text = " ".join(str(word) for word in (kind, *words) if word not in ("", None))
            return unnamed(text, metadata)
    return ""


def event(document: Document, metadata: Document) -> list[str]:
    """Returns the type, the reason, the field, the message and the source of an event."""
    about, source = document["involvedObject"], document["source"]["component"]
    message = unnamed(document["message"], metadata)
    return [document["type"], document["reason"], about.get("fieldPath", ""), message, source]


def unnamed(text: str, metadata: Document) -> str:
    return text.replace(metadata["uid"], "UID").replace(metadata["name"], "NAME")
