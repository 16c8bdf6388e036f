"""The objects of every namespace, and what pods get of their service account."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.api.requests.request_bodies import DeleteOptions
from berth.tools.kubernetes.api.types.api_documents import RefusedError
from berth.tools.kubernetes.api.types.resources import BY_KIND, KINDS
from berth.tools.kubernetes.api.writes.registry import Api
from tests.kit.documents import Document

PODS, NAMESPACES = BY_KIND["v1", "Pod"], BY_KIND["v1", "Namespace"]
ACCOUNTS, MAPS = BY_KIND["v1", "ServiceAccount"], BY_KIND["v1", "ConfigMap"]
QUOTAS = BY_KIND["v1", "ResourceQuota"]
PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(api: Api, name: str = "p", metadata: Document | None = None, **spec: Any) -> Document:
    """Creates a pod of one container, with these fields, and returns its spec."""
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    document = {"metadata": {"name": name, **(metadata or {})}, "spec": spec}
    stored: Document = api.create(PODS, "default", document).document["spec"]
    return stored


def test_every_namespace_has_an_account_and_a_certificate(api: Api) -> None:
    api.create(NAMESPACES, "", {"metadata": {"name": "new"}})

    for namespace in ("default", "kube-system", "new"):
        assert api.store.find(ACCOUNTS, namespace, "default"), namespace
        certificate = api.store.get(MAPS, namespace, "kube-root-ca.crt")
        assert certificate["data"] == {"ca.crt": ""}


def test_a_server_that_starts_again_completes_its_namespaces(api: Api) -> None:
    api.store.delete(ACCOUNTS, "default", "default")
    api.seed()

    assert api.store.find(ACCOUNTS, "default", "default")


@pytest.mark.parametrize(("kind", "name"), [(ACCOUNTS, "default"), (MAPS, "kube-root-ca.crt")])
def test_a_deleted_one_comes_back(api: Api, kind: Any, name: str) -> None:
    gone = api.delete(kind, "default", name, DeleteOptions()).document

    assert api.store.get(kind, "default", name)["metadata"]["uid"] != gone["metadata"]["uid"]


def test_the_certificate_stays_what_it_is(api: Api) -> None:
    stored = api.store.get(MAPS, "default", "kube-root-ca.crt")
    api.update(MAPS, "default", "kube-root-ca.crt", {**stored, "data": {"ca.crt": "x"}}, "")

    restored = api.store.get(MAPS, "default", "kube-root-ca.crt")
    assert restored["data"] == {"ca.crt": ""}
    assert restored["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]


def test_a_namespace_with_nothing_else_ends_at_once(api: Api) -> None:
    api.create(NAMESPACES, "", {"metadata": {"name": "new"}})
    api.delete(NAMESPACES, "", "new", DeleteOptions())

    assert api.store.find(NAMESPACES, "", "new") is None
    assert not [s for kind in KINDS if kind.namespaced for s in api.store.list(kind, "new")]


def test_a_quota_may_refuse_them(api: Api) -> None:
    hard = {"hard": {"count/serviceaccounts": "0"}}
    api.create(QUOTAS, "default", {"metadata": {"name": "q"}, "spec": hard})
    api.delete(ACCOUNTS, "default", "default", DeleteOptions())

    assert api.store.find(ACCOUNTS, "default", "default") is None


def test_a_pod_has_the_default_account_and_its_token(api: Api) -> None:
    spec = pod(api, initContainers=[{"name": "i", "image": "i"}])

    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    token, certificate, namespace = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    assert certificate["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["path"] == "namespace"
    mount = {"name": volume["name"], "readOnly": True, "mountPath": PLACE}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [mount]


def test_pods_of_one_template_share_what_they_are_given(api: Api) -> None:
    first, second = pod(api, "a"), pod(api, "b")

    for field in ("containers", "volumes"):
        assert first[field] is second[field]


def test_an_account_must_exist(api: Api) -> None:
    with pytest.raises(RefusedError) as caught:
        pod(api, serviceAccountName="none")

    assert caught.value.code == 403
    assert str(caught.value) == (
        'pods "p" is forbidden: error looking up service account default/none: '
        'serviceaccount "none" not found'
    )


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounted"),
    [(None, False, False), (False, None, False), (False, True, True), (True, None, True)],
)
def test_the_pod_or_the_account_may_decline_the_token(
    api: Api, of_account: bool | None, of_pod: bool | None, mounted: bool
) -> None:
    wish = {} if of_account is None else {"automountServiceAccountToken": of_account}
    api.create(ACCOUNTS, "default", {"metadata": {"name": "a"}, **wish})
    own: Document = {} if of_pod is None else {"automountServiceAccountToken": of_pod}

    assert ("volumes" in pod(api, serviceAccountName="a", **own)) == mounted


def test_the_account_lends_its_image_secrets(api: Api) -> None:
    lent, own = [{"name": "lent"}], [{"name": "own"}]
    api.create(ACCOUNTS, "default", {"metadata": {"name": "a"}, "imagePullSecrets": lent})

    assert pod(api, "p", serviceAccountName="a")["imagePullSecrets"] == lent
    second = pod(api, "q", serviceAccountName="a", imagePullSecrets=own)
    assert second["imagePullSecrets"] == own


def test_a_mount_in_its_place_keeps_the_token_out(api: Api) -> None:
    mount = {"name": "v", "mountPath": PLACE}
    containers = [{"name": "c", "image": "i", "volumeMounts": [mount]}]
    spec = pod(api, containers=containers, volumes=[{"name": "v", "emptyDir": {}}])

    assert [volume["name"] for volume in spec["volumes"]] == ["v"]
    assert spec["containers"][0]["volumeMounts"] == [mount]


def test_a_volume_of_its_own_prefix_serves_for_the_token(api: Api) -> None:
    spec = pod(api, volumes=[{"name": "kube-api-access-mine", "emptyDir": {}}])

    assert [volume["name"] for volume in spec["volumes"]] == ["kube-api-access-mine"]
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"


def test_a_mirror_pod_has_no_account(api: Api) -> None:
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    token = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}

    assert "serviceAccountName" not in pod(api, metadata=mirror, nodeName="n")
    for forbidden, parts in (
        ("a mirror pod may not reference service accounts", {"serviceAccountName": "default"}),
        (
            "a mirror pod may not reference secrets",
            {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
        ),
        (
            "a mirror pod may not use ServiceAccountToken volume projections",
            {"volumes": [{"name": "v", **token}]},
        ),
    ):
        with pytest.raises(RefusedError, match=forbidden):
            pod(api, "q", metadata=mirror, nodeName="n", **parts)
