"""The actions of a page, such as what-ifs and drains, which differ from server to server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

BUTTONS = ("cordon", "uncordon", "drain", "delete")  # of a node
Weights = Mapping[str, Mapping[str, int]]


class OfferedVerb(msgspec.Struct, frozen=True):
    """A verb of what-ifs on the page: its form, its title, and the labels of fields that differ
    from the usual ones. One that is not `real` can only be tried, and is no step to choose.
    """

    form: str
    title: str
    labels: dict[str, str]
    real: bool


Verbs = Sequence[OfferedVerb]


class PageActions(msgspec.Struct, frozen=True):
    """The actions that a page offers. `token` goes with each POST.

    With `acts` nodes can be changed, with `asks` what-ifs can be asked, with `does` their steps can
    be taken for real. `schedules` is False without a scheduler. `weights` are the weights of score
    plugins, by profile, and `verbs` the verbs of what-ifs.
    """

    token: str = ""
    acts: bool = False
    asks: bool = False
    does: bool = False
    schedules: bool = True
    weights: Weights = {}
    verbs: Verbs = ()
