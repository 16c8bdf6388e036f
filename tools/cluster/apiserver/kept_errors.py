"""What is wrong with the file in which an API server keeps its objects."""

from __future__ import annotations


class JournalError(ValueError):
    """The file is not a journal, or another server is using it, or the disk has failed; the message
    says which.
    """


class SnapshotError(ValueError):
    """The file is not a snapshot; the message says why."""
