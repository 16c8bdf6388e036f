"""The names that Kubernetes accepts for label keys and resources, and the values of labels."""

from __future__ import annotations

import re

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_qualified_name(text: str) -> bool:
    """True for a name such as cpu or example.com/gpu."""
    domain, slash, name = text.rpartition("/")
    if slash and not (_SUBDOMAIN.fullmatch(domain) and len(domain) <= 253):
        return False
    return bool(_NAME.fullmatch(name))


def is_extended_resource(name: str) -> bool:
    """True for a qualified name in a domain other than Kubernetes', short enough for a quota."""
    domain, slash, _ = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(name) and len(f"requests.{domain}") <= 253
