"""Metrics about the users who requested pages, and about the permissions that they had.

Mirrors apiserver's metrics of authentication and authorization. The server's thread writes them.
"""

from __future__ import annotations

from ...telemetry.measures import Registry, exponential

SECONDS = exponential(0.001, 2, 15)
REVIEW_SECONDS = (0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10)
CACHE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LIFETIMES = (
    *(0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800),
    *(2592000, 7776000, 15552000, 31104000),
)
NAMED_USERS = (
    "admin",
    "client",
    "kube_proxy",
    "kubelet",
    "system:serviceaccount:kube-system:default",
)


class AccessMeasures:
    def __init__(self, registry: Registry) -> None:
        self._users = registry.counter(
            "authenticated_user_requests",
            "Counter of authenticated requests broken out by username.",
            ("username",),
        )
        self._authentications = registry.counter(
            "authentication_attempts", "Counter of authenticated attempts.", ("result",)
        )
        self._authentication_seconds = registry.histogram(
            "authentication_duration_seconds",
            "Authentication duration in seconds broken out by result.",
            ("result",),
            buckets=SECONDS,
        )
        self._authorizations = registry.counter(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result. It can be either 'allowed',"
            " 'denied', 'no-opinion' or 'error'.",
            ("result",),
        )
        self._authorization_seconds = registry.histogram(
            "authorization_duration_seconds",
            "Authorization duration in seconds broken out by result.",
            ("result",),
            buckets=SECONDS,
        )
        self._tokens = registry.counter("authentication_token_cache_request_total", "", ("status",))
        self._token_seconds = registry.histogram(
            "authentication_token_cache_request_duration_seconds",
            "",
            ("status",),
            buckets=CACHE_SECONDS,
        )
        self._fetches = registry.counter("authentication_token_cache_fetch_total", "", ("status",))
        self._certificates = registry.histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a"
            " request.",
            buckets=LIFETIMES,
        ).child()
        self._reviews = {
            kind: (
                registry.counter(
                    f"apiserver_delegated_{kind}_request_total",
                    "Number of HTTP requests partitioned by status code.",
                    ("code",),
                ),
                registry.histogram(
                    f"apiserver_delegated_{kind}_request_duration_seconds",
                    "Request latency in seconds. Broken down by status code.",
                    ("code",),
                    buckets=REVIEW_SECONDS,
                ),
            )
            for kind in ("authn", "authz")
        }

    def authenticated(self, user: str | None, seconds: float) -> None:
        """Counts a request by its user, who may be anonymous; None for a request with an invalid
        credential.
        """
        result = "error" if user is None else "success"
        if user is not None:
            shown = user if user in NAMED_USERS else "email_id" if "@" in user else "other"
            self._users.child(shown).inc()
        self._authentications.child(result).inc()
        self._authentication_seconds.child(result).observe(seconds)

    def certificate_used(self, remaining: float) -> None:
        """Records that a request was authenticated by a certificate with `remaining` seconds of
        validity.
        """
        self._certificates.observe(remaining)

    def authorized(self, result: str, seconds: float) -> None:
        """Counts a decision. `result` is allowed, denied, no-opinion or error."""
        self._authorizations.child(result).inc()
        self._authorization_seconds.child(result).observe(seconds)

    def token_looked_up(self, seconds: float, *, hit: bool) -> None:
        """Counts a token whose review was remembered (`hit`), or requested."""
        status = "hit" if hit else "miss"
        self._tokens.child(status).inc()
        self._token_seconds.child(status).observe(seconds)

    def token_fetched(self, *, ok: bool) -> None:
        """Counts a review of a token; `ok` if there is a verdict."""
        self._fetches.child("ok" if ok else "error").inc()

    def reviewed(self, kind: str, code: str, seconds: float) -> None:
        """Counts a TokenReview ("authn") or SubjectAccessReview ("authz") that was answered with
        this HTTP status, or "<error>".
        """
        count, duration = self._reviews[kind]
        count.child(code).inc()
        duration.child(code).observe(seconds)
