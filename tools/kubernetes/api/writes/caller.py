"""The user who sends a write, and the checks that depend on the user."""

from __future__ import annotations

import msgspec

from ..access.device_rights import status_problems
from ..access.rights import Act, check_right, may_all
from ..access.users import Requester
from ..policies.policy_decisions import BINDINGS, judge
from ..policies.policy_writes import Write
from ..store import Store
from ..types.admission_plugins import VALIDATING_POLICY
from ..types.api_documents import Document
from ..types.resources import BY_KIND, Kind

NAMESPACES = BY_KIND["v1", "Namespace"]


class Caller(msgspec.Struct, frozen=True):
    """The user of a write. `verb` is the right that an update needs: update or patch."""

    user: Requester
    verb: str
    dry_run: bool = False

    def warnings(
        self,
        store: Store,
        operation: str,
        kind: Kind,
        place: tuple[str, str],
        after: Document | None,
        before: Document | None,
        subresource: str,
    ) -> list[str]:
        """Returns the warnings of the admission policies. Raises RefusedError if a policy refuses
        the write.

        `place` is the namespace and the name.
        """
        if not store.has(BINDINGS) or VALIDATING_POLICY not in store.plugins:
            return []
        namespace = store.find(NAMESPACES, "", place[0]) if kind.namespaced else None
        write = Write(
            self.user,
            operation,
            kind,
            place[1],
            after,
            before,
            subresource,
            namespace,
            self.dry_run,
            store.catalog,
        )
        return judge(store, write)

    def check_create(self, store: Store, kind: Kind, namespace: str, name: str) -> None:
        """Raises RefusedError with 403 if the user may not create the object that a patch would
        create.
        """
        act = Act("create", kind.group, kind.plural, "", namespace, name)
        check_right(store, self.user, act)

    def claim_problems(self, store: Store, after: Document, before: Document) -> list[str]:
        """Returns the changes of a device claim's status for which the user lacks the right."""
        if may_all(store, self.user):
            return []
        return status_problems(store, self.user, self.verb, after, before)
