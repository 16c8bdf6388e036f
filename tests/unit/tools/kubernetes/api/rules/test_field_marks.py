"""The marks of types.txt: what each demands, and the path that its problems have."""

from __future__ import annotations

from typing import Any

import pytest

from berth.actors.scheduling.kube.names import dns_subdomain
from berth.tools.kubernetes.api.rules.field_marks import Marks
from berth.tools.kubernetes.api.rules.fields import invalid, unsupported
from berth.tools.kubernetes.api.rules.validation import problems
from berth.tools.kubernetes.api.rules.value_forms import FORMS
from berth.tools.kubernetes.api.types.schema import TYPES

MARKS = Marks({})
MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("Sysctl", {"name": "kernel.a", "value": ""}, []),
        ("Sysctl", {"name": "", "value": ""}, ["x.name: Required value"]),
        ("KeyToPath", {"key": "k"}, ["x.path: Required value"]),
        # the path is checked even if it is empty, since its form is marked before `required`
        (
            "NFSVolumeSource",
            {"server": "s"},
            [
                "x.path: Required value",
                'x.path: Invalid value: "": must be an absolute path',
            ],
        ),
        # 0 is no port, but the field of a service is required and 0 is refused
        ("ContainerPort", {"containerPort": 80, "hostPort": 0}, []),
        (
            "ServicePort",
            {"targetPort": 80},
            ["x.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
        ),
        (
            "HTTPGetAction",
            {"port": 80, "scheme": "ftp"},
            ['x.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS"'],
        ),
        (
            "PodSecurityContext",
            {"fsGroup": -1},
            ["x.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
        ),
        (
            "HostAlias",
            {"ip": "::1", "hostnames": ["a", "b/c"]},
            [invalid("x.hostnames[1]", "b/c", *dns_subdomain("b/c"))],
        ),
        (
            "PersistentVolumeClaimSpec",
            {"accessModes": ["Sometimes"]},
            [unsupported("x.accessModes", "Sometimes", MODES)],
        ),
        (
            "Container",
            {
                "name": "c",
                "image": "i",
                "ports": [{"name": "a", "containerPort": 1}, {"name": "a", "containerPort": 2}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "/x"}],
            },
            [
                'x.ports[1].name: Duplicate value: "a"',
                'x.volumeMounts.subPath: Invalid value: "/x": must be a relative path',
            ],
        ),
        (
            "Volume",
            {"name": "v", "downwardAPI": {"items": [{"path": ""}]}},
            ["x.downwardAPI.path: Required value"],
        ),
        (
            "PodFailurePolicyRule",
            {"onExitCodes": {"values": list(range(256))}},
            ["x.onExitCodes.values: Too many: 256: must have at most 255 items"],
        ),
        ("CSIDriver", {"spec": None}, []),
    ],
)
def test_a_document_with_marks(name: str, document: dict[str, Any], expected: list[str]) -> None:
    assert MARKS.problems(name, "x", document) == expected


def test_an_immutable_field_may_not_change_unless_it_is_below_a_mutable_one() -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    job = {"completionMode": "Indexed", "template": template}
    assert MARKS.problems("JobSpec", "", job, job) == []
    (problem,) = MARKS.problems("JobSpec", "", job, {"template": template})
    assert problem == 'completionMode: Invalid value: "Indexed": field is immutable'
    (problem,) = MARKS.problems("JobSpec", "", {"template": template}, job)
    assert problem == "completionMode: Invalid value: null: field is immutable"
    cron_job = {"schedule": "* * * * *", "jobTemplate": {"spec": job}}
    before = {**cron_job, "jobTemplate": {"spec": {}}}
    assert MARKS.problems("CronJobSpec", "", cron_job, before) == []


def test_every_mark_is_defined_and_every_form_is_used() -> None:
    for name in TYPES:
        MARKS.problems(name, "", {})  # raises for an unknown mark
    used = {
        mark.removeprefix("form=")
        for shape in TYPES.values()
        for field in (shape.fields or {}).values()
        for mark in field.marks
        if mark.startswith("form=")
    }
    assert used == set(FORMS)


def test_a_rule_belongs_to_a_type() -> None:
    with pytest.raises(ValueError, match=r"\['Nothing'\]"):
        Marks({"Nothing": lambda _path, _value: []})


def test_a_template_that_is_met_again_has_the_same_problems_at_its_own_path() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "C"}]}}
    selector = {"matchLabels": {"a": "b"}}
    of_deployment = problems(
        "Deployment",
        {"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}},
    )
    job_template = {"spec": {"template": template}}
    of_cron_job = problems(
        "CronJob",
        {
            "metadata": {"name": "d"},
            "spec": {"schedule": "* * * * *", "jobTemplate": job_template},
        },
    )
    place = "spec.jobTemplate.spec.template."
    moved = [problem.replace("spec.template.", place, 1) for problem in of_deployment]
    assert len(moved) == 2
    assert set(moved) <= set(of_cron_job)
