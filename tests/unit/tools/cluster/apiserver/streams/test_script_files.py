"""Files of scripts: whom they concern, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.tools.cluster.apiserver.streams.script_files import read_scripts
from berth.tools.kubernetes.kubelet.scripts.commands import Outcome, ScriptError
from berth.tools.kubernetes.kubelet.scripts.script_rules import Scripts
from tests.kit.documents import pod

FILE = """\
scripts:
- selector: {matchLabels: {app: web}}
  namespaces: [shop]
  containers: [c]
  logs: started
  exec: {date: Thu}
  attach: {echo: true}
  ports: {80: 18080}
- call: script_of_a_test:run
"""
MODULE = "async def run(process):\n    return 3\n"


def test_the_first_entry_that_concerns_a_container_counts(tmp_path: Path) -> None:
    (tmp_path / "script_of_a_test.py").write_text(MODULE)
    (tmp_path / "scripts.yaml").write_text(FILE)
    scripts = Scripts(read_scripts(tmp_path / "scripts.yaml"))
    web, other = pod("p", namespace="shop", labels={"app": "web"}), pod("p")
    assert scripts.logs(web, "c", previous=False) == "started"
    assert scripts.logs(other, "c", previous=False) == ""
    assert scripts.command(web, "c", ["date"]) == Outcome("Thu\n")
    assert scripts.attach(web, "c") == Outcome(echo=True)
    assert (scripts.port(web, 80), scripts.port(other, 80)) == (18080, None)
    called = scripts.command(other, "c", ["date"])
    assert callable(called)
    assert scripts.attach(other, "c") is called


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected one document, got 0"),
        ("scripts: 5", "scripts.yaml: Expected `array`"),
        ("scripts: [{log: x}]", "unknown field `log`"),
        ("scripts: [{exec: {a: [1]}}]", "scripts[0]: 'a': expected text"),
        ("scripts: [{}, {ports: {80: 0}}]", "scripts[1]: expected a port from 1 to 65535"),
        ("scripts: [{call: nobody}]", "scripts[0]: call: expected module:function"),
        ("scripts: [{call: 'no_such_module:f'}]", "call: no_such_module: ModuleNotFoundError"),
        ("scripts: [{call: 'os:no_such'}]", "call: expected module:function, got 'os:no_such'"),
        ("scripts: [{call: 'os:abort', attach: x}]", "expected either call or exec and attach"),
        (
            "scripts: [{selector: {matchExpressions: [{key: a, operator: Odd}]}}]",
            "scripts[0]: ",
        ),
        ("a: b: c", "line 1"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "scripts.yaml"
    file.write_text(text)
    with pytest.raises(ScriptError) as wrong:
        read_scripts(file)
    assert problem in str(wrong.value)
