"""The table of verbs: each row tells all that help, the documentation and the page need."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from click.testing import CliRunner

from berth.tools.answers.whatif.verbs import OFFERED, VERBS, Verb, parsed
from berth.tools.views.commands.whatif import whatif

SCRIPT = files("berth.tools.views.page") / "static" / "whatif.js"
EXAMPLES = {
    "NUMBER": "3",
    "KEY[=VALUE]:EFFECT[-]": "team=a:NoSchedule",
    "KIND/NAME": "deployment/web",
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_row_is_whole(verb: Verb) -> None:
    words = [EXAMPLES.get(word, word.lower().strip("[]")) for word in verb.words]
    step = parsed(" ".join(words))
    assert step.verb is verb
    assert len(step.words) == len(verb.places)
    assert set(verb.labels) <= set(verb.places)
    assert ("FILE" in verb.places) == bool(verb.content)


def test_the_page_has_a_field_for_each_word_of_the_verbs_that_it_offers() -> None:
    fields = SCRIPT.read_text().split("const FIELDS = {")[1].split("};")[0]
    known = set(re.findall(r'"?([^\s",:]+(?::[^\s":]+)?)"?: \[', fields))
    offered = [VERBS[of.form.split()[0]] for of in OFFERED if of.real]
    assert {place for verb in offered for place in verb.places} == known


def test_help_tells_every_verb() -> None:
    told = CliRunner().invoke(whatif, ["--help"]).output
    for verb in VERBS.values():
        assert f"{verb.form} {verb.help}" in " ".join(told.split())
