"""Sends the API server odd requests: each is answered, and every accepted object can be read
afterwards.
"""

from __future__ import annotations

import copy
from base64 import b64encode
from random import Random
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from berth.tools.cluster.apiserver.app import Server
from berth.tools.cluster.apiserver.http import Response
from berth.tools.kubernetes.api.requests.media_types import (
    APPLY,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    YAML,
)
from berth.tools.kubernetes.api.requests.request import HttpRequest
from berth.tools.kubernetes.api.types.api_documents import PROTOBUF
from berth.tools.kubernetes.api.types.protobuf import MAGIC
from berth.tools.kubernetes.api.types.releases import RELEASES
from berth.tools.kubernetes.api.types.resources import KINDS, Kind
from berth.tools.kubernetes.api.types.schema import TYPES, Shape
from berth.tools.kubernetes.api.writes.registry import Api
from tests.golden.fuzz_requests import problem_of
from tests.kit.custom_kinds import definition
from tests.kit.examples import examples
from tests.kit.stores import fresh_store

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
NAMES = ("a", "b", "", "..", "A/B", "\u00e9\x00", "x" * 300, "default")
TEXTS = (
    *NAMES,
    "1",
    "-1",
    "1Gi",
    "1e999",
    "9" * 5000,
    "50%",
    "2020-13-45T99:99:99Z",
    "2020-01-01T00:00:00Z",
    "9999-12-31T23:59:59+14:00",
    "TCP",
    "In",
    "Exists",
    "Always",
    "Never",
    "NoSchedule",
    "RollingUpdate",
    "True",
    "a.b/c",
    "a=b,c",
    "\n\r",
    "\u202e",
    '"',
    "=",
    "10.0.0.1",
    "$patch",
)
NUMBERS = (0, 1, -1, 2**31, -(2**31) - 1, 2**63, 2**64, 10**30, 1.5, 1e300, 65536, True)
METHODS = {"GET": 2, "POST": 4, "PUT": 5, "PATCH": 8, "DELETE": 1, "HEAD": 0.2, "OPTIONS": 0.2}
SUBRESOURCES = ("status", "scale", "binding", "eviction", "resize", "log", "boat")
QUERY: dict[str, tuple[str, ...]] = {
    "watch": ("true", "1", "x"),
    "limit": ("1", "0", "-1", "x", "9" * 30),
    "continue": ("x", "WzEsImEiXQ==", "WzEsImEiLCJiIl0=", "\u00ff"),
    "resourceVersion": ("0", "1", "99999", "-1", "x", "\uff11", "1_0"),
    "timeoutSeconds": ("1", "9" * 30, "-1", "x"),
    "labelSelector": ("a", "a in (", "a in (b),!c", ",,", "=", "a!=b", "(" * 50),
    "fieldSelector": ("metadata.name=a", "spec.nodeName!=", "=", "a=b", "status.phase==Running"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"),
    "dryRun": ("All", "x"),
    "gracePeriodSeconds": ("0", "-5", "x"),
    "propagationPolicy": ("Orphan", "Foreground", "x"),
    "includeObject": ("Object", "None", "x"),
}
DIRECTIVES = (
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder/finalizers",
    "$deleteFromPrimitiveList/generation",
)


CONTAINERS: dict[str, Any] = {
    "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]
}
ONCE: dict[str, Any] = {**CONTAINERS, "restartPolicy": "Never"}
SELECTOR = {"matchLabels": {"a": "b"}}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": CONTAINERS}
WORKLOAD: dict[str, Any] = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
ADMISSION_RULE = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["pods"],
}
PARAMETERS = {"name": "a", "parameterNotFoundAction": "Deny"}
INVOLVED = {"kind": "Pod", "namespace": "default", "name": "a", "apiVersion": "v1"}
AUTOSCALER = {
    "spec": {
        "maxReplicas": 2,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
    }
}


def certificate_request() -> bytes:
    """Returns a request in PEM, whose signature is right."""
    request = x509.CertificateSigningRequestBuilder(x509.Name([]))
    signed = request.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


