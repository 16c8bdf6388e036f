"""The small programs that a hollow container runs without a script.

There is no image, so these answer alone what follows from their words, from the pod and from the
clock, as the programs of every small image do:

    true, false, exit N in a shell     the exit code
    echo, hostname, date               what they print
    cat                                stdin, or a file that the kubelet writes
    ls /                               the folders of every image, and those of volumes
    tar cf - FILE                      such a file, as `kubectl cp` asks for it
    sleep TIME                         nothing, after that time
    sh -c 'one of these'               a command without operators, variables or patterns

Anything else would be a guess about an image, and is left to scripts.
"""

from __future__ import annotations

import base64
import re
import shlex
import tarfile
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from ...api.types.api_documents import Document
from .commands import Outcome

_SHELLS = ("sh", "bash", "ash", "/bin/sh", "/bin/bash")
_SHELL_SIGNS = set("|&;<>()$`\\*?[]{}~#=!\n")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)")
_CODE = re.compile(r"[0-9]{1,3}")
_FOLDERS = ("bin", "dev", "etc", "home", "proc", "root", "sys", "tmp", "usr", "var")
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_MOST_NAME = 63  # bytes of a hostname
_BLOCK = 512  # bytes of a tar archive


class Surroundings(msgspec.Struct, frozen=True):
    """What a program sees of the container in which it runs, and the time, in UTC."""

    pod: Document
    container: Document
    now: datetime


def program_outcome(words: Sequence[str], around: Surroundings) -> Outcome | None:
    """Returns what a command does; None if that depends on an image."""
    if not words:
        return None
    if words[0] in _SHELLS:
        return _shell(words[1:], around)
    name = words[0].removeprefix("/usr").removeprefix("/bin/")
    if name in _OF_WORDS:
        return _OF_WORDS[name](words[1:])
    return _OF_PODS[name](words[1:], around) if name in _OF_PODS else None


def own_outcome(around: Surroundings) -> Outcome | None:
    """Returns what the container's own process does, if that is one of these programs.

    An image may have an entry point before `args`; those of small images run their arguments.
    """
    container = around.container
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if any("$" in word for word in words):  # the kubelet puts variables in
        return None
    return program_outcome(words, around)


def _shell(arguments: Sequence[str], around: Surroundings) -> Outcome | None:
    if len(arguments) != 2 or arguments[0] != "-c" or _SHELL_SIGNS & {*arguments[1]}:
        return None
    try:
        words = shlex.split(arguments[1])
    except ValueError:
        return None
    if words[:1] == ["exit"]:
        code = words[1] if len(words) == 2 else ""
        return Outcome(exit_code=int(code) % 256) if _CODE.fullmatch(code) else None
    return program_outcome(words, around)


def _echo(arguments: Sequence[str]) -> Outcome | None:
    end = "\n"
    if arguments[:1] == ["-n"]:
        arguments, end = arguments[1:], ""
    if arguments and arguments[0].startswith("-"):
        return None
    return Outcome(" ".join(arguments) + end)


def _sleep(arguments: Sequence[str]) -> Outcome | None:
    times = [_TIME.fullmatch(each) for each in arguments]
    if not times:
        return None
    seconds = 0.0
    for time in times:
        if time is None:
            return None
        seconds += float(time[1]) * _SECONDS[time[2]]
    return Outcome(seconds=seconds)


def _hostname(arguments: Sequence[str], around: Surroundings) -> Outcome | None:
    return None if arguments else Outcome(_name_of(around.pod))


def _date(arguments: Sequence[str], around: Surroundings) -> Outcome | None:
    return None if arguments else Outcome(f"{around.now:%a %b %e %H:%M:%S UTC %Y}\n")


def _cat(arguments: Sequence[str], around: Surroundings) -> Outcome | None:
    if not arguments:
        return Outcome(echo=True)
    texts = [_file(path, around) for path in arguments]
    return None if None in texts else Outcome("".join(text for text in texts if text is not None))


def _ls(arguments: Sequence[str], around: Surroundings) -> Outcome | None:
    if list(arguments) != ["/"]:
        return None
    mounts = (mount["mountPath"] for mount in around.container.get("volumeMounts") or ())
    mounted = {path.split("/")[1] for path in mounts if path.startswith("/")}
    return Outcome("".join(f"{name}\n" for name in sorted({*_FOLDERS, *mounted} - {""})))


def _tar(arguments: Sequence[str], around: Surroundings) -> Outcome | None:
    """Packs one file, with its path below the root."""
    if len(arguments) != 3 or list(arguments[:2]) != ["cf", "-"]:
        return None
    text = _file(arguments[2], around)
    if text is None:
        return None
    data = text.encode()
    entry = tarfile.TarInfo(arguments[2].lstrip("/"))
    entry.size, entry.mtime = len(data), int(around.now.timestamp())
    packed = entry.tobuf() + data.ljust(-(-len(data) // _BLOCK) * _BLOCK, b"\0") + bytes(2 * _BLOCK)
    return Outcome(stdout_base64=base64.b64encode(packed).decode())


def _file(path: str, around: Surroundings) -> str | None:
    """Returns the text of a file that the kubelet writes; None for any other."""
    if path == "/etc/hostname":
        return _name_of(around.pod)
    mounts = around.container.get("volumeMounts") or ()
    if path == f"{_ACCOUNT}/namespace" and any(each["mountPath"] == _ACCOUNT for each in mounts):
        return str(around.pod["metadata"]["namespace"])
    return None


def _name_of(pod: Document) -> str:
    """Returns the hostname of a pod's containers, as a line."""
    spec = pod["spec"]
    name = spec.get("hostnameOverride") or spec.get("hostname") or pod["metadata"]["name"]
    if spec.get("hostNetwork"):
        name = spec.get("nodeName") or name
    return f"{name[:_MOST_NAME].rstrip('-.')}\n"


_OF_WORDS: dict[str, Callable[[Sequence[str]], Outcome | None]] = {
    "true": lambda _: Outcome(),
    "false": lambda _: Outcome(exit_code=1),
    "echo": _echo,
    "sleep": _sleep,
}
_OF_PODS: dict[str, Callable[[Sequence[str], Surroundings], Outcome | None]] = {
    "hostname": _hostname,
    "date": _date,
    "cat": _cat,
    "ls": _ls,
    "tar": _tar,
}
