"""What kubectl says about folders of manifests: apply, diff, apply again, change, delete.

The answers of a real cluster are recorded with

    python -m tests.kit.manifest_folders KUBECONFIG

which uses the namespace `folders` there, and objects whose names begin with `folder`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDERS = Path(__file__).parent.parent / "integration" / "folders"
RECORDED = FOLDERS / "recorded.json"
NAMESPACE = "folders"
# A line that ends in "# then VALUE" has that value in the second version of its folder.
CHANGE = re.compile(r"^(\s*(?:- )?)((?:[\w./-]+: )?)(?:.*) # then (.*)$", re.MULTILINE)
DIFF = Path(__file__).with_name("plain_diff.py")
Answer = dict[str, str | int]


def names() -> list[str]:
    return sorted(path.name for path in FOLDERS.iterdir() if path.is_dir())


def said(kubeconfig: Path, name: str) -> list[Answer]:
    """Returns what kubectl says about a folder, command by command."""
    with tempfile.TemporaryDirectory() as scratch:
        first, second = Path(scratch, "first"), Path(scratch, "second")
        first.mkdir()
        second.mkdir()
        for path in sorted((FOLDERS / name).iterdir()):
            text = path.read_text()
            (first / path.name).write_text(text)
            (second / path.name).write_text(CHANGE.sub(r"\1\2\3", text))
        answers = [
            _run(kubeconfig, name, command, folder)
            for command, folder in (
                ("diff", first),
                ("apply", first),
                ("diff", first),
                ("apply", first),
                ("diff", second),
                ("apply", second),
                ("diff", second),
                ("delete", second),
            )
        ]
    text = json.dumps(answers).replace(scratch, "")
    plain: list[Answer] = json.loads(text)
    return plain


def _run(kubeconfig: Path, name: str, command: str, folder: Path) -> Answer:
    # kubectl takes no file with objects of another namespace than the one that it is told
    place = () if "namespace" in name else ("-n", NAMESPACE)
    run = subprocess.run(
        ["kubectl", "--kubeconfig", str(kubeconfig), *place, command, "-f", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "KUBECTL_EXTERNAL_DIFF": str(DIFF)},
    )
    return {
        "command": f"{command} {folder.name}",
        "code": run.returncode,
        "stdout": run.stdout,
        "stderr": run.stderr,
    }


def main(kubeconfig: Path) -> None:
    kubectl = ["kubectl", "--kubeconfig", str(kubeconfig)]
    subprocess.run([*kubectl, "create", "namespace", NAMESPACE], check=True)
    try:
        recorded = {name: said(kubeconfig, name) for name in names()}
    finally:
        subprocess.run([*kubectl, "delete", "namespace", NAMESPACE], check=True)
    RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
