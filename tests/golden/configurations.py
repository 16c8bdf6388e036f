"""Configurations, good and bad, with what the real kube-scheduler answered to each.

The cases are in data/configurations.yaml, each with feature gates and the text below apiVersion and
kind. The answers are recorded by `python -m tests.golden.record_configurations KUBE_SCHEDULER`,
which runs `kube-scheduler --config FILE --write-config-to OUT --secure-port=0`, without a cluster.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import msgspec
import yaml

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CASES = Path(__file__).parent / "data" / "configurations.yaml"
ANSWERS = Path(__file__).parent / "data" / "configurations.jsonl.gz"


class Case(msgspec.Struct, frozen=True):
    """A configuration. `stricter` says why berth refuses one that kube-scheduler accepts, `looser`
    why it accepts one that kube-scheduler refuses.
    """

    text: str
    gates: str = ""
    stricter: str = ""
    looser: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What kube-scheduler wrote, or its last line if it refused the file."""

    written: dict[str, Any] | None
    refusal: str = ""


def cases() -> list[Case]:
    return msgspec.convert(yaml.safe_load(CASES.read_text()), list[Case])


def answers() -> list[Answer]:
    with gzip.open(ANSWERS, "rb") as lines:
        return [msgspec.json.decode(line, type=Answer) for line in lines]
