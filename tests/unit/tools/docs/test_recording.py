"""The recording of `berth top`: one picture after another in one SVG."""

from __future__ import annotations

from berth.tools.docs.recording import played

FONT = '@font-face { src: url("https://example.org/a.woff") }'


def test_later_frames_lie_over_the_first_and_appear_in_turn() -> None:
    text = played([f"<svg><style>{FONT}</style><text>{name}</text></svg>" for name in "abc"])
    assert "example.org" not in text
    before, second, third = text.split('<g class="later" style="animation-delay: ')
    assert "<text>a</text>" in before
    assert "33.333% { visibility: hidden }" in before
    assert second.startswith('2.5s"><svg>')
    assert "<text>b</text></svg></g>" in second
    assert third.startswith('5s"><svg>')
    assert third.endswith("<text>c</text></svg></g></svg>\n")
