"""The conditions under which the server deletes an object, and the grace period of a pod."""

from __future__ import annotations

from .refusals import conflict
from .requests import DeleteOptions, Preconditions, check_dry_run
from .resources import Kind
from .store import Document

FINISHED = ("Succeeded", "Failed")


def check_deletion(kind: Kind, document: Document, options: DeleteOptions) -> None:
    """Raises RefusedError: 422 for invalid options, 409 if a precondition does not hold."""
    check_dry_run("DeleteOptions", options.dry_run or ())
    metadata = document["metadata"]
    preconditions = options.preconditions or Preconditions()
    for field, expected, have, else_ in (
        ("UID", preconditions.uid, metadata["uid"], "deleted and then recreated"),
        (
            "ResourceVersion",
            preconditions.resource_version,
            metadata["resourceVersion"],
            "modified",
        ),
    ):
        if expected is not None and expected != have:
            why = (
                f"the {field} in the precondition ({expected}) does not match the {field} in "
                f"record ({have}). The object might have been {else_}"
            )
            raise conflict(kind, metadata["name"], why)


def grace_seconds(pod: Document, seconds: int | None) -> int:
    """Returns the grace period in seconds; 0 for a pod that has no node or has finished.

    A negative one counts as a second.
    """
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in FINISHED:
        return 0
    if seconds is None:
        seconds = int(pod["spec"].get("terminationGracePeriodSeconds", 30))
    return 1 if seconds < 0 else seconds