# Valid parts for the kinds with required fields, and parts that their tables and defaults
# read.
GOOD: dict[str, dict[str, Any]] = {
    "ResourceSlice": {
        "spec": {
            "driver": "d.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": "d", "attributes": {"a": {"string": "b"}}}],
        }
    },
    "DeviceTaintRule": {"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}},
    "RoleBinding": {"roleRef": ROLE},
    "ClusterRoleBinding": {"roleRef": ROLE},
    "ValidatingAdmissionPolicy": {
        "spec": {
            "matchConstraints": {"resourceRules": [ADMISSION_RULE]},
            "validations": [{"expression": "true"}],
        }
    },
    "ValidatingAdmissionPolicyBinding": {
        "spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": PARAMETERS}
    },
    "v1alpha2.ResourceClass": {"driverName": "d.com"},
    "v1alpha2.ResourceClaim": {"spec": {"resourceClassName": "c"}},
    "Pod": {
        "spec": CONTAINERS,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    },
    "Node": {
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "1"}},
    },
    "Deployment": WORKLOAD,
    "ReplicaSet": WORKLOAD,
    "StatefulSet": {"spec": {**WORKLOAD["spec"], "serviceName": "s"}},
    "DaemonSet": WORKLOAD,
    "ReplicationController": {"spec": {"selector": {"a": "b"}, "template": TEMPLATE}},
    "autoscaling.HorizontalPodAutoscaler": AUTOSCALER,
    "v2.HorizontalPodAutoscaler": AUTOSCALER,
    "ControllerRevision": {"data": {"spec": {}}, "revision": 1},
    "Job": {"spec": {"template": {"spec": ONCE}}},
    "CronJob": {
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": ONCE}}}}
    },
    "Service": {"spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/p"},
        }
    },
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "StorageClass": {"provisioner": "p"},
    "PriorityClass": {"value": 1},
    "RuntimeClass": {"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}},
    "Lease": {
        "spec": {
            "holderIdentity": "h",
            "leaseDurationSeconds": 1,
            "renewTime": "2020-01-01T00:00:00.000000Z",
        }
    },
    "Event": {"involvedObject": INVOLVED, "lastTimestamp": "2020-01-01T00:00:00Z", "count": 1},
    "events.Event": {
        "eventTime": "2020-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "r",
        "action": "a",
        "reportingController": "b.example/c",
        "reportingInstance": "i",
        "regarding": INVOLVED,
    },
    "CSINode": {"spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
    "CSIDriver": {"spec": {}},
    "CSIStorageCapacity": {"storageClassName": "s", "capacity": "1Gi"},
    "VolumeAttachment": {
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "PodTemplate": {"template": TEMPLATE},
    "VolumeAttributesClass": {"driverName": "d.com", "parameters": {"a": "b"}},
    "MutatingAdmissionPolicy": {
        "spec": {
            "matchConstraints": {"resourceRules": [ADMISSION_RULE]},
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{}"},
                }
            ],
            "reinvocationPolicy": "Never",
        }
    },
    "MutatingAdmissionPolicyBinding": {"spec": {"policyName": "p", "paramRef": PARAMETERS}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "d.com/c"}},
    "NetworkPolicy": {"spec": {"podSelector": {}}},
    "ServiceCIDR": {"spec": {"cidrs": ["10.9.0.0/16"]}},
    "IPAddress": {
        "metadata": {"name": "10.9.8.7"},
        "spec": {"parentRef": {"resource": "services", "name": "s", "namespace": "default"}},
    },
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]},
    "FlowSchema": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
    "PriorityLevelConfiguration": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    },
    "APIService": {
        "metadata": {"name": "v1.d.com"},
        "spec": {
            "group": "d.com",
            "version": "v1",
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
            "service": {"name": "s", "namespace": "default"},
            "insecureSkipTLSVerify": True,
        },
    },
    "CustomResourceDefinition": definition(),
    "CertificateSigningRequest": {
        "spec": {
            "request": b64encode(certificate_request()).decode(),
            "signerName": "d.com/s",
            "usages": ["client auth"],
        }
    },
    "ConfigMap": {"data": {"a": "b"}},
    "Secret": {"data": {"a": "YQ=="}},
}


