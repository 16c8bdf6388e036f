"""Which plugins that change an object are asked about it again.

Once a mutating policy or webhook has changed an object, the plugins before them run again, and then
those policies and webhooks that want it (IfNeeded) and came before a change. Nobody is asked more
than twice. Mirrors the reinvocation contexts of Kubernetes' admission.
"""

from __future__ import annotations

from typing import Any


class AskedOnce:
    """What one plugin has asked about a write. A key names a webhook, or a policy with a binding
    and a parameter.
    """

    def __init__(self) -> None:
        self._last: Any = None  # the object as the plugin left it
        self._repeatable: set[Any] = set()  # who was asked and may be asked again
        self._due: set[Any] = set()

    def is_due(self, key: Any) -> bool:
        return key in self._due

    def begin(self, document: Any) -> None:
        """Begins the second round with an object, which others may have changed meanwhile."""
        if document != self._last:
            self.changed()

    def changed(self) -> None:
        """Makes due who was asked before a change."""
        self._due |= self._repeatable
        self._repeatable = set()

    def asked(self, key: Any, policy: str | None) -> None:
        """Notes who was asked, with its reinvocationPolicy."""
        if policy == "IfNeeded":
            self._repeatable.add(key)

    def end(self, document: Any) -> None:
        self._last = document


class Reinvocation:
    """The state of a write: `is_needed` once its object was changed, `is_again` in the second
    round.
    """

    def __init__(self) -> None:
        self.is_needed = False
        self.is_again = False
        self.policies = AskedOnce()
        self.webhooks = AskedOnce()
