"""The user who sends a write, and the checks that depend on the user."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from ..access.device_rights import status_problems
from ..access.rights import Act, check_right, may_all
from ..access.users import Requester
from ..policies.policy_writes import BINDINGS, MUTATING, MUTATING_BINDINGS, VALIDATING, Write
from ..policies.reinvocation import Reinvocation
from ..policies.webhook_decisions import WebhookAnswers
from ..requests.media_types import JSON_PATCH
from ..store import Store
from ..types.admission_plugins import (
    MUTATING_POLICY,
    MUTATING_WEBHOOK,
    NODE_RESTRICTION,
    VALIDATING_POLICY,
    VALIDATING_WEBHOOK,
)
from ..types.api_documents import Document, names_of
from ..types.resources import BY_KIND, Kind
from .node_restriction import check_node_restriction
from .webhook_admission import decoded_again

NAMESPACES = BY_KIND["v1", "Namespace"]


class Caller(msgspec.Struct, frozen=True):
    """The user of a write. `verb` is the right that an update needs: update or patch. `answers` are
    those of admission webhooks; without them, none is asked.
    """

    user: Requester
    verb: str
    dry_run: bool = False
    answers: WebhookAnswers | None = None

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
        """Returns the warnings of the admission policies and validating webhooks. Raises
        RefusedError if one of them refuses the write, and CallsNeededError.

        `place` is the namespace and the name.
        """
        judges = store.has(BINDINGS) and VALIDATING_POLICY in store.plugins
        asks = self._asks(store, VALIDATING, VALIDATING_WEBHOOK)
        if not judges and asks is None:
            return []
        write = self._write(store, operation, kind, place, after, before, subresource)
        warnings: list[str] = []
        if judges:
            from ..policies.policy_decisions import judge  # it brings their language with it

            warnings = judge(store, write)
        return warnings if asks is None else warnings + asks.warnings(store, write)

    def changes_objects(self, store: Store) -> bool:
        """True if a mutating policy or webhook may change what is written."""
        if store.has(MUTATING_BINDINGS) and MUTATING_POLICY in store.plugins:
            return True
        return (
            self.answers is not None and store.has(MUTATING) and MUTATING_WEBHOOK in store.plugins
        )

    def mutated(
        self,
        store: Store,
        operation: str,
        kind: Kind,
        after: Document,
        before: Document | None,
        subresource: str,
        rounds: Reinvocation,
    ) -> tuple[Document, list[str]]:
        """Returns the object as the mutating policies and then the webhooks change it, and their
        warnings. Raises RefusedError and CallsNeededError.
        """
        write = self._write(store, operation, kind, names_of(after), after, before, subresource)
        decoded = partial(decoded_again, store, kind)
        if store.has(MUTATING_BINDINGS) and MUTATING_POLICY in store.plugins:
            from ..policies.policy_mutations import mutated  # most clusters have no such policy

            after = mutated(store, write, decoded, rounds) or after
            write = msgspec.structs.replace(write, after=after)
        asks = self._asks(store, MUTATING, MUTATING_WEBHOOK)
        if asks is None:
            return after, []
        changed, warnings = asks.mutated(store, write, _json_patched, decoded, rounds)
        return changed or after, warnings

    def _asks(self, store: Store, kind: Kind, plugin: str) -> WebhookAnswers | None:
        return self.answers if store.has(kind) and plugin in store.plugins else None

    def _write(
        self,
        store: Store,
        operation: str,
        kind: Kind,
        place: tuple[str, str],
        after: Document | None,
        before: Document | None,
        subresource: str,
    ) -> Write:
        namespace = store.find(NAMESPACES, "", place[0]) if kind.namespaced else None
        return Write(
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

    def check_node(
        self,
        store: Store,
        operation: str,
        kind: Kind,
        place: tuple[str, str],
        after: Document | None,
        before: Document | None,
        subresource: str,
    ) -> None:
        """Raises RefusedError with 403 if the user is a node that may not write this."""
        if NODE_RESTRICTION in store.plugins:
            check_node_restriction(
                store, self.user, operation, kind, place, after, before, subresource
            )

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


def _json_patched(kind: Kind, document: Document, patch: Any) -> Document:
    from .patch import patched_document

    return patched_document(kind, document, patch, JSON_PATCH)
