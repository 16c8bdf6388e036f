"""Addresses: each is given once, also by kubelets that start again."""

from __future__ import annotations

from berth.tools.kubernetes.kubelet.addresses import MOST, Addresses


def test_addresses_follow_each_other() -> None:
    addresses = Addresses("10.244.0.1")
    assert [addresses.take() for _ in range(3)] == ["10.244.0.1", "10.244.0.2", "10.244.0.3"]


def test_addresses_in_use_are_not_given_again() -> None:
    addresses = Addresses("10.244.0.1")
    for used in ("10.244.1.0", "10.244.0.7", "10.1.1.1", "192.168.0.1", "fd00::1", "", None):
        addresses.note(used)
    assert addresses.take() == "10.244.1.1"


def test_after_the_last_address_comes_the_first() -> None:
    addresses = Addresses("10.244.0.1")
    first = addresses.take()
    others = {addresses.take() for _ in range(MOST - 1)}
    assert first not in others
    assert addresses.take() == first
