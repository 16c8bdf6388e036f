"""Suggestions to guard a device selector: to let it ask first for the attribute that it reads and
that some devices lack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from berth.actors.scheduling.cel import CelError, selector
from berth.actors.scheduling.cel.errors import CompileError
from berth.actors.scheduling.cel.parser import parse
from berth.actors.scheduling.cel.tree import Call, Comprehension, Ident, Literal, Select, TreeNode
from berth.actors.scheduling.kube.devices import Device, ResourceSlice

from .change import ProposedChange, Who
from .edit import Document, Edit, patch_of, put
from .kind_of_change import Way
from .world import World

Path = tuple[str | int, ...]
PARTS = ("attributes", "capacity")


class _Selector(msgspec.Struct, frozen=True):
    """A selector of a claim of the pod, or of a device class that it names. `path` leads to its
    expression, `name` describes it in words.
    """

    name: str
    document: Document
    path: Path
    expression: str


def changes(world: World) -> Iterator[ProposedChange]:
    """Yields one change for all selectors that fail; none if one of them fails even with a
    guard.
    """
    devices = [
        (each.spec.driver, device)
        for each in world.objects(ResourceSlice)
        for device in each.spec.devices
    ]
    edits, parts, lists = list[Edit](), list[str](), world.gates["ListAttributesInSelectors"]
    for each in _selectors(world):
        failing = _failing(each.expression, devices, lists=lists)
        if failing is None:
            continue
        guarded = _guarded(each.expression, devices, lists=lists)
        if guarded is None:
            return
        guards, expression = guarded
        parts.append(f"{each.name} begin with {guards} && (it fails on the device {failing})")
        edits.append(patch_of(each.document, put(expression, *each.path)))
    if edits:
        of_class = any(edit.kind == "DeviceClass" for edit in edits)
        who, size = (Who.ADMIN, 0.2) if of_class else (Who.OWNER, 0.1)
        yield ProposedChange(
            "deviceSelector", who, size, f"Let {' and '.join(parts)}", tuple(edits)
        )


def _failing(expression: str, devices: Sequence[tuple[str, Device]], *, lists: bool) -> str | None:
    """Returns the first device on which an expression fails; None if it fails on none. `lists`
    tells whether attributes may be lists.
    """
    compiled = selector(expression, lists=lists)
    for driver, device in devices:
        try:
            compiled.matches(driver, device)
        except CelError:
            return device.name
    return None


def _guarded(
    expression: str, devices: Sequence[tuple[str, Device]], *, lists: bool
) -> tuple[str, str] | None:
    """Returns the questions whether a device has what an expression reads, and the expression
    behind them; None if it fails even then. A single question is tried before all of them.
    """
    try:
        reads = list(dict.fromkeys(_members_read(parse(expression))))
    except CompileError:
        return None
    for paths in (*([path] for path in reads), reads):
        guards = " && ".join(f"has({path})" for path in paths)
        guarded = f"{guards} && ({expression})"
        if guards and _failing(guarded, devices, lists=lists) is None:
            return guards, guarded
    return None


def _members_read(whole: TreeNode) -> Iterator[str]:
    """Yields the attributes and capacities of a device that an expression reads."""
    stack, bound = [whole], dict[str, TreeNode]()
    while stack:
        node = stack.pop()
        if isinstance(node, Comprehension) and node.binds:
            bound[node.accumulator] = node.init
        domain, name = _member(node)
        if isinstance(domain, Ident):
            domain = bound.get(domain.name, domain)
        part, of = _member(domain)
        device, kind = _member(part)
        if kind in PARTS and isinstance(device, Ident) and device.name == "device" and of:
            yield f'device.{kind}["{of}"].{name}'
        stack += reversed(node.children)


def _member(node: TreeNode | None) -> tuple[TreeNode | None, str]:
    """Returns the object and the name in a read of a member: `object.name` or `object["name"]`."""
    match node:
        case Select(operand=operand, field=field, test=False):
            return operand, field
        case Call(function="_[_]", args=[operand, Literal(value=str(name))]):
            return operand, name
        case _:
            return None, ""


def _selectors(world: World) -> Iterator[_Selector]:
    """Yields the selectors of the pod's claims, and those of their classes and of the classes that
    stand for extended resources of the pod.
    """
    classes: dict[str, None] = {}
    for claim, path, name, request in requests_of(world):
        classes[request.get("deviceClassName") or ""] = None
        where = f"request {name} of the claim {claim['metadata']['name']}"
        yield from _selectors_of(where, claim, path, request)
    wanted = world.info.template.spec_requests.keys()
    for each in world.every("DeviceClass"):
        spec, name = each.get("spec") or {}, each["metadata"]["name"]
        if name in classes or spec.get("extendedResourceName") in wanted:
            yield from _selectors_of(f"the class {name}", each, ("spec",), spec)


def requests_of(world: World) -> Iterator[tuple[Document, Path, str, Document]]:
    """Yields the requests and sub-requests of the pod's claims: the claim, the path to the request,
    its name, and the request itself.
    """
    metadata, status = world.pod["metadata"], world.pod.get("status") or {}
    entries = [
        *(world.pod["spec"].get("resourceClaims") or ()),
        *(status.get("resourceClaimStatuses") or ()),
    ]
    namespace = metadata.get("namespace") or ""
    for name in dict.fromkeys(entry.get("resourceClaimName") or "" for entry in entries):
        claim = world.document("ResourceClaim", name, namespace)
        if claim is not None:
            for path, of, request in _requests(claim):
                yield claim, path, of, request


def _requests(claim: Document) -> Iterator[tuple[Path, str, Document]]:
    """Yields the requests and sub-requests of a claim, each with the path to it and its name."""
    devices = (claim.get("spec") or {}).get("devices") or {}
    for number, request in enumerate(devices.get("requests") or ()):
        path: Path = ("spec", "devices", "requests", number)
        if request.get("exactly"):
            yield (*path, "exactly"), request["name"], request["exactly"]
        for place, sub_request in enumerate(request.get("firstAvailable") or ()):
            name = f"{request['name']}/{sub_request['name']}"
            yield (*path, "firstAvailable", place), name, sub_request


def _selectors_of(
    where: str, document: Document, path: Path, owner: Document
) -> Iterator[_Selector]:
    for number, each in enumerate(owner.get("selectors") or ()):
        expression = (each.get("cel") or {}).get("expression")
        if expression:
            place = (*path, "selectors", number, "cel", "expression")
            yield _Selector(f"selector #{number} of {where}", document, place, expression)


WAY = Way(changes)
