"""Conditions and rules that Kubernetes' own controllers add to what somebody writes."""

from __future__ import annotations

from functools import partial

from berth.tools.kubernetes.api.types.resources import BY_KIND
from berth.tools.kubernetes.api.writes.first_configuration import (
    API_SERVICES,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
    ROLES,
    SETTLED,
    write_configuration,
)
from berth.tools.kubernetes.api.writes.registry import Api
from berth.tools.kubernetes.api.writes.settled_objects import settle
from tests.kit.call_counts import calls_of
from tests.kit.documents import Document
from tests.kit.stores import fresh_store

SERVICES = BY_KIND["v1", "Service"]


def condition(document: Document) -> list[str]:
    (told,) = document["status"]["conditions"]
    return [told[field] for field in ("type", "status", "reason", "message")]


def test_a_flow_schema_dangles_until_its_priority_level_is_there(api: Api) -> None:
    spec = {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 9}
    api.create(FLOW_SCHEMAS, "", {"metadata": {"name": "f"}, "spec": spec})
    settle(api.store, FLOW_SCHEMAS)
    start = 'This FlowSchema references the PriorityLevelConfiguration object named "mine" '
    assert condition(api.store.get(FLOW_SCHEMAS, "", "f")) == [
        *("Dangling", "True", "NotFound"),
        f"{start}but there is no such object",
    ]
    limited = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    api.create(PRIORITY_LEVELS, "", {"metadata": {"name": "mine"}, "spec": limited})
    settle(api.store, PRIORITY_LEVELS)
    found = ["Dangling", "False", "Found", f"{start}and it exists"]
    assert condition(api.store.get(FLOW_SCHEMAS, "", "f")) == found
    revision = api.store.revision
    settle(api.store, FLOW_SCHEMAS)
    assert api.store.revision == revision


def test_an_api_service_says_why_another_server_is_not_there(api: Api) -> None:
    write_configuration(api.store, API_SERVICES)
    reference = {"namespace": "default", "name": "s", "port": 443}
    spec = {
        "group": "e.com",
        "version": "v1",
        "groupPriorityMinimum": 10,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
        "service": reference,
    }
    api.create(API_SERVICES, "", {"metadata": {"name": "v1.e.com"}, "spec": spec})

    def reason() -> str:
        settle(api.store, API_SERVICES)
        return condition(api.store.get(API_SERVICES, "", "v1.e.com"))[2]

    assert reason() == "ServiceNotFound"
    ports = {"ports": [{"port": 80}]}
    api.create(SERVICES, "default", {"metadata": {"name": "s"}, "spec": ports})
    assert reason() == "ServicePortError"
    settle(api.store, API_SERVICES)
    local = api.store.get(API_SERVICES, "", "v1.apps")
    assert condition(local)[:3] == ["Available", "True", "Local"]


def test_an_aggregated_role_has_the_rules_of_the_others(api: Api) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}
    api.create(ROLES, "", {"metadata": {"name": "all"}, "aggregationRule": selectors})
    part = {"metadata": {"name": "part", "labels": {"to": "all"}}, "rules": [rule]}
    api.create(ROLES, "", part)
    settle(api.store, ROLES)
    assert api.store.get(ROLES, "", "all")["rules"] == [rule]
    view = api.store.get(ROLES, "", "view")["rules"]
    assert all(each["verbs"] == ["get", "list", "watch"] for each in view)
    edit = api.store.get(ROLES, "", "edit")["rules"]
    assert [each for each in view if each not in edit] == []
    revision = api.store.revision
    settle(api.store, ROLES)
    assert api.store.revision == revision


def test_roles_are_gathered_through_a_long_chain(api: Api) -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    for at in range(12):
        selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": f"{at}"}}]}
        metadata = {"name": f"at-{at}", "labels": {"to": f"{at - 1}".strip("-")}}
        api.create(ROLES, "", {"metadata": metadata, "aggregationRule": selectors})
    last = {"metadata": {"name": "last", "labels": {"to": "11"}}, "rules": [rule]}
    api.create(ROLES, "", last)
    settle(api.store, ROLES)
    assert api.store.get(ROLES, "", "at-0")["rules"] == [rule]


def test_roles_are_gathered_in_steps_as_many_as_there_are_roles() -> None:
    def steps(count: int) -> int:
        api = Api(fresh_store())
        for at in range(count):
            rule = {"apiGroups": [""], "resources": [f"r{at}"], "verbs": ["get"]}
            part = {"metadata": {"name": f"part-{at}", "labels": {"to": f"{at}"}}, "rules": [rule]}
            selectors = {"clusterRoleSelectors": [{"matchLabels": {"to": f"{at}"}}]}
            api.create(ROLES, "", part)
            whole = {"metadata": {"name": f"whole-{at}"}, "aggregationRule": selectors}
            api.create(ROLES, "", whole)
        return calls_of(lambda: settle(api.store, ROLES))

    steps(10)
    assert steps(100) < 2.2 * steps(50)


def test_what_was_completed_is_left_alone_until_a_write(api: Api) -> None:
    write_configuration(api.store, API_SERVICES)
    for kind in SETTLED:
        settle(api.store, kind)
        assert calls_of(partial(settle, api.store, kind)) < 20
