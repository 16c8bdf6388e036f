"""The actions of Go templates that scheduler_perf's files use."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.bench.templates import Template, TemplateError, Value, fill

VALUES: dict[str, Value] = {"Index": 27, "Count": 1000, "Zone": "a", "On": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("{{.Index}} of {{ .Count }}", "27 of 1000"),
        ("{{ DivideInt 30000 .Count }}Mi", "30Mi"),
        ("8{{ Mod .Index 12 }}", "83"),
        ("{{ Mod -7 3 }}", "-1"),
        ("{{ DivideInt .Index 10 }}", "2"),
        ("{{ DivideFloat .Index 10 }}", "2.7"),
        ("{{ AddInt 1 2 .Index }} {{ SubtractInt 1 3 }} {{ MultiplyInt 2 3 4 }}", "30 -2 24"),
        ("{{ AddFloat 0.5 1 }} {{ SubtractFloat 1 0.5 }} {{ MultiplyFloat 2 0.5 }}", "1.5 0.5 1"),
        ('{{ AddInt "4" 1 }}', "5"),
        ("{{ Mod (AddInt .Index 1) 5 }}", "3"),
        ("{{ .Index | SubtractInt 30 }}", "3"),
        ("{{ .Zone }}{{ .On }}", "atrue"),
        ("a {{- .Index }} b", "a27 b"),
        ("a {{- .Index -}} b", "a27b"),
        ("a {{ .Index -}}  b", "a 27b"),
        ("a{{/* nothing */}}b", "ab"),
    ],
)
def test_actions(text: str, expected: str) -> None:
    assert fill(text, VALUES) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{ .Indx }}", r"\.Indx is not defined, only \.Index"),
        ("{{ if .On }}x{{ end }}", "unknown function 'if'"),
        ("{{ Divide 1 2 }}", "unknown function 'Divide'"),
        ("{{ DivideInt 1 0 }}", "division by zero"),
        ("{{ Mod 1 0 }}", "division by zero"),
        ("{{ DivideInt 1 }}", "DivideInt does not take 1 arguments"),
        ("{{ AddInt .Zone 1 }}", "expected a number, got 'a'"),
        ("{{ AddInt .On 1 }}", "expected a number, got True"),
        ("{{ (AddInt 1 2 }}", r"expected \)"),
        ("{{ .Index .Count }}", "unexpected '.Count'"),
        ("{{ }}", "expected a value, got nothing"),
        ("{{ %s }}", "cannot be read from"),
    ],
)
def test_an_invalid_action_is_refused(text: str, problem: str) -> None:
    with pytest.raises(TemplateError, match=problem):
        Template("some.yaml", f"a: {text}").document(VALUES)


def test_a_template_without_actions_is_parsed_once() -> None:
    template = Template("t", "metadata: {name: a}")
    assert template.document({}) is template.document({})
    other = Template("t", "metadata: {name: 'a-{{.Index}}'}")
    assert [other.document({"Index": i}) for i in (0, 1)] == [
        {"metadata": {"name": f"a-{i}"}} for i in (0, 1)
    ]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("kind: Pod")
    assert Template.read(tmp_path / "t.yaml").document({}) == {"kind": "Pod"}
    for name, text in (("list.yaml", "[]"), ("bad.yaml", "a: ["), ("meta.yaml", "metadata: 3")):
        (tmp_path / name).write_text(text)
        with pytest.raises(TemplateError, match=name):
            Template.read(tmp_path / name)
    with pytest.raises(TemplateError, match=r"missing\.yaml: cannot be read"):
        Template.read(tmp_path / "missing.yaml")
