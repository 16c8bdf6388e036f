#!/usr/bin/env python3
"""Compares two folders of objects for `kubectl diff`, without what differs from server to server.

Exits with 1 if they differ, as diff does.
"""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

# Identities, times and addresses; what only controllers write; the default service account.
NOISE = re.compile(
    r"\s*(- )?(uid|creationTimestamp|resourceVersion|clusterIP|nodePort|healthCheckNodePort"
    r"|lastPhaseTransitionTime|controller-uid|batch\.kubernetes\.io/controller-uid): .*"
)
ADDRESS = re.compile(r"  - 10\.\d+\.\d+\.\d+|  serviceAccount(Name)?: default")


def plain(text: str) -> list[str]:
    """Returns the lines that are the same on every server: without the status, which comes last."""
    lines, in_status = list[str](), False
    for line in text.splitlines():
        in_status = line.startswith("status:") or (in_status and line[:1] in (" ", "-"))
        if not in_status and not NOISE.fullmatch(line) and not ADDRESS.fullmatch(line):
            lines.append(line)
    return lines


def main(live: Path, merged: Path) -> int:
    names = sorted({path.name for folder in (live, merged) for path in folder.iterdir()})
    differs = False
    for name in names:
        before, after = (
            plain((folder / name).read_text()) if (folder / name).exists() else []
            for folder in (live, merged)
        )
        titles = f"live/{name}", f"merged/{name}"
        lines = list(difflib.unified_diff(before, after, *titles, lineterm=""))
        differs = differs or bool(lines)
        print("\n".join(lines), end="\n" if lines else "")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
