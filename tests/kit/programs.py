"""Programs that a test needs and that a machine may lack."""

from __future__ import annotations

import shutil

import pytest


def missing(program: str) -> str:
    """Returns the reason for skipping a test that needs this program; "" if it is here."""
    return "" if shutil.which(program) else f"{program} is not on the PATH"


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(bool(missing(program)), reason=missing(program))
