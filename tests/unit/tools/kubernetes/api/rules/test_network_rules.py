"""Ingresses, network policies, slices of endpoints and service addresses: for each rule an object
that breaks only this rule.
"""

from __future__ import annotations

import pytest

from berth.tools.kubernetes.api.rules.validation import problems, status_problems
from tests.kit.cases import documents
from tests.kit.documents import Document

VALID = documents("""
Ingress => spec: {defaultBackend: {service: {name: a, port: {number: 80}}}} => -
Ingress => spec: {rules: [{host: '*.a.b', http: {paths: [{path: /x, pathType: Prefix, backend:
    {resource: {kind: Bucket, name: b}}}]}}], tls: [{hosts: ['*.a.b'], secretName: s}]} => -
IngressClass => spec: {controller: a.b/c, parameters: {kind: K, name: n, scope: Cluster}} => -
NetworkPolicy => spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr:
    10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: 80, endPort: 90, protocol: TCP}]}]} => -
ServiceCIDR => spec: {cidrs: [10.0.0.0/16, 'fd00::/64']} => -
EndpointSlice => {addressType: IPv4, endpoints: [{addresses: [10.0.0.1], nodeName: n}], ports:
    [{name: '', port: 80, protocol: TCP}]} => -
EndpointSlice => {addressType: FQDN, endpoints: [{addresses: [a.b]}]} => -
VolumeAttributesClass => {driverName: a.b, parameters: {a: b}} => -
PodTemplate => template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i,
    terminationMessagePolicy: File, imagePullPolicy: Always}], restartPolicy: Always, dnsPolicy:
    Default}} => -
""")
BROKEN = documents("""
Ingress => spec: {} => spec: Invalid value: null: either `defaultBackend` or `rules` must be
    specified
Ingress => spec: {defaultBackend: {}} => spec.defaultBackend: Invalid value: "": resource or service
    backend is required
Ingress => spec: {defaultBackend: {service: {name: a, port: {}}}} => spec.defaultBackend: Required
    value: port name or number is required
Ingress => spec: {defaultBackend: {service: {name: a, port: {number: 1, name: b}}}} =>
    spec.defaultBackend: Invalid value: "": cannot set both port name & port number
Ingress => spec: {defaultBackend: {service: {port: {number: 1}}}} =>
    spec.defaultBackend.service.name: Required value
Ingress => spec: {rules: [{host: 10.0.0.1}]} => spec.rules[0].host: Invalid value: "10.0.0.1": must
    be a DNS name, not an IP address
Ingress => spec: {rules: [{http: {paths: []}}]} => spec.rules[0].http.paths: Required value
Ingress => spec: {rules: [{http: {paths: [{backend: {service: {name: a, port: {number: 1}}}}]}}]} =>
    spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified
Ingress => spec: {rules: [{http: {paths: [{pathType: Exact, path: x, backend: {service: {name: a,
    port: {number: 1}}}}]}}]} => spec.rules[0].http.paths[0].path: Invalid value: "x": must be an
    absolute path
Ingress => spec: {rules: [{http: {paths: [{pathType: Exact, path: //, backend: {service: {name: a,
    port: {number: 1}}}}]}}]} => spec.rules[0].http.paths[0].path: Invalid value: "//": must not
    contain '//'
IngressClass => spec: {} => spec.controller: Required value
IngressClass => spec: {controller: a.b/c, parameters: {kind: K, name: n, scope: Namespace}} =>
    spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'
IngressClass => spec: {controller: a.b/c, parameters: {kind: K, name: n/n, scope: Cluster}} =>
    spec.parameters.name: Invalid value: "n/n": may not contain '/'
NetworkPolicy => spec: {policyTypes: [Sideways]} => spec.policyTypes[0]: Unsupported value:
    "Sideways": supported values: "Ingress", "Egress"
NetworkPolicy => spec: {ingress: [{from: [{}]}]} => spec.ingress[0].from[0]: Required value: must
    specify a peer
NetworkPolicy => spec: {egress: [{to: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]} =>
    spec.egress[0].to[0]: Forbidden: may not specify both ipBlock and another peer
NetworkPolicy => spec: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]} =>
    spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of
    `cidr`
NetworkPolicy => spec: {egress: [{ports: [{port: 9, endPort: 8}]}]} =>
    spec.egress[0].ports[0].endPort: Invalid value: 9: must be greater than or equal to `port`
NetworkPolicy => spec: {egress: [{ports: [{port: a, endPort: 8}]}]} =>
    spec.egress[0].ports[0].endPort: Invalid value: 8: may not be specified when `port` is
    non-numeric
NetworkPolicy => spec: {egress: [{ports: [{endPort: 8}]}]} => spec.egress[0].ports[0].endPort:
    Invalid value: 8: may not be specified when `port` is not specified
ServiceCIDR => spec: {cidrs: []} => spec.cidrs: Required value: at least one CIDR required
ServiceCIDR => spec: {cidrs: [10.0.0.0/16, 10.1.0.0/16]} => spec.cidrs: Invalid value:
    ["10.0.0.0/16","10.1.0.0/16"]: may specify no more than one IP for each IP family, i.e
    192.168.0.0/24 and 2001:db8::/64
IPAddress => spec: {parentRef: {resource: services, name: n}} => metadata.name: Invalid value: "it":
    must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
EndpointSlice => {endpoints: []} => addressType: Required value
EndpointSlice => {addressType: IPv4, endpoints: [{addresses: []}]} => endpoints[0].addresses:
    Required value: must contain at least 1 address
EndpointSlice => {addressType: IPv4, endpoints: [{addresses: ['fd00::1']}]} =>
    endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address
EndpointSlice => {addressType: IPv6, endpoints: [{addresses: ['::1']}]} =>
    endpoints[0].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8,
    ::1/128)
EndpointSlice => {addressType: FQDN, endpoints: [{addresses: [a]}]} => endpoints[0].addresses[0]:
    Invalid value: "a": should be a domain with at least two segments separated by dots
EndpointSlice => {addressType: IPv4, ports: [{name: a}, {name: a}]} => ports[1].name: Duplicate
    value: "a"
EndpointSlice => {addressType: IPv4, endpoints: [{addresses: [10.0.0.1], hints: {forZones: [{name:
    a}, {name: a}]}}]} => endpoints[0].hints.forZones[1].name: Duplicate value: "a"
VolumeAttributesClass => {driverName: ''} => driverName: Required value
PodTemplate => {} => template.spec.containers: Required value
""")