class Odd:
    """A source of odd values and documents, most of them nearly valid."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def anything(self, depth: int = 0) -> Any:
        draw = self.rng.random()
        if draw < 0.35 or depth > 3:
            return self.rng.choice(TEXTS)
        if draw < 0.6:
            return self.rng.choice(NUMBERS)
        if draw < 0.7:
            return None
        many = range(self.rng.randrange(3))
        if draw < 0.85:
            return [self.anything(depth + 1) for _ in many]
        return {self.rng.choice(TEXTS): self.anything(depth + 1) for _ in many}

    def value(self, shape: Shape, depth: int = 0) -> Any:
        """Returns a value of the type, except for one in forty."""
        rng = self.rng
        if rng.random() < 0.025 or depth > 8:
            return self.anything()
        if shape.fields is not None:
            some = {
                key
                for key, field in shape.fields.items()
                if field.required or rng.random() < 4 / (depth + 8)
            }
            fields = {key: self.value(shape.fields[key].shape, depth + 1) for key in sorted(some)}
            return {
                **fields,
                **({rng.choice(DIRECTIVES): self.anything()} if rng.random() < 0.05 else {}),
            }
        if shape.item is not None:
            return [self.value(shape.item, depth + 1) for _ in range(rng.randrange(3))]
        if shape.values is not None:
            return {
                rng.choice(TEXTS): self.value(shape.values, depth + 1)
                for _ in range(rng.randrange(3))
            }
        match shape.name:
            case "bool":
                return rng.random() < 0.5
            case "int32" | "int64" | "float64":
                return rng.choice((0, 1, 2, -1, 80, 2**31 - 1))
            case "quantity":
                return rng.choice(("1", "100m", "1Gi", "1e999", "-1", 0, 2.5, "9" * 5000))
            case "intstr":
                return rng.choice((1, "25%", "-1%", "x", -1))
            case "time" | "microtime":
                return rng.choice(
                    (
                        "2020-01-01T00:00:00Z",
                        "2020-13-45T99:99:99Z",
                        "9999-12-31T23:59:59.999999+14:00",
                    )
                )
            case "bytes":
                return rng.choice(("", "YQ==", "=", "\u00e9"))
            case "any":
                return self.anything()
            case _:
                return rng.choice(TEXTS)

    def document(self, kind: Kind) -> Any:
        body = self.value(TYPES[kind.type_name])
        if isinstance(body, dict) and self.rng.random() < 0.9:
            body = {**body, "apiVersion": kind.api_version, "kind": kind.kind}
            metadata = body.get("metadata")
            body["metadata"] = {
                **(metadata if isinstance(metadata, dict) else {}),
                "name": self.rng.choice("ab"),
            }
            body["metadata"].pop("namespace", None)
            if self.rng.random() < 0.7:  # the part for which most of them are refused
                for field in (
                    "annotations",
                    "labels",
                    "finalizers",
                    "ownerReferences",
                    "generateName",
                    "uid",
                ):
                    body["metadata"].pop(field, None)
        return body

    def nearly_good(self, kind: Kind) -> Any:
        """Returns an object that is accepted, so that later requests meet objects, or that is
        broken in one or two places.
        """
        body = copy.deepcopy(GOOD.get(kind.type_name, {}))
        body["metadata"] = {"name": self.rng.choice("ab"), "labels": {"a": "b"}}
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self.change(body, TYPES[kind.type_name])
        return body

    def change(self, document: Any, shape: Shape) -> None:
        """Puts a value into a random place of the document."""
        rng = self.rng
        while shape.fields is not None and isinstance(document, dict):
            present = [
                key for key in document if key in shape.fields and key not in ("apiVersion", "kind")
            ]
            key = (
                rng.choice(present)
                if present and rng.random() < 0.75
                else rng.choice(sorted(shape.fields))
            )
            below = shape.fields[key].shape
            deeper = document.get(key)
            if (
                isinstance(deeper, list)
                and deeper
                and below.item is not None
                and rng.random() < 0.8
            ):
                deeper, below = rng.choice(deeper), below.item
            if not isinstance(deeper, dict) or below.fields is None or rng.random() < 0.15:
                document[key] = (
                    self.value(shape.fields[key].shape) if rng.random() < 0.9 else self.anything()
                )
                return
            document, shape = deeper, below

    def operation(self) -> Any:
        paths = (
            "/metadata",
            "/metadata/labels",
            "/spec",
            "/spec/containers/0",
            "/spec/containers/-",
            "",
            "/a/b",
            "x",
        )
        fields = {
            "op": ("add", "remove", "replace", "move", "copy", "test", "x"),
            "path": paths,
            "from": paths,
        }
        patch = {
            key: self.rng.choice(values)
            for key, values in fields.items()
            if self.rng.random() < 0.95
        }
        return {**patch, "value": self.anything()} if self.rng.random() < 0.9 else patch

    def body(self, kind: Kind, how: str) -> bytes:
        rng = self.rng
        if rng.random() < 0.1:
            return rng.choice(
                (
                    b"",
                    b"null",
                    b"[]",
                    b"1",
                    b'"x"',
                    b"{",
                    b"\xff",
                    b"{" * 2000,
                    b"[" * 2000 + b"]" * 2000,
                )
            )
        if how == JSON_PATCH:
            return msgspec.json.encode([self.operation() for _ in range(rng.randrange(4))])
        if how == PROTOBUF:
            envelope = bytes([10, 9, 10, 2]) + b"v1" + bytes([18, 3]) + b"Pod"
            return rng.choice((MAGIC, b"")) + envelope + bytes([18, 60]) + rng.randbytes(60)
        options = {
            "deleteOptions": self.anything(),
            "target": {"name": "n"},
            "spec": {"replicas": rng.choice(NUMBERS)},
        }
        document = rng.choice(
            (
                self.document(kind),
                *[self.nearly_good(kind) for _ in range(4)],
                self.anything(),
                options,
            )
        )
        try:
            raw = msgspec.json.encode(document)
        except UnicodeEncodeError:
            raw = b"{}"
        return raw if rng.random() < 0.97 else raw[: rng.randrange(len(raw) + 1)]

    def request(self, kind: Kind) -> HttpRequest:
        rng = self.rng
        (method,) = rng.choices(list(METHODS), list(METHODS.values()))
        named = rng.random() < 0.95 if method in ("PUT", "PATCH", "DELETE") else rng.random() < 0.15
        path = kind.path("default", rng.choice("aab") if named else "")
        if named and (rng.random() < 0.2 or method == "POST"):
            path += "/" + rng.choice((*SUBRESOURCES, *kind.subresources, *kind.subresources))
        if rng.random() < 0.03:
            path = path.replace("default", rng.choice(NAMES))
        names = rng.sample(sorted(QUERY), rng.choice((0, 0, 0, 1, 2)))
        query = {name: rng.choice(QUERY[name]) for name in names}
        how = rng.choice((MERGE, STRATEGIC, JSON_PATCH, APPLY)) if method == "PATCH" else JSON
        if rng.random() < 0.1:
            how = rng.choice((YAML, PROTOBUF, APPLY, "", "x"))
        headers = {
            "host": "localhost",
            "content-type": how,
            "accept": rng.choice(("", TABLE, METADATA)),
        }
        body = b"" if method in ("GET", "HEAD") else self.body(kind, how)
        return HttpRequest(method, path, query, headers, body)


def read(server: Server, path: str, accept: str = "") -> Any:
    answer = server.answer(
        HttpRequest("GET", path, {}, {"host": "localhost", "accept": accept}, b"")
    )
    assert isinstance(answer, Response)
    assert answer.status == 200, answer.body
    return msgspec.json.decode(answer.body)


@examples(0.5)
@given(st.randoms(use_true_random=False), st.sampled_from(KINDS))
def test_every_request_is_answered_and_every_object_can_be_read(rng: Random, kind: Kind) -> None:
    store = fresh_store()
    store.release = RELEASES["1.37"]
    Api(store).seed()
    Api(store).create(
        kind,
        "default" if kind.namespaced else "",
        {"metadata": {"name": "a"}, **GOOD.get(kind.type_name, {})},
    )
    server, odd = Server(store), Odd(rng)
    for _ in range(12):
        request = odd.request(kind if rng.random() < 0.8 else rng.choice(KINDS))
        answer = server.answer(request)
        if isinstance(answer, Response):
            problem = problem_of(answer.status, answer.content_type, answer.body)
            assert not problem, (request, answer)
            assert not any(
                ord(character) < 32 for warning in answer.warnings for character in warning
            )
            if answer.status != 200 or request.method != "GET":
                msgspec.json.decode(answer.body)
    for each in {each.kind: each for each, _ in store.everything()}.values():
        for item in read(server, each.path())["items"]:
            metadata = item["metadata"]
            metadata.pop("managedFields", None)  # which stand beside the document
            place = metadata.get("namespace", ""), metadata["name"]
            assert store.get(each, *place)["metadata"] == metadata
        for accept in (TABLE, METADATA):
            read(server, each.path(), accept)
