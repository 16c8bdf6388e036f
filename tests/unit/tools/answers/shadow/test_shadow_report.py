"""The report of a shadow."""

from __future__ import annotations

from berth.tools.answers.shadow.placement_judge import Agreement
from berth.tools.answers.shadow.shadow_report import MOST_KEPT, Report, line_of
from berth.tools.answers.shadow.shadow_state import Placement

DIFFERENT = Placement("shop/web", "a", Agreement.DIFFERENT, "berth prefers b | c")


def report_of(*agreements: Agreement) -> Report:
    report = Report()
    for number, agreement in enumerate(agreements):
        report.add(Placement(f"shop/p{number}", "a", agreement))
    return report


def test_the_sentence_says_how_many_agree() -> None:
    assert Report().sentence() == "no pod was bound"
    assert report_of(Agreement.TIE).sentence() == "berth agrees about all 1 pod"
    three = report_of(Agreement.SAME, Agreement.ORDER, Agreement.DIFFERENT, Agreement.SAMPLED)
    assert three.sentence() == "berth agrees about 75.0% of 4 pods"
    assert three.differs


def test_the_document_counts_and_keeps_what_is_not_the_same() -> None:
    report = report_of(Agreement.SAME, Agreement.TIE)
    report.add(DIFFERENT)
    document = report.document(2)
    assert (document["judged"], document["skipped"]) == (3, 2)
    assert document["agreements"]["same"] == 1
    assert document["placements"] == [
        {"pod": "shop/web", "node": "a", "agreement": "different", "reason": "berth prefers b | c"}
    ]


def test_markdown_cannot_be_broken_by_a_reason() -> None:
    report = Report()
    report.add(DIFFERENT)
    assert report.markdown(0).splitlines()[-1] == (
        "| shop/web | a | different | berth prefers b &#124; c |"
    )


def test_a_line_has_no_control_characters() -> None:
    hostile = Placement("shop/web", "a\x1b[2J\n", Agreement.DIFFERENT)
    assert line_of(hostile).isprintable()


def test_the_kept_placements_are_bounded() -> None:
    report = Report()
    for _ in range(MOST_KEPT + 1):
        report.add(DIFFERENT)
    assert (len(report.kept), report.judged) == (MOST_KEPT, MOST_KEPT + 1)
