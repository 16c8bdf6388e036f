"""Ask a kube-scheduler about every case: `python -m tests.golden.record_configurations PROGRAM`."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import yaml

from tests.golden.configurations import ANSWERS, HEAD, Answer, Case, cases


def answer_of(program: str, case: Case) -> Answer:
    with TemporaryDirectory() as folder:
        file, out = Path(folder, "c.yaml"), Path(folder, "out.yaml")
        file.write_text(HEAD + case.text)
        flags: list[str | Path] = ["--config", file, "--write-config-to", out, "--secure-port=0"]
        flags += ["--master", "http://127.0.0.1:1", f"--feature-gates={case.gates}"]
        ended = subprocess.run([program, *flags], capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            return Answer(yaml.safe_load(out.read_text()))
        line = ended.stderr.strip().splitlines()[-1]
        return Answer(None, line.partition("err=")[2].replace(folder, "."))


if __name__ == "__main__":
    with gzip.GzipFile(ANSWERS, "wb", mtime=0) as lines:
        for case in cases():
            lines.write(msgspec.json.encode(answer_of(sys.argv[1], case)) + b"\n")
