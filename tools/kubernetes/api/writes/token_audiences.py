"""The audiences of the tokens that a node may ask for: those that the volumes of its pod name, of
the CSI drivers of these volumes, and those that a role gives it.

Mirrors what the admission plugin NodeRestriction does by the feature gate
ServiceAccountNodeAudienceRestriction, but for volumes of the former in-tree plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..access.rights import Act, authorize
from ..access.tokens import ISSUER
from ..access.users import Requester
from ..rules.fields import printed_value
from ..store import Store
from ..types.api_documents import Document
from ..types.resources import BY_KIND
from .admission import CLAIMS, VOLUMES

DRIVERS = BY_KIND["storage.k8s.io/v1", "CSIDriver"]
VERB = "request-serviceaccounts-token-audience"


def audience_problem(
    store: Store, user: Requester, pod: Document, account: str, audiences: Sequence[str]
) -> str:
    """Returns why a node may not ask for a token of an account for these audiences; "" if it may.
    The server's own audience is that of a volume that names none.
    """
    if len(audiences) > 1:
        return "node may only request 0 or 1 audiences"
    audience = "" if not audiences or audiences[0] == ISSUER else audiences[0]
    if audience in _audiences_of(store, pod):
        return ""
    namespace = pod["metadata"]["namespace"]
    if authorize(store, user, Act(VERB, "", audience, "", namespace, account)).allowed:
        return ""
    return (
        f"audience {printed_value(audience)} not found in pod spec volume, {user.name} is not "
        "authorized to request tokens for this audience"
    )


def _audiences_of(store: Store, pod: Document) -> Iterator[str]:
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (token := source.get("serviceAccountToken")) is not None:
                yield token.get("audience") or ""
        driver = store.find(DRIVERS, "", _driver_of(store, pod, volume)) or {"spec": {}}
        for request in driver["spec"].get("tokenRequests") or ():
            yield request.get("audience") or ""


def _driver_of(store: Store, pod: Document, volume: Document) -> str:
    """Returns the CSI driver of a volume; "" if it has none."""
    if (inline := volume.get("csi")) is not None:
        return str(inline.get("driver") or "")
    name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    if (volume.get("ephemeral") or {}).get("volumeClaimTemplate") is not None:
        name = f"{pod['metadata']['name']}-{volume['name']}"
    claim = store.find(CLAIMS, pod["metadata"]["namespace"], name or "") or {"spec": {}}
    bound = store.find(VOLUMES, "", claim["spec"].get("volumeName") or "") or {"spec": {}}
    return str((bound["spec"].get("csi") or {}).get("driver") or "")
