"""Quantities, versions, URLs, addresses and networks, with Kubernetes' documented examples."""

from __future__ import annotations

import pytest

from tests.unit.actors.scheduling.cel.expressions import outcome


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('1Ki').isGreaterThan(quantity('1k'))",
        "quantity('50k').add(20) == quantity('50020')",
        "quantity('50k').sub(20000) == quantity('30k')",
        "quantity('50k').add(quantity('20k')) == quantity('70k')",
        "quantity('50000000G').isInteger()",
        "quantity('50k').asInteger() == 50000",
        "quantity('50.703k').asApproximateFloat() == 50703.0",
        "!quantity('9999999999999999999999999999999999999G').isInteger()",
        "isQuantity('1.3G')",
        "isQuantity('1.3Gi')",
        "!isQuantity('1,3G')",
        "!isQuantity('Three')",
        "isQuantity('10000k')",
        "quantity('200M').compareTo(quantity('0.2G')) == 0",
        "quantity('50M').compareTo(quantity('50Mi')) == -1",
        "quantity('50Mi').compareTo(quantity('50M')) == 1",
        "quantity('150Mi').isGreaterThan(quantity('100Mi'))",
        "quantity('50M').isLessThan(quantity('100M'))",
        "quantity('200M').isLessThan(quantity('0.2Gi')) == true",
        "sign(quantity('-1')) == -1",
        "sign(quantity('0')) == 0",
        "quantity('0.00000000000000000000000000001') == quantity('1n')",
        "semver('1.2.3').isLessThan(semver('1.10.0'))",
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0'))",
        "semver('1.0.0-alpha.1').isLessThan(semver('1.0.0-alpha.beta'))",
        "semver('1.2.3').compareTo(semver('1.2.3')) == 0",
        "semver('1.0.0+a') == semver('1.0.0+b')",
        "semver('1.2.3').major() == 1",
        "semver('1.2.3').minor() == 2",
        "semver('1.2.3').patch() == 3",
        "isSemver('1.0.0')",
        "!isSemver('v1.0')",
        "isSemver('v1.0', true)",
        "semver('v01.01', true) == semver('1.1.0')",
        "!isSemver('hello')",
        "!isSemver('200K', true)",
        "!isSemver('1.0.0.0')",
        "semver('v1.0.0-rc', true) == semver('1.0.0-rc')",
        "isURL('https://user:pass@example.com:80/path?query=val#fragment')",
        "isURL('/absolute-path')",
        "!isURL('https://a:b:c/')",
        "!isURL('../relative-path')",
        "url('https://example.com:80/path').getHost() == 'example.com:80'",
        "url('https://example.com/').getScheme() == 'https'",
        "url('/path').getScheme() == ''",
        "url('https://[::1]:80/').getHostname() == '::1'",
        "url('https://example.com:80/').getPort() == '80'",
        "url('https://example.com/').getPort() == ''",
        (
            "url('https://example.com/path with spaces/').getEscapedPath() == "
            "'/path%20with%20spaces/'"
        ),
        (
            "url('https://example.com/path?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], "
            "'k2': ['b', 'c']}"
        ),
        "ip('127.0.0.1').family() == 4",
        "ip('::1').family() == 6",
        "ip('127.0.0.1').isLoopback()",
        "ip('0.0.0.0').isUnspecified()",
        "ip('224.0.0.1').isLinkLocalMulticast()",
        "ip('169.254.169.254').isLinkLocalUnicast()",
        "ip('192.168.0.1').isGlobalUnicast()",
        "!ip('255.255.255.255').isGlobalUnicast()",
        "isIP('127.0.0.1')",
        "!isIP('127.0.0.256')",
        "isIP('::1')",
        "!isIP('::ffff:1.2.3.4')",
        "!isIP('fe80::1%en0')",
        "!isIP('1.2.3')",
        "ip.isCanonical('2001:db8::abcd')",
        "!ip.isCanonical('2001:DB8::ABCD')",
        "cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))",
        "!cidr('192.168.0.0/24').containsIP('192.168.1.1')",
        "cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))",
        "!cidr('192.168.0.0/16').containsCIDR('192.0.0.0/8')",
        "cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')",
        "cidr('192.168.0.1/24').ip() == ip('192.168.0.1')",
        "cidr('::1/128').prefixLength() == 128",
        "isCIDR('10.0.0.0/8')",
        "!isCIDR('10.0.0.0/33')",
        "string(cidr('10.0.0.0/8')) == '10.0.0.0/8'",
        "string(ip('::1')) == '::1'",
        "quantity('1') != null",
    ],
)
def test_is_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("quantity('x') == quantity('1')", "quantities must match the regular expression"),
        ("quantity('500m').asInteger() == 1", "cannot convert value to integer"),
        ("semver('1.0') == semver('1.0.0')", "No Major.Minor.Patch elements found"),
        ("ip('x') == ip('::1')", "parse error during conversion from string"),
        ("ip('fe80::1%en0') == ip('::1')", "with zone value is not allowed"),
        ("url('x') == url('y')", "URL parse error during conversion from string"),
        ("quantity(device.driver + '1') == quantity('1')", "quantities must match"),
        ("dyn(quantity('1')) == 'a'", "no such overload"),
        ("cidr('10.0.0.0/33').prefixLength() == 33", "prefix length out of range"),
    ],
)
def test_fails(expression: str, message: str) -> None:
    assert message in str(outcome(expression))