def named(document: Document, name: str = "it") -> Document:
    return {"metadata": {"name": name}, **document}


@pytest.mark.parametrize(("kind", "document", "_"), VALID)
def test_a_valid_object(kind: str, document: Document, _: str) -> None:
    assert problems(kind, named(document)) == []


@pytest.mark.parametrize(("kind", "document", "problem"), BROKEN)
def test_an_object_with_one_thing_wrong(kind: str, document: Document, problem: str) -> None:
    assert problem in problems(kind, named(document))


@pytest.mark.parametrize(
    ("kind", "before", "after", "problem"),
    [
        (
            "IngressClass",
            {"spec": {"controller": "a.b/c"}},
            {"spec": {"controller": "a.b/d"}},
            'spec.controller: Invalid value: "a.b/d": field is immutable',
        ),
        (
            "ServiceCIDR",
            {"spec": {"cidrs": ["10.0.0.0/16"]}},
            {"spec": {"cidrs": ["10.1.0.0/16"]}},
            'spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable',
        ),
        (
            "EndpointSlice",
            {"addressType": "IPv4"},
            {"addressType": "IPv6"},
            'addressType: Invalid value: "IPv6": field is immutable',
        ),
    ],
)
def test_a_field_that_an_update_keeps(
    kind: str, before: Document, after: Document, problem: str
) -> None:
    assert problems(kind, named(after), named(before)) == [problem]


def test_a_service_range_may_get_a_second_family() -> None:
    before, after = ({"spec": {"cidrs": ranges}} for ranges in (["10.0.0.0/16"], ["10.0.0.0/16"]))
    after["spec"]["cidrs"] = ["10.0.0.0/16", "fd00::/64"]
    assert problems("ServiceCIDR", named(after), named(before)) == []


def test_an_address_of_an_ingress_is_an_address() -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "x"}, {"hostname": "10.0.0.1"}]}}
    assert status_problems("Ingress", named({"status": status}), named({})) == [
        (
            'status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, '
            "(e.g. 10.9.8.7 or 2001:db8::ffff)"
        ),
        (
            'status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS '
            "name, not an IP address"
        ),
    ]


def test_the_class_of_an_ingress_is_told_once() -> None:
    annotations = {"kubernetes.io/ingress.class": "a"}
    backend = {"service": {"name": "s", "port": {"number": 1}}}
    document = {
        "metadata": {"name": "it", "annotations": annotations},
        "spec": {"ingressClassName": "b", "defaultBackend": backend},
    }
    assert problems("Ingress", document) == [
        (
            'annotations.kubernetes.io/ingress.class: Invalid value: "a": must match '
            "`ingressClassName` when both are specified"
        )
    ]
