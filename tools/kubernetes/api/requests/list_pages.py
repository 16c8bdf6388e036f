"""The pages of a list: which objects, at which revision, and the token with which it continues.

A list continues at the revision of its first page, which the history gives, so that changes between
two pages do not show. Once that revision is compacted, the client is refused with a token that
continues at the latest revision instead. Mirrors the lists of the API server's watch cache.
"""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from ..store import Key, Store
from ..types.api_documents import Document, RefusedError, StoredObject, names_of
from ..types.resources import Kind
from .list_options import EXACT, MATCH, check_list, too_large
from .selectors import Matches

MOST_DIGITS = 20
LATEST = -1  # the revision in the token of a list that continues at the latest one
_FORM = "meta.k8s.io/v1"
_NUMBER = "invalid syntax"
CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
EXPIRED = "The resourceVersion for the provided list is too old."


class ListPage(msgspec.Struct, frozen=True):
    """Objects at one revision. `token` continues the list; "" at its end. `remaining` is the number
    of objects that follow; None if it is not known, or at the end.
    """

    items: list[StoredObject]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Document:
        """Returns the metav1.ListMeta."""
        metadata: Document = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


class _Token(msgspec.Struct):
    """The content of a continue token: the revision, and the key after which the list continues."""

    v: str = ""
    rv: int = 0
    start: str = ""


def list_page(
    store: Store,
    kind: Kind,
    namespace: str,
    query: Mapping[str, str],
    matches: Matches | None,
) -> ListPage:
    """Returns what a list request asks for.

    Raises RefusedError: 400 or 422 for invalid options, 410 for a revision that is compacted, 504
    for one that is yet to come.
    """
    check_list(query)
    asked = query.get("resourceVersion", "")
    limit = number_in(query, "limit") if asked != "0" else 0
    number_in(query, "timeoutSeconds")  # an answer needs no waiting, so any number does
    token = query.get("continue", "")
    if token:
        after, revision = _position(token, kind, namespace)
        if asked not in ("", "0"):
            message = "specifying resource version is not allowed when using continue"
            raise RefusedError(400, "BadRequest", message)
    else:
        after, revision = None, _exact_revision(store, query, limit)
    if revision > store.revision:
        raise too_large(revision, store.revision)
    if 0 < revision < store.compacted(kind):
        raise _expired(after, kind, namespace, in_pages=bool(token))
    return _page(store, kind, namespace, after, max(revision, 0), limit, matches)


def page_of(
    listed: Iterable[StoredObject], kind: Kind, namespace: str, query: Mapping[str, str], shown: int
) -> ListPage:
    """Returns a page of objects that are not stored, such as metrics, in the order of their keys.

    Raises RefusedError with 400.
    """
    after, _ = _position(token, kind, namespace) if (token := query.get("continue")) else (None, 0)
    left = (each for each in listed if after is None or names_of(each.document) > after)
    return _cut(left, left, kind, namespace, number_in(query, "limit"), shown, counts=True)


def number_in(query: Mapping[str, str], option: str) -> int:
    """Returns the number in an option; 0 without it. Raises RefusedError with 400."""
    text = query.get(option) or "0"
    try:
        return int(text)
    except ValueError:
        message = f'strconv.ParseInt: parsing "{text}": {_NUMBER}'
        raise RefusedError(400, "BadRequest", message) from None


def revision_in(query: Mapping[str, str]) -> int:
    """Returns the resourceVersion of a read or a watch; 0 without it.

    Raises RefusedError with 500, as in Kubernetes.
    """
    revision, problem = _read_revision(query)
    if problem:
        raise RefusedError(500, "", problem)
    return revision


def _read_revision(query: Mapping[str, str]) -> tuple[int, str]:
    """Returns the resourceVersion, and what is wrong with it."""
    text = query.get("resourceVersion") or "0"
    if text.isascii() and text.isdecimal() and len(text) < MOST_DIGITS:
        return int(text), ""
    problem = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}"'
    return 0, f"{problem}: {_NUMBER}"


