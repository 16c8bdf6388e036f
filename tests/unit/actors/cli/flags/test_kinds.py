"""Values of flags: what pflag accepts, what it refuses, and how Go prints them."""

from __future__ import annotations

import pytest

from berth.actors.cli.flags import kinds
from berth.actors.cli.flags.kinds import Kind

# The kind, the text, and the value as Go prints it.
READ = [
    *((kinds.BOOL, text, "true") for text in ("1", "t", "T", "TRUE", "true", "True")),
    *((kinds.BOOL, text, "false") for text in ("0", "f", "F", "FALSE", "false", "False")),
    (kinds.INT, "-12", "-12"),
    (kinds.INT, "0x1F", "31"),
    (kinds.INT, "010", "8"),
    (kinds.INT, "0o10", "8"),
    (kinds.INT, "1_000", "1000"),
    (kinds.INT32, "2147483647", "2147483647"),
    (kinds.FLOAT, "50", "50"),
    (kinds.FLOAT, "1e3", "1000"),
    (kinds.FLOAT, "0.5", "0.5"),
    (kinds.DURATION, "5m", "5m0s"),
    (kinds.DURATION, "1500ms", "1.5s"),
    (kinds.DURATION, "1h", "1h0m0s"),
    (kinds.IP, "::", "::"),
    (kinds.IP, " 10.0.0.1", "10.0.0.1"),
    (kinds.IP, "::ffff:10.0.0.1", "10.0.0.1"),
    (kinds.IP, "", "0.0.0.0"),
    (kinds.LEVEL, "10", "10"),
    (kinds.QUANTITY, "2Ki", "2Ki"),
    (kinds.STRINGS, "", "[]"),
    (kinds.STRINGS, "a,b", "[a,b]"),
    (kinds.STRINGS, 'a,"b,c"', '[a,"b,c"]'),
    (kinds.INTEGERS, "29,23", "[29,23]"),
    (kinds.PAIRS, "m,l=a,b", '["m,l=a,b"]'),
    (kinds.PAIRS, "a=1,b=2", "[a=1,b=2]"),
    (kinds.GATES, "kube:A=true, B=false,", ":B=false,kube:A=true"),
    (kinds.VMODULE, "a=2,b*=3,", "a=2,b*=3"),
    (kinds.CERTIFICATES, "a.crt, a.key", "[a.crt,a.key]"),
    (kinds.CERTIFICATES, "a.crt,a.key: *.foo.com,foo.com", "[a.crt,a.key:*.foo.com,foo.com]"),
    (kinds.VERSION, "1", "true"),
    (kinds.VERSION, "raw", "raw"),
]
REFUSED = [
    (kinds.BOOL, "yes"),
    (kinds.BOOL, ""),
    (kinds.INT, "1.5"),
    (kinds.INT, "08"),
    (kinds.INT, "1_"),
    (kinds.INT, "9223372036854775808"),
    (kinds.INT32, "2147483648"),
    (kinds.FLOAT, "fast"),
    (kinds.DURATION, "5"),
    (kinds.DURATION, "9999999h"),
    (kinds.IP, "localhost"),
    (kinds.IP, "fe80::1%eth0"),
    (kinds.LEVEL, "-1"),
    (kinds.LEVEL, "2147483648"),
    (kinds.QUANTITY, "much"),
    (kinds.STRINGS, 'a,"b'),
    (kinds.INTEGERS, "29,"),
    (kinds.PAIRS, "a"),
    (kinds.PAIRS, ""),
    (kinds.PAIRS, "a=1,b=2,c"),
    (kinds.VMODULE, "a"),
    (kinds.VMODULE, "=2"),
    (kinds.VMODULE, "a=b=2"),
    (kinds.CERTIFICATES, "a.crt"),
    (kinds.CERTIFICATES, "a.crt,a.key:"),
    (kinds.VERSION, "latest"),
]


@pytest.mark.parametrize(("kind", "text", "shown"), READ)
def test_what_is_read_is_shown_as_go_shows_it(kind: Kind, text: str, shown: str) -> None:
    assert kind.show(kind.parse(text)) == shown


@pytest.mark.parametrize(("kind", "text"), REFUSED)
def test_what_pflag_refuses_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|quantit"):
        kind.parse(text)
