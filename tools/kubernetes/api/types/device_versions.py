"""The two forms of devices and claims for them: v1, in which they are stored, and v1beta1.

In v1beta1 the fields of a request for exact devices are its own, and those of a device are below
`basic`. v1beta2 has the form of v1.
"""

from __future__ import annotations

from collections.abc import Callable

from .api_documents import Document

Convert = Callable[[Document], Document]
_NAMED = ("name", "firstAvailable")


def as_devices_v1(document: Document) -> Document:
    """Returns the v1 form of an object in the form of v1beta1."""
    return _converted(document, _exact_request, _flat_device)


def as_devices_v1beta1(document: Document) -> Document:
    """Returns the v1beta1 form of an object in the form of v1."""
    return _converted(document, _flat_request, _basic_device)


def _exact_request(request: Document) -> Document:
    exact = {key: value for key, value in request.items() if key not in _NAMED}
    named = {key: value for key, value in request.items() if key in _NAMED}
    return {**named, "exactly": exact} if exact else named


def _flat_request(request: Document) -> Document:
    exact = request.get("exactly") or {}
    return {**{key: value for key, value in request.items() if key != "exactly"}, **exact}


def _flat_device(device: Document) -> Document:
    basic = device.get("basic") or {}
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}


def _basic_device(device: Document) -> Document:
    basic = {key: value for key, value in device.items() if key != "name"}
    return {"name": device.get("name", ""), "basic": basic}


def _converted(document: Document, request: Convert, device: Convert) -> Document:
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return document
    match document.get("kind"):
        case "ResourceClaim":
            return {**document, "spec": _claim(spec, request)}
        case "ResourceClaimTemplate":
            inner = _claim(spec.get("spec") or {}, request)
            return {**document, "spec": {**spec, "spec": inner}}
        case "ResourceSlice" if spec.get("devices"):
            devices = [device(each) for each in spec["devices"]]
            return {**document, "spec": {**spec, "devices": devices}}
        case _:
            return document


def _claim(spec: Document, request: Convert) -> Document:
    devices = spec.get("devices") or {}
    if not devices.get("requests"):
        return spec
    requests = [request(each) for each in devices["requests"]]
    return {**spec, "devices": {**devices, "requests": requests}}
