"""Who may see a page: the authentication and the authorization of requests, against an API server
that answers reviews, and refusals as kube-scheduler 1.36.2 printed them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from random import Random

import anyio
import msgspec
import pytest

from berth.actors.client.rest import ApiError, ConnectionFailedError
from berth.actors.server.authentication import Authenticator, Authorities
from berth.actors.server.authorization import Authorizer, OpenPaths
from berth.actors.server.metrics.access import AccessMeasures
from berth.actors.server.request import MOST_BYTES, Answer, BodyTooLongError, Request, text
from berth.actors.server.reviews import AccessReviews, TokenReviews
from berth.actors.server.site import RECHECK_SECONDS, Site
from berth.actors.telemetry.measures import Counter, Registry
from berth.config.options import HEALTH_PATHS
from tests.kit.clock import VirtualClock
from tests.kit.reviewer import Reviewer
from tests.kit.serving import request_for

UNAUTHORIZED = """{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {},
  "status": "Failure",
  "message": "Unauthorized",
  "reason": "Unauthorized",
  "code": 401
}"""
NOBODY = "system:serviceaccount:default:nobody"
FORBIDDEN = f"""{{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {{}},
  "status": "Failure",
  "message": "forbidden: User \\"{NOBODY}\\" cannot get path \\"/metrics\\"",
  "reason": "Forbidden",
  "details": {{}},
  "code": 403
}}"""


class Served:
    """A site with two pages and all health paths. Without `delegating` nobody can be asked."""

    def __init__(self, *, delegating: bool = True) -> None:
        self.clock = VirtualClock()
        self.reviewer = Reviewer()
        calls, clock, chance = self.reviewer, self.clock, Random(1)
        self.registry = Registry()
        measures = AccessMeasures(self.registry)
        tokens = TokenReviews(calls, clock, chance, 10.0, measures) if delegating else None
        access = AccessReviews(calls, clock, chance, 10.0, 5.0, measures) if delegating else None
        authenticator = Authenticator(Authorities, tokens, clock.wall, measures)
        authorizer = Authorizer(OpenPaths(HEALTH_PATHS), access)
        paths = ("/metrics", "/debug/", *HEALTH_PATHS)
        pages = dict.fromkeys(paths, shown)
        self.received = 0  # bodies
        of_packages = {"/whatif": echoed, "/whatif/": echoed, "/ui/": self.counted, "/may": allowed}
        self.site = Site(authenticator, authorizer, pages, measures, clock.now, of_packages)
        self.closed: list[str] = []

    async def counted(self, request: Request) -> Answer:
        async def numbers() -> AsyncGenerator[bytes, None]:
            try:
                for number in range(1, 10):
                    yield b"%d" % number
            finally:
                self.closed.append(request.path)

        return Answer(numbers(), is_endless=True)

    async def ask(
        self, target: str, token: str = "", method: str = "GET", body: str | None = "hello"
    ) -> tuple[int, str]:
        """Asks with a body; None is one that is too long."""

        async def receive() -> bytes:
            self.received += 1
            if body is None:
                raise BodyTooLongError
            return body.encode()

        headers = (("Authorization", f"Bearer {token}"),) if token else ()
        request = request_for(target, *headers, method=method)
        answer = await self.site.respond(msgspec.structs.replace(request, body=receive))
        assert isinstance(answer.body, bytes)
        return answer.status, answer.body.decode()


async def shown(request: Request) -> Answer:
    return text(request.path)


async def allowed(request: Request) -> Answer:
    return text(str(await request.may("POST", "/whatif")))


async def echoed(request: Request) -> Answer:
    return text(f"{request.method} {request.path} {(await request.body()).decode()}")


async def test_an_endless_answer_ends_with_the_rights_of_its_client() -> None:
    served = Served()
    served.reviewer.add("t", "viewer")
    served.reviewer.rights.add(("viewer", "/ui/feed"))
    headers = ("Authorization", "Bearer t")
    answer = await served.site.respond(request_for("/ui/feed", headers))
    assert not isinstance(answer.body, bytes)
    assert await anext(answer.body) == b"1"
    await served.clock.advance(RECHECK_SECONDS)
    assert await anext(answer.body) == b"2"
    served.reviewer.rights.clear()
    assert await anext(answer.body) == b"3"
    await served.clock.advance(RECHECK_SECONDS)
    assert [part async for part in answer.body] == []
    assert served.closed == ["/ui/feed"]


async def test_without_credentials_only_health_is_shown() -> None:
    served = Served()
    for path in HEALTH_PATHS:
        assert await served.ask(path) == (200, path)
    assert await served.ask("/metrics") == (401, UNAUTHORIZED)
    assert await served.ask("/nothere") == (401, UNAUTHORIZED)
    assert await served.ask("/livez/ping") == (401, UNAUTHORIZED)


async def test_a_right_of_everybody_counts_without_credentials() -> None:
    served = Served()
    served.reviewer.rights |= {("system:unauthenticated", "/metrics")}
    assert await served.ask("/metrics") == (200, "/metrics")
    assert served.reviewer.specs[0]["user"] == "system:anonymous"


async def test_a_token_may_see_what_its_user_may() -> None:
    served = Served()
    served.reviewer.add("secret", "prometheus", "monitoring")
    served.reviewer.add("other", NOBODY)
    served.reviewer.rights |= {("monitoring", "/metrics"), ("prometheus", "/debug/cache")}
    assert await served.ask("/metrics", "secret") == (200, "/metrics")
    assert await served.ask("/debug/cache", "secret") == (200, "/debug/cache")
    assert await served.ask("/metrics", "other") == (403, FORBIDDEN)
    spec = served.reviewer.specs[0]
    assert (spec["user"], spec["uid"]) == ("prometheus", "uid-prometheus")
    assert spec["groups"] == ["monitoring", "system:authenticated"]


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/nothere"])
async def test_a_token_that_is_not_good_is_refused_everywhere(path: str) -> None:
    assert await Served().ask(path, "wrong") == (401, UNAUTHORIZED)


async def test_system_masters_need_no_review() -> None:
    served = Served()
    served.reviewer.add("admin", "admin", "system:masters")
    assert await served.ask("/metrics", "admin") == (200, "/metrics")
    assert await served.ask("/nothere", "admin") == (404, "404 page not found\n")
    assert served.reviewer.reviews == ["tokenreviews"]


async def test_if_nobody_can_be_asked_only_the_open_paths_are_shown() -> None:
    served = Served(delegating=False)
    assert await served.ask("/livez") == (200, "/livez")
    assert await served.ask("/livez", "ignored") == (200, "/livez")
    assert await served.ask("/metrics", "ignored") == (401, UNAUTHORIZED)


async def test_pages_only_show() -> None:
    served = Served()
    served.reviewer.add("admin", "admin", "system:masters")
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert (await served.ask("/debug/cache", "admin", method))[0] == 405
    assert (await served.ask("/debug/cache", "admin", "HEAD"))[0] == 200


async def test_a_page_of_a_package_may_take_a_body_of_those_who_may_ask() -> None:
    served = Served()
    served.reviewer.add("admin", "admin", "system:masters")
    served.reviewer.add("secret", NOBODY)
    assert await served.ask("/whatif", "admin", "POST") == (200, "POST /whatif hello")
    assert await served.ask("/whatif/schema", "admin") == (200, "GET /whatif/schema hello")
    assert served.received == 2
    assert (await served.ask("/whatif", "secret", "POST"))[0] == 403
    assert (await served.ask("/whatif", "", "POST"))[0] == 401
    assert (await served.ask("/debug/cache", "admin", "POST"))[0] == 405
    assert served.received == 2


async def test_the_right_to_post_is_not_that_to_get() -> None:
    served = Served()
    served.reviewer.add("secret", NOBODY)
    await served.ask("/whatif", "secret", "POST")
    assert served.reviewer.specs[-1]["nonResourceAttributes"] == {"path": "/whatif", "verb": "post"}


async def test_a_page_may_ask_what_else_its_client_may_do() -> None:
    served = Served()
    served.reviewer.add("admin", "admin", "system:masters")
    served.reviewer.add("secret", NOBODY)
    served.reviewer.rights.add((NOBODY, "/may"))
    assert await served.ask("/may", "admin") == (200, "True")
    assert await served.ask("/may", "secret") == (200, "False")
    assert served.reviewer.specs[-1]["nonResourceAttributes"] == {"path": "/whatif", "verb": "post"}
    assert served.received == 0


async def test_a_body_that_is_too_long_is_refused() -> None:
    served = Served()
    served.reviewer.add("admin", "admin", "system:masters")
    status, words = await served.ask("/whatif", "admin", "POST", None)
    assert (status, words) == (413, f"413 expected a body of at most {MOST_BYTES} bytes\n")


async def test_answers_are_remembered_for_their_time() -> None:
    served = Served()
    served.reviewer.add("secret", NOBODY)
    for _ in range(3):
        assert (await served.ask("/metrics", "secret"))[0] == 403
        assert (await served.ask("/metrics", "wrong"))[0] == 401
    reviews = ["tokenreviews", "subjectaccessreviews", "tokenreviews"]
    assert served.reviewer.reviews == reviews
    served.reviewer.rights.add((NOBODY, "/metrics"))
    await served.clock.advance(5.0)  # the time of a refusal
    assert (await served.ask("/metrics", "secret"))[0] == 200
    assert served.reviewer.reviews == [*reviews, "subjectaccessreviews"]
    served.reviewer.rights.clear()
    served.reviewer.users.clear()
    await served.clock.advance(4.0)
    assert (await served.ask("/metrics", "secret"))[0] == 200
    await served.clock.advance(1.0)
    assert (await served.ask("/metrics", "secret"))[0] == 401


@pytest.mark.parametrize(
    "failure", [ConnectionFailedError("refused"), ApiError(403, "Forbidden", "may not review")]
)
async def test_an_api_server_that_does_not_say_is_no_permission(failure: Exception) -> None:
    served = Served()
    served.reviewer.failure = failure

    async def ask(path: str, token: str = "") -> int:
        code = 0

        async def run() -> None:
            nonlocal code
            code = (await served.ask(path, token))[0]

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await served.clock.advance(30.0)
        return code

    assert await ask("/metrics", "secret") == 401
    assert await ask("/metrics") == 500
    assert await ask("/livez") == 200
    served.reviewer.failure = None
    served.reviewer.add("secret", "one", "system:masters")
    assert await ask("/metrics", "secret") == 200  # failures are not remembered


async def test_a_name_cannot_break_out_of_the_refusal() -> None:
    served = Served()
    served.reviewer.add("odd", 'a"<b>\n')
    status, body = await served.ask("/metrics", "odd")
    assert status == 403
    message = json.loads(body)["message"]
    assert message == 'forbidden: User "a\\"&lt;b&gt;\\n" cannot get path "/metrics"'


@pytest.mark.parametrize(
    ("patterns", "path", "open_"),
    [
        (("/metrics*",), "/metrics/resources", True),
        (("/metrics*",), "/metric", False),
        (("metrics",), "/metrics", True),
        (("/metrics",), "/metrics/", False),
        (("/*",), "/anything", True),
        (("/",), "/", True),
        ((), "/livez", False),
    ],
)
def test_paths_that_need_no_permission(patterns: tuple[str, ...], path: str, open_: bool) -> None:
    assert (path in OpenPaths(patterns)) is open_


def test_a_star_in_the_middle_is_refused() -> None:
    with pytest.raises(ValueError, match=r"only trailing \* allowed"):
        OpenPaths(["/a*b"])


async def test_an_error_about_a_token_is_not_remembered() -> None:
    served = Served()
    served.reviewer.error = "token lookup failed"
    assert (await served.ask("/metrics", "secret"))[0] == 401
    served.reviewer.add("secret", "prometheus", "system:masters")
    assert (await served.ask("/metrics", "secret"))[0] == 200
    fetched = next(
        each
        for each in served.registry.families()
        if each.name == "authentication_token_cache_fetch_total"
    )
    counts = {labels: child.value for labels, child in fetched.children() if type(child) is Counter}
    assert counts == {("error",): 1, ("ok",): 1}


async def test_requests_are_counted_by_how_they_ended() -> None:
    served = Served()
    served.reviewer.add("secret", "prometheus", "monitoring")
    served.reviewer.rights |= {("monitoring", "/metrics")}
    await served.ask("/metrics", "secret")
    await served.ask("/metrics", "secret")
    await served.ask("/debug/cache", "secret")
    await served.ask("/metrics", "wrong")
    await served.ask("/livez")
    counted = {
        " ".join([family.name, *labels]): child.value
        for family in served.registry.families()
        for labels, child in family.children()
        if isinstance(child, Counter)
    }
    assert counted == {
        "apiserver_delegated_authn_request_total 201": 2,
        "apiserver_delegated_authz_request_total 201": 2,
        "authenticated_user_requests other": 4,
        "authentication_attempts error": 1,
        "authentication_attempts success": 4,
        "authentication_token_cache_fetch_total ok": 2,
        "authentication_token_cache_request_total hit": 2,
        "authentication_token_cache_request_total miss": 2,
        "authorization_attempts_total allowed": 3,
        "authorization_attempts_total no-opinion": 1,
    }
