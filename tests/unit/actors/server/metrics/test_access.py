"""The measures of authentication and authorization."""

from __future__ import annotations

from berth.actors.server.metrics.access import AccessMeasures
from berth.actors.server.metrics.exposition import exposed
from berth.actors.telemetry.measures import Registry


def samples_of(registry: Registry) -> list[str]:
    text = b"".join(exposed(registry.families())).decode()
    lines = text.splitlines()
    return [line for line in lines if line[0] != "#" and "_bucket" not in line]


def test_only_known_names_of_users_are_shown() -> None:
    registry = Registry()
    measures = AccessMeasures(registry)
    for user in ("admin", "jane@example.com", "system:anonymous", "system:serviceaccount:a:b"):
        measures.authenticated(user, 0.25)
    measures.authenticated(None, 1)
    measures.certificate_used(100)
    assert samples_of(registry) == [
        "apiserver_client_certificate_expiration_seconds_sum 100",
        "apiserver_client_certificate_expiration_seconds_count 1",
        'authenticated_user_requests{username="admin"} 1',
        'authenticated_user_requests{username="email_id"} 1',
        'authenticated_user_requests{username="other"} 2',
        'authentication_attempts{result="error"} 1',
        'authentication_attempts{result="success"} 4',
        'authentication_duration_seconds_sum{result="error"} 1',
        'authentication_duration_seconds_count{result="error"} 1',
        'authentication_duration_seconds_sum{result="success"} 1',
        'authentication_duration_seconds_count{result="success"} 4',
    ]


def test_reviews_and_the_verdicts_that_are_remembered() -> None:
    registry = Registry()
    measures = AccessMeasures(registry)
    measures.reviewed("authn", "201", 0.5)
    measures.reviewed("authz", "<error>", 2)
    measures.token_looked_up(0, hit=True)
    measures.token_fetched(ok=True)
    measures.authorized("allowed", 0.5)
    assert samples_of(registry)[2:] == [
        'apiserver_delegated_authn_request_duration_seconds_sum{code="201"} 0.5',
        'apiserver_delegated_authn_request_duration_seconds_count{code="201"} 1',
        'apiserver_delegated_authn_request_total{code="201"} 1',
        'apiserver_delegated_authz_request_duration_seconds_sum{code="<error>"} 2',
        'apiserver_delegated_authz_request_duration_seconds_count{code="<error>"} 1',
        'apiserver_delegated_authz_request_total{code="<error>"} 1',
        'authentication_token_cache_fetch_total{status="ok"} 1',
        'authentication_token_cache_request_duration_seconds_sum{status="hit"} 0',
        'authentication_token_cache_request_duration_seconds_count{status="hit"} 1',
        'authentication_token_cache_request_total{status="hit"} 1',
        'authorization_attempts_total{result="allowed"} 1',
        'authorization_duration_seconds_sum{result="allowed"} 0.5',
        'authorization_duration_seconds_count{result="allowed"} 1',
    ]
