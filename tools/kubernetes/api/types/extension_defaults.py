"""Defaults of the types of the network, certificates, flows, webhooks and services of groups.

They belong to the tables of defaults.py.
"""

from __future__ import annotations

from .normal_form import Document, Rule


def _network_policy(spec: Document) -> None:
    """Applies a policy without types to what enters, and to what leaves if it has rules for it."""
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(("Egress",) if spec.get("egress") else ())]


_WEBHOOK: Document = {
    "clientConfig": {},
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}

EXTENSION_CONSTANTS: dict[str, Document] = {
    "MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "ValidatingWebhook": _WEBHOOK,
    "RuleWithOperations": {"scope": "*"},
    "ServiceReference": {"port": 443},
    "apiregistration.ServiceReference": {"port": 443},
    "APIService": {"status": {}},
    "PodTemplate": {"template": {"metadata": {}, "spec": {}}},
    "Ingress": {"status": {"loadBalancer": {}}},
    "IngressStatus": {"loadBalancer": {}},
    "IngressServiceBackend": {"port": {}},
    "HTTPIngressPath": {"backend": {}, "pathType": None},
    "IngressClassParametersReference": {"scope": "Cluster"},
    "NetworkPolicySpec": {"podSelector": {}},
    "NetworkPolicyPort": {"protocol": "TCP"},
    "ServiceCIDR": {"status": {}},
    "IPAddressSpec": {"parentRef": None},
    "EndpointSlice": {"addressType": "", "endpoints": None, "ports": None},
    "Endpoint": {"addresses": None, "conditions": {}},
    "discovery.EndpointPort": {"name": "", "protocol": "TCP"},
    "CertificateSigningRequest": {"status": {}},
    "CertificateSigningRequestSpec": {"request": None, "signerName": ""},
    "FlowSchema": {"status": {}},
    "FlowSchemaSpec": {"matchingPrecedence": 1000, "priorityLevelConfiguration": {"name": ""}},
    "ResourcePolicyRule": {"namespaces": None},
    "PriorityLevelConfiguration": {"status": {}},
    "ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "LimitedPriorityLevelConfiguration": {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
        "limitResponse": {"type": ""},
    },
    "QueuingConfiguration": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
}
EXTENSION_RULES: dict[str, Rule] = {"NetworkPolicySpec": _network_policy}
