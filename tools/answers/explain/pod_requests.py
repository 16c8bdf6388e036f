"""`berth explain --requests`: what a pod asks of a node, part by part, with the rule of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from berth.actors.scheduling.kube.core import Pod
from berth.actors.scheduling.kube.footprint import Footprint, Part, footprint
from berth.actors.scheduling.kube.gated_fields import GatedFields
from berth.actors.scheduling.kube.reading import Reader

from ...kubernetes.api.types.api_documents import key_of
from .asks.resource_shortages import quantity
from .words import amount, shown

Document = dict[str, Any]


class RequestedPart(msgspec.Struct, frozen=True):
    """A part of a pod, with its requests as quantities, and the resources for which it counts."""

    rule: str
    name: str
    requests: dict[str, str]
    counts: list[str]
    sentence: str


class PodRequests(msgspec.Struct, frozen=True):
    """What a pod asks for, in quantities as the scheduler compares them with a node; the parts that
    add up to them; and notes on some resources.
    """

    pod: str
    requests: dict[str, str]
    parts: list[RequestedPart]
    notes: list[str]


def footprint_of(pod: Document, gates: Mapping[str, bool]) -> Footprint:
    """Returns what a stored pod asks for with these gates. Raises QuantityError, and
    msgspec.ValidationError.
    """
    return footprint(GatedFields(gates).drop(Reader(Pod).convert(pod)))


def pod_requests(
    pod: Document, objects: Iterable[Document], gates: Mapping[str, bool]
) -> PodRequests:
    """Returns what a stored pod of a cluster asks for. Raises the same as `footprint_of`."""
    asked = footprint_of(pod, gates)
    requests = {name: quantity(name, number) for name, number in asked.requests.items()}
    return PodRequests(
        key_of(pod),
        requests,
        [_part(part) for part in asked.parts],
        [*_device_notes(requests, objects)],
    )


def _part(part: Part) -> RequestedPart:
    requests = {name: amount(nanos) for name, nanos in part.requests.items()}
    return RequestedPart(part.rule, part.name, requests, [*part.counts], part.sentence)


def _device_notes(requests: Mapping[str, str], objects: Iterable[Document]) -> Iterable[str]:
    """Yields a line for each extended resource that a DeviceClass serves."""
    for document in objects:
        if document.get("kind") == "DeviceClass":
            name = document["metadata"]["name"]
            served = (document.get("spec") or {}).get("extendedResourceName")
            for resource in {served, f"deviceclass.resource.kubernetes.io/{name}"} & {*requests}:
                yield (
                    f"{resource}: devices of the DeviceClass {name} serve it where a node does not"
                    " advertise it"
                )


def show_requests(asked: PodRequests, console: Console) -> None:
    """Prints a table of the parts; an amount in brackets does not count."""
    table = Table(title=shown(f"what {asked.pod} asks for"), title_justify="left")
    table.add_column("part")
    resources = sorted({name for part in asked.parts for name in part.requests} | {*asked.requests})
    for resource in resources:
        table.add_column(shown(resource), justify="right")
    for part in asked.parts:
        label = f"{part.rule} {part.name}".strip()
        table.add_row(shown(label), *(_cell(part, resource) for resource in resources))
    table.add_section()
    table.add_row("the pod", *(shown(asked.requests.get(name, "")) for name in resources))
    console.print(table)
    for rule, sentence in {part.rule: part.sentence for part in asked.parts}.items():
        console.print(shown(f"{rule}: {sentence}"), soft_wrap=True)
    for note in asked.notes:
        console.print(shown(note), soft_wrap=True)


def _cell(part: RequestedPart, resource: str) -> str:
    text = part.requests.get(resource, "")
    return shown(text if resource in part.counts or not text else f"({text})")
