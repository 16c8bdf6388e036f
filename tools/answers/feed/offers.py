"""What a page offers besides looking, which differs from server to server."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

Weights = Mapping[str, Mapping[str, int]]


class Offers(msgspec.Struct, frozen=True):
    """The things that a page offers. `token` goes with each POST.

    With `acts` nodes can be changed, with `asks` what-ifs can be asked, with `does` their steps can
    be taken for real. `schedules` is False without a scheduler. `weights` are the weights of score
    plugins, by profile.
    """

    token: str = ""
    acts: bool = False
    asks: bool = False
    does: bool = False
    schedules: bool = True
    weights: Weights = {}