def _exact_revision(store: Store, query: Mapping[str, str], limit: int) -> int:
    """Returns the revision that a list without a token shall show; 0 for the latest.

    Raises RefusedError with 400 or 504.
    """
    revision, problem = _read_revision(query)
    if problem:
        raise RefusedError(400, "BadRequest", f"invalid resource version: {problem}")
    if revision > store.revision:
        raise too_large(revision, store.revision)
    match = query.get(MATCH, "")
    # A page of a version is of exactly that version, as before there was a way to say it.
    return revision if match == EXACT or (not match and limit > 0) else 0


def _page(
    store: Store,
    kind: Kind,
    namespace: str,
    after: Key | None,
    revision: int,
    limit: int,
    matches: Matches | None,
) -> ListPage:
    """Returns the objects after a key at a revision; 0 is the latest."""
    listed = store.list_at(kind, revision, namespace, after)
    if matches is None:
        return _cut(listed, listed, kind, namespace, limit, revision or store.revision, counts=True)
    chosen = (each for each in listed if matches(each.document))
    return _cut(listed, chosen, kind, namespace, limit, revision or store.revision, counts=False)


def _cut(
    listed: Iterator[StoredObject],
    chosen: Iterator[StoredObject],
    kind: Kind,
    namespace: str,
    limit: int,
    shown: int,
    *,
    counts: bool,
) -> ListPage:
    """Returns the first page of the chosen ones among the listed objects. There is a next page if
    objects are left, whether or not any of them will be chosen.
    """
    if limit <= 0:
        return ListPage(list(chosen), shown)
    items = list(islice(chosen, min(limit, sys.maxsize)))
    if len(items) < limit or next(listed, None) is None:
        return ListPage(items, shown)
    token = _token(shown, names_of(items[-1].document), kind, namespace)
    return ListPage(items, shown, token, 1 + sum(1 for _ in listed) if counts else None)


def _expired(after: Key | None, kind: Kind, namespace: str, *, in_pages: bool) -> RefusedError:
    if not in_pages or after is None:
        return RefusedError(410, "Expired", EXPIRED)
    token = _token(LATEST, after, kind, namespace)
    return RefusedError(410, "Expired", CONTINUE_EXPIRED, continue_=token)


def _token(revision: int, key: Key, kind: Kind, namespace: str) -> str:
    """Returns the token of a list that continues after a key."""
    parts = key if kind.namespaced and not namespace else key[1:]
    raw = msgspec.json.encode(_Token(_FORM, revision, f"/{'/'.join(parts)}\0"))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _position(token: str, kind: Kind, namespace: str) -> tuple[Key, int]:
    """Returns the key after which a list continues, and its revision; LATEST for the latest.

    Raises RefusedError with 400 for a token that no API server issues.
    """
    read = _read_token(token)
    if read.v != _FORM:
        raise _bad_token(f"server does not recognize this encoded version {read.v}")
    if not read.rv:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {_FORM})")
    if not read.start:
        raise _bad_token(f"encoded start key empty (version {_FORM})")
    parts = read.start.removeprefix("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise _bad_token(read.start)
    parts[-1] = parts[-1].removesuffix("\0")
    if kind.namespaced and not namespace:
        return (parts[0], "/".join(parts[1:])), read.rv
    return (namespace, "/".join(parts)), read.rv


def _read_token(token: str) -> _Token:
    """Decodes a token. Raises RefusedError with 400."""
    wrong = next(
        (at for at, c in enumerate(token) if not (c.isascii() and (c.isalnum() or c in "-_"))), None
    )
    if wrong is not None or len(token) % 4 == 1:
        at = len(token) // 4 * 4 if wrong is None else wrong
        raise _bad_token(f"illegal base64 data at input byte {at}")
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError) as problem:
        raise _bad_token(str(problem)) from None


def _bad_token(problem: str) -> RefusedError:
    message = f"invalid continue token: continue key is not valid: {problem}"
    return RefusedError(400, "BadRequest", message)
