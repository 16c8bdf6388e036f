"""The files of the page, and the headers of its answers, whoever serves them.

Scripts and styles come from here alone, and no text can become markup.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

INDEX = "index.html"
CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class File(msgspec.Struct, frozen=True):
    body: bytes
    content_type: str


def _file(path: Path) -> File:
    return File(path.read_bytes(), f"{CONTENT_TYPES[path.suffix]}; charset=utf-8")


FILES = {path.name: _file(path) for path in (Path(__file__).parent / "static").iterdir()}
