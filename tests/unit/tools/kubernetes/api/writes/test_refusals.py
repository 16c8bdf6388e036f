"""What the API server says of borderline objects, as kube-apiserver 1.36.2 has said it.

Each line of refusals.jsonl has an object, most with one wrong field, and the answer of a real
kube-apiserver to its creation, or to a merge patch, its `change`: `accepted`, or the code and the
message of the refusal. Where berth says something else, `berth` is its own answer, of which the
code and the fields are compared.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.media_types import MERGE
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.stores import fresh_store

MOST_OTHERWISE = 1
SEEDED = fresh_store()
Api(SEEDED).seed()
SEEDED.plugins -= {"ServiceAccount"}  # as on the server of the answers: a pod may name any account
RECORDED = Path(__file__).with_name("refusals.jsonl")
UID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NEXT = re.compile(r", (?=[\w.\[\]{} /-]+: (?:Req|Inv|Unsup|Dup|Not f|Too|Forb))")
PREFIX = re.compile(r"^\S+ \"[^\"]*\" is invalid: ")


def recorded() -> dict[str, list[dict[str, Any]]]:
    of_kind = defaultdict(list)
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        of_kind[each["object"]["kind"]].append(each)
    return of_kind


ANSWERS = recorded()


def answer(document: dict[str, Any], change: dict[str, Any] | None = None) -> str:
    api = Api(SEEDED.fork())
    kind = BY_KIND[document["apiVersion"], document["kind"]]
    namespace = "default" if kind.namespaced else ""
    try:
        api.create(kind, namespace, document)
        if change is not None:
            api.patch(kind, namespace, document["metadata"]["name"], change, MERGE, "")
    except RefusedError as refused:
        return f"{refused.code} {PREFIX.sub('', str(refused))}"
    return "accepted"


def problems(text: str) -> list[str]:
    """Returns the parts of an answer in an order of their own."""
    code, _, message = UID.sub("UID", text).partition(" ")
    several = message.startswith("[") and message.endswith("]")
    return [code, *sorted(NEXT.split(message[1:-1]) if several else [message])]


def fields(text: str) -> list[str]:
    """Returns the code and the fields of an answer; values may have parts that are not equal."""
    return [problem.partition(": ")[0] for problem in problems(text)]


@pytest.mark.parametrize("kind", ANSWERS)
def test_it_says_what_kubernetes_says(kind: str) -> None:
    differ = []
    for each in ANSWERS[kind]:
        said = answer(each["object"], each.get("change"))
        if problems(said) == problems(each["kubernetes"]):
            continue
        if "berth" not in each or fields(said) != fields(each["berth"]):
            differ.append((each, said))
    assert differ == []


def test_it_accepts_what_kubernetes_accepts_but_for_few() -> None:
    every = [each for of_kind in ANSWERS.values() for each in of_kind]
    accepts = [(each["kubernetes"] == "accepted", each) for each in every]
    otherwise = [
        each["object"]
        for accepted, each in accepts
        if "berth" in each and (each["berth"] == "accepted") != accepted
    ]
    assert len(every) > 900
    assert len(otherwise) <= MOST_OTHERWISE, otherwise
