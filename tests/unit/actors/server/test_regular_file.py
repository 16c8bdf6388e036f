from __future__ import annotations

import os
from pathlib import Path

import pytest

from berth.actors.server.regular_file import content


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "tls.crt"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="expected a regular file"):
        content(pipe)
    file = tmp_path / "tls.key"
    file.write_bytes(b"key")
    assert content(file) == b"key"
    with pytest.raises(FileNotFoundError):
        content(tmp_path / "gone")
