"""What policies and their bindings refuse and warn of, and with what message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.tools.kubernetes.api.access.users import ADMINISTRATOR, NODE_NAME, Requester
from berth.tools.kubernetes.api.policies import policy_evaluation
from berth.tools.kubernetes.api.policies.policy_writes import BINDINGS, POLICIES
from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.caller import Caller
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

MAPS, PODS, NODES = (BY_KIND["v1", kind] for kind in ("ConfigMap", "Pod", "Node"))
RULE: Document = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["*"],
    "resources": ["configmaps"],
}
WHO = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request"
DENIED = f'configmaps "m" is forbidden: {WHO}: '
NO_PARAMETERS = (
    "failed to configure binding: no params found for policy binding with "
    "`Deny` parameterNotFoundAction"
)


class Cluster:
    """A store with one policy and one binding."""

    def __init__(self, validations: list[Document], **spec: Any) -> None:
        self.store = fresh_store()
        api = Api(self.store)
        api.seed()
        binding = spec.pop("binding", {})
        rule = {**RULE, **spec.pop("rule", {})}
        policy = {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": validations,
            **spec,
        }
        api.create(POLICIES, "", {"metadata": {"name": "p"}, "spec": policy})
        bound = {"policyName": "p", "validationActions": ["Deny"], **binding}
        api.create(BINDINGS, "", {"metadata": {"name": "b"}, "spec": bound})

    def api(self, user: Requester = ADMINISTRATOR) -> Api:
        return Api(self.store, caller=Caller(user, "update"))

    def create(self, user: Requester = ADMINISTRATOR, **data: str) -> str:
        """Creates a ConfigMap; returns the message of the refusal, if any."""
        document = {"metadata": {"name": "m"}, **({"data": data} if data else {})}
        try:
            self.api(user).create(MAPS, "default", document)
        except RefusedError as refused:
            return str(refused)
        return ""


def valid(expression: str, **more: str) -> list[Document]:
    return [{"expression": expression, **more}]


def test_a_write_that_fails_a_validation_is_refused() -> None:
    cluster = Cluster(valid("has(object.data) && object.data.size() < 2"))
    assert cluster.create(a="1", b="2") == (
        f"{DENIED}failed expression: has(object.data) && object.data.size() < 2"
    )
    assert cluster.store.find(MAPS, "default", "m") is None
    assert cluster.create(a="1") == ""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"message": " too much "}, "too much"),
        ({"message": "no", "messageExpression": "'not ' + object.metadata.name"}, "not m"),
        ({"message": "no", "messageExpression": "object.nothing + ''"}, "no"),
        ({"message": "no", "messageExpression": "'a\\nb'"}, "no"),
        ({"messageExpression": "'  '"}, "failed expression: false"),
    ],
)
def test_the_message_is_that_of_the_expression_or_the_text(
    more: dict[str, str], message: str
) -> None:
    assert Cluster(valid("false", **more)).create() == DENIED + message


@pytest.mark.parametrize(
    ("reason", "code"), [(None, 422), ("Forbidden", 403), ("RequestEntityTooLarge", 413)]
)
def test_the_reason_is_that_of_the_validation(reason: str | None, code: int) -> None:
    cluster = Cluster(valid("false", **({"reason": reason} if reason else {})))
    with pytest.raises(RefusedError) as refused:
        cluster.api().create(MAPS, "default", {"metadata": {"name": "m"}})
    assert (refused.value.code, refused.value.reason) == (code, reason or "Invalid")
    details = refused.value.details or {}
    assert (details["name"], details["kind"]) == ("m", "configmaps")
    assert details["causes"] == [{"message": f"{WHO}: failed expression: false"}]


@pytest.mark.parametrize(
    ("actions", "refused", "warned"),
    [(["Deny"], True, False), (["Warn"], False, True), (["Audit"], False, False)],
)
def test_a_binding_says_what_a_failure_does(
    actions: list[str], refused: bool, warned: bool
) -> None:
    cluster = Cluster(valid("false", message="no"), binding={"validationActions": actions})
    api = cluster.api()
    try:
        api.create(MAPS, "default", {"metadata": {"name": "m"}})
    except RefusedError:
        assert refused
        return
    assert not refused
    warning = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"
    assert api.warnings == ([warning] if warned else [])


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ("Fail", f"{DENIED}expression 'object.a.b == 1' resulted in error: no such key: a"),
        ("Ignore", ""),
    ],
)
def test_an_error_counts_as_the_failure_policy_says(policy: str, refused: str) -> None:
    cluster = Cluster(valid("object.a.b == 1"), failurePolicy=policy)
    assert cluster.create() == refused


def test_match_conditions_skip_a_policy_and_their_errors_count() -> None:
    conditions = [
        {"name": "error", "expression": "object.data.x == 'y'"},
        {"name": "user", "expression": "request.userInfo.username != 'ann'"},
    ]
    cluster = Cluster(valid("false", message="no"), matchConditions=conditions)
    assert cluster.create(x="y") == f"{DENIED}no"
    assert "resulted in error: no such key: data" in cluster.create()
    assert cluster.create(Requester("ann")) == ""


def test_variables_are_evaluated_when_they_are_read_and_may_use_others() -> None:
    variables = [
        {"name": "count", "expression": "object.data.size()"},
        {"name": "twice", "expression": "variables.count * 2"},
    ]
    checks = [*valid("!has(object.data) || variables.twice < 4"), *valid("true")]
    cluster = Cluster(checks, variables=variables)
    assert cluster.create(a="1", b="2").startswith(DENIED)
    assert cluster.create() == ""
    broken = Cluster(valid("variables.twice < 4"), variables=variables)
    assert broken.create() == (
        f"{DENIED}expression 'variables.twice < 4' resulted in error: composited variable "
        '"twice" fails to evaluate: composited variable "count" fails to evaluate: '
        "no such key: data"
    )


def test_a_policy_may_know_where_a_user_runs() -> None:
    variables = [
        {
            "name": "node",
            "expression": f"request.userInfo.extra[?'{NODE_NAME}'][0].orValue('')",
        },
        {
            "name": "target",
            "expression": "(request.operation == 'DELETE' ? oldObject : object)"
            ".data.?node.orValue('')",
        },
    ]
    checks = valid(
        "variables.node == variables.target",
        messageExpression='"on \'"+variables.node+"\' not \'"+variables.target+"\'"',
    )
    condition = [{"name": "c", "expression": "request.userInfo.username == 'robot'"}]
    cluster = Cluster(checks, variables=variables, matchConditions=condition)
    here, there = (Requester("robot", extra={NODE_NAME: [node]}) for node in ("n1", "n2"))
    assert cluster.create(there, node="n1") == f"{DENIED}on 'n2' not 'n1'"
    assert cluster.create(here, node="n1") == ""
    with pytest.raises(RefusedError, match="on 'n2' not 'n1'"):
        cluster.api(there).delete(MAPS, "default", "m", DeleteOptions())
    cluster.api(here).delete(MAPS, "default", "m", DeleteOptions())


PARAMETERS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}


@pytest.mark.parametrize(
    ("reference", "outcome"),
    [
        ({"name": "limit"}, "too big"),
        ({"selector": {"matchLabels": {"use": "limit"}}}, "too big"),
        ({"name": "limit", "namespace": "kube-system"}, ""),
        ({"name": "none"}, NO_PARAMETERS),
        ({"name": "none", "parameterNotFoundAction": "Allow"}, ""),
    ],
)
def test_parameters_are_other_objects(reference: Document, outcome: str) -> None:
    whole = {"parameterNotFoundAction": "Deny", **reference}
    cluster = Cluster(
        valid("object.data.size() <= int(params.data.most)", message="too big"),
        **PARAMETERS,
        binding={"paramRef": whole},
    )
    for namespace, most in (("default", "1"), ("kube-system", "5")):
        metadata = {"name": "limit", "labels": {"use": "limit"}}
        document = {"metadata": metadata, "data": {"most": most}}
        Api(cluster.store).create(MAPS, namespace, document)
    assert cluster.create(a="1", b="2") == (DENIED + outcome if outcome else "")


def test_a_policy_without_a_reference_to_its_parameter_sees_none() -> None:
    assert Cluster(valid("params == null"), **PARAMETERS).create() == ""


def test_parameters_of_a_kind_that_is_not_served_are_an_error() -> None:
    unknown = {"paramKind": {"apiVersion": "x.io/v1", "kind": "Limit"}}
    reference = {"paramRef": {"name": "a", "parameterNotFoundAction": "Deny"}}
    message = Cluster(valid("true"), **unknown, binding=reference).create()
    assert "failed to find resource referenced by paramKind" in message


def test_a_binding_may_narrow_its_policy() -> None:
    narrow = {"matchResources": {"namespaceSelector": {"matchLabels": {"tier": "test"}}}}
    assert Cluster(valid("false"), binding=narrow).create() == ""
    assert Cluster(valid("false"), binding={"policyName": "other"}).create() == ""


def test_an_annotation_that_fails_refuses_the_write() -> None:
    annotation = [{"key": "k", "valueExpression": "string(object.data.x)"}]
    cluster = Cluster([], auditAnnotations=annotation)
    assert "resulted in error: no such key: data" in cluster.create()
    assert cluster.create(x="y") == ""


def test_every_kind_of_write_is_judged() -> None:
    what = "request.operation + ' ' + request.?subResource.orValue('')"
    checks = valid("request.userInfo.username == 'ann'", messageExpression=what)
    cluster = Cluster(checks, rule={"resources": ["*/*"]})
    ann = Requester("ann")
    api = cluster.api(ann)
    api.create(NODES, "", {"metadata": {"name": "n1"}})
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"metadata": {"name": "m"}, "spec": spec}
    pod["spec"] = api.create(PODS, "default", pod).document["spec"]
    other = cluster.api()
    binding = {"target": {"name": "n1"}}
    named: Document = {"metadata": {"name": "m"}, "status": {}}
    attempts: dict[str, Callable[[], object]] = {
        "CREATE": lambda: other.create(PODS, "default", {**pod, "metadata": {"name": "x"}}),
        "UPDATE": lambda: other.update(
            PODS, "default", "m", {**pod, "metadata": {"name": "m", "labels": {"a": "b"}}}, ""
        ),
        "UPDATE status": lambda: other.update(PODS, "default", "m", named, "status"),
        "CREATE binding": lambda: other.bind("default", "m", binding),
        "CREATE eviction": lambda: other.evict("default", "m", {"metadata": {"name": "m"}}),
        "DELETE": lambda: other.delete(PODS, "default", "m", DeleteOptions()),
    }
    before = cluster.store.revision
    for expected, attempt in attempts.items():
        with pytest.raises(RefusedError, match="denied request") as refused:
            attempt()
        assert str(refused.value).endswith(f"denied request: {expected}")
    assert cluster.store.revision == before
    api.bind("default", "m", binding)


def test_a_scale_is_a_write_of_its_own() -> None:
    rule = {"apiGroups": ["apps"], "resources": ["deployments/scale"]}
    cluster = Cluster(valid("object.spec.replicas <= 3 && oldObject.spec.replicas == 1"), rule=rule)
    deployments = BY_KIND["apps/v1", "Deployment"]
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    api, named = cluster.api(), {"metadata": {"name": "web"}}
    api.create(deployments, "default", {**named, "spec": spec})
    with pytest.raises(RefusedError, match=r'deployments.apps "web" is forbidden'):
        api.rescale(deployments, "default", "web", {**named, "spec": {"replicas": 4}})
    api.rescale(deployments, "default", "web", {**named, "spec": {"replicas": 3}})
    assert api.scale_of(deployments, "default", "web")["spec"] == {"replicas": 3}


def test_policies_do_not_judge_themselves_nor_what_the_server_does() -> None:
    everything = {"apiGroups": ["*"], "resources": ["*"]}
    cluster = Cluster(valid("false"), rule=everything)
    cluster.api().delete(BINDINGS, "", "b", DeleteOptions())
    assert cluster.create() == ""


def test_the_contents_of_a_namespace_go_with_it() -> None:
    cluster = Cluster(valid("request.operation != 'DELETE'"))
    namespaces = BY_KIND["v1", "Namespace"]
    api = cluster.api()
    api.create(namespaces, "", {"metadata": {"name": "lab"}})
    api.create(MAPS, "lab", {"metadata": {"name": "m"}})
    with pytest.raises(RefusedError, match="denied request"):
        api.delete(MAPS, "lab", "m", DeleteOptions())
    api.delete(namespaces, "", "lab", DeleteOptions())
    list(api.end_contents("lab"))
    assert cluster.store.find(MAPS, "lab", "m") is None


def test_the_evaluations_of_a_policy_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_evaluation, "MOST_WORK", 100)
    loop = valid("[1, 2, 3, 4].all(number, number > 0)")
    assert Cluster(loop).create() == ""
    assert "running out of cost budget" in Cluster(loop * 20).create()


@pytest.mark.full("long")
def test_evaluations_that_take_too_much_end() -> None:
    numbers = [{"name": "numbers", "expression": str(list(range(60)))}]
    loop = "variables.numbers.all(a, variables.numbers.all(b, a + b >= 0))"
    cluster = Cluster(valid(loop) * 100, variables=numbers)
    assert "running out of cost budget" in cluster.create()
