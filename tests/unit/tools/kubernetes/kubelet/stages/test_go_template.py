"""Templates: what they render, and how errors name the line."""

from __future__ import annotations

from typing import Any

import pytest

from berth.tools.kubernetes.kubelet.stages.functions import NAMES, functions
from berth.tools.kubernetes.kubelet.stages.go_nodes import TemplateError
from berth.tools.kubernetes.kubelet.stages.go_template import Template

DATA: dict[str, Any] = {
    "name": "web",
    "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]},
    "labels": {"b": "2", "a": "1"},
    "ready": True,
    "none": None,
    "count": 3,
}


def rendered(text: str) -> str:
    return Template(text, NAMES).render(DATA, functions({"Now": lambda: "noon"}))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain", "plain"),
        ("{{ .name }}-{{ .count }}", "web-3"),
        ("{{ .absent }}{{ .absent.deeper }}", "<no value><no value>"),
        ("{{ $x := .name }}{{ $x }}{{ $.count }}", "web3"),
        ("{{ $x := 1 }}{{ if .ready }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        ("{{ $x := 1 }}{{ if .ready }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        ("{{ if .none }}a{{ else if .ready }}b{{ else }}c{{ end }}", "b"),
        ("{{ if not .ready }}a{{ else }}c{{ end }}", "c"),
        ("{{ range .spec.containers }}{{ .name }}{{ $.name }} {{ end }}", "aweb bweb "),
        ("{{ range $i, $c := .spec.containers }}{{ $i }}{{ $c.image }}{{ end }}", "0x1y"),
        ("{{ range $c := .spec.containers }}{{ $c.name }}{{ end }}", "ab"),
        ("{{ range $k, $v := .labels }}{{ $k }}={{ $v }};{{ end }}", "a=1;b=2;"),
        ("{{ range .absent }}x{{ else }}none{{ end }}", "none"),
        (
            '{{ range .spec.containers }}{{ if eq .name "b" }}{{ break }}{{ end }}!{{ end }}',
            "!",
        ),
        (
            '{{ range .labels }}{{ if eq . "1" }}{{ continue }}{{ end }}{{ . }}{{ end }}',
            "2",
        ),
        ("{{ with .labels }}{{ .a }}{{ else }}none{{ end }}", "1"),
        ("{{ with .absent }}{{ .a }}{{ else }}none{{ end }}", "none"),
        ("a {{- /* nothing */ -}} b", "ab"),
        ("a {{- .name -}} b", "awebb"),
        ("{{ or .none .name }}{{ and .ready 0 }}", "web0"),
        ('{{ or .absent `""` }}', '""'),
        ("{{ (index .spec.containers 1).image }}", "y"),
        ('{{ index .labels "a" | printf "%s-%d-%q" "x" 5 }}', 'x-5-"1"'),
        ("{{ len .spec.containers }}{{ len .absent }}", "20"),
        (
            '{{ eq .count 1 2 3 }} {{ ne .name "web" }} {{ lt 1 2 }} {{ ge 1 2 }}',
            "true false true false",
        ),
        ("{{ .name | Quote }}{{ .count | Quote }}{{ true | Quote }}", '"web""3""true"'),
        ("{{ Now }}", "noon"),
        ("k:{{ YAML .labels 1 }}", "k:\n  a: '1'\n  b: '2'\n  "),
        ('{{ .none | default "d" }}{{ ternary "y" "n" .ready }}', "dy"),
        ('{{ $d := or .annotations dict }}{{ index $d "x" }}', "<no value>"),
        ("{{ .spec.containers }}", "[map[image:x name:a] map[image:y name:b]]"),
        ('{{ replace "e" "o" .name | upper }} {{ join "," (list 1 2) }}', "WOB 1,2"),
    ],
)
def test_rendered(text: str, result: str) -> None:
    assert rendered(text) == result


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\n{{ if .x }}\nb", "line 3: expected {{end}} before the end of the template"),
        ("a\n{{ end }}", "line 2: unexpected {{end}}"),
        ("{{ nothing .x }}", "line 1: function 'nothing' is not known"),
        ("a\n\n{{ .x ", "line 3: expected }} after {{"),
        ("{{ $x }}", "line 1: variable $x is not declared"),
        ("{{ .x | 3 }}", "line 1: expected a function after |, got }}"),
        ("{{ .x .y }}", "line 1: expected | or }}, got .y"),
        ("{{ (.x }}", "line 1: expected ), got }}"),
        ("{{ break }}", "line 1: expected break inside of range, got break"),
        (
            "{{ range .x }}{{ else if .y }}{{ end }}",
            "line 1: expected {{else}} or {{else range …}}",
        ),
        ("{{ ^ }}", "line 1: unexpected '^'"),
        ("{{ if .x }}{{ $y := 1 }}{{ end }}{{ $y }}", "line 1: variable $y is not declared"),
        ("{{ if 1 }}" * 5000 + "{{ end }}" * 5000, "line 1: nested too deeply"),
        ("\n{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "line 2: nested too deeply"),
    ],
)
def test_errors_of_a_text_name_the_line(text: str, problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        Template(text, NAMES)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\n{{ .name.x }}", "line 3: .x: expected a mapping, got web"),
        ("a\n{{ index .spec.containers 7 }}", "line 2: index: index 7 is out of range of 2 items"),
        ("{{ index .count 1 }}", "line 1: index: expected a list or a mapping, got 3"),
        ('{{ printf "%d" }}', "line 1: printf: expected a value for %d"),
        ("{{ Now 1 }}", "line 1: Now: "),
        ("{{ upper .count }}", "line 1: upper: "),
        ("{{ .a" + ".a" * 5000 + " }}", "line 1: nested too deeply"),
        ("\n{{ range 100000000000 }}x{{ end }}", "line 2: range: expected at most 100,000 turns"),
        (
            "{{ range 1000 }}\n{{ range 1000 }}{{ end }}{{ end }}",
            "line 2: range: expected at most 100,000 turns",
        ),
        ("{{ range .name }}{{ end }}", "line 1: range: expected a list, a mapping or a number"),
        ("{{ range 100 }}" + "x" * 50_000 + "{{ end }}", "line 1: the text is longer than"),
        (
            '{{ $x := "x" }}{{ range 40 }}{{ $x = print $x $x }}{{ end }}',
            "line 1: print: the text is longer than",
        ),
        (
            "\n{{ $l := list 1 }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ $l }}",
            "line 2: list: expected at most 100,000 items",
        ),
        (
            '{{ $d := "" }}{{ range 60 }}{{ $d = dict "a" $d "b" $d }}{{ end }}{{ toJson $d }}',
            "line 1: dict: expected at most 100,000 items",
        ),
        (
            '{{ $l := indent 999 "x" }}{{ range 14 }}{{ $l = list $l $l }}{{ end }}',
            "line 1: list: the text is longer than",
        ),
        (
            '{{ $x := indent 999 "x" }}{{ range 3 }}{{ $x = replace " " $x $x }}{{ end }}',
            "line 1: replace: the text is longer than",
        ),
        (
            "{{ $n := 2 }}{{ range 60 }}{{ $n = mul $n $n }}{{ end }}",
            "line 1: mul: the number has more than 64 bits",
        ),
        ('{{ printf "%9999999999s" 1 }}', "line 1: printf: expected at most 1000 places"),
        ('{{ indent 9999999999 "x" }}', "line 1: indent: expected at most 1000 places"),
    ],
)
def test_errors_of_an_execution_name_the_line(text: str, problem: str) -> None:
    with pytest.raises(TemplateError) as caught:
        rendered(text)
    assert str(caught.value).startswith(problem)
