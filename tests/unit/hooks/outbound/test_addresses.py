from __future__ import annotations

import pytest

from hooks.outbound.addresses import AddressRefused, AllowedHosts, is_public, may_reach


@pytest.mark.parametrize(
    "ip",
    [
        "1.1.1.1",
        "93.184.216.34",
        "8.8.8.8",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_the_open_internet_is_public(ip: str) -> None:
    assert is_public(ip)


@pytest.mark.parametrize(
    "ip",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0",  # noqa: S104
        "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "198.18.0.1",
        "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "100.100.100.200",
        "168.63.129.16", "ff02::1", "2001:db8::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::",
        "2001:0:7f00:1::1", "fec0::1",
        "", "localhost", "1.1.1", "2130706433", "0x7f000001", "1.1.1.1 ", "999.1.1.1",
    ],
)  # fmt: skip
def test_everything_else_is_not(ip: str) -> None:
    assert not is_public(ip)


@pytest.mark.parametrize(
    "ip", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd12::1", "::ffff:10.0.0.1"]
)
def test_a_network_of_ours_may_be_reached_where_that_is_allowed(ip: str) -> None:
    assert may_reach(ip, allows_private=True)
    assert not may_reach(ip, allows_private=False)
    assert may_reach("1.1.1.1", allows_private=True)
    assert may_reach("1.1.1.1", allows_private=False)


@pytest.mark.parametrize(
    "ip",
    ["169.254.169.254", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "0.0.0.0",  # noqa: S104
     "::", "224.0.0.1", "ff02::1", "240.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
     "2002:7f00:1::", ""],
)  # fmt: skip
def test_where_clouds_keep_credentials_is_never_reached(ip: str) -> None:
    assert not may_reach(ip, allows_private=True)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("example.com", "https://example.com/a.png?x=1#fragment"),
        ("example.com", "http://EXAMPLE.com./"),
        ("example.com", "https://example.com:443/a"),
        ("*.example.com", "https://a.b.example.com/a"),
        ("example.com:8443", "https://example.com:8443/a"),
        ("*", "https://anything.org/a"),
        ("*:8080", "http://anything.org:8080/a"),
        ("1.1.1.1", "http://1.1.1.1/a"),
        ("xn--mnchen-3ya.de", "https://münchen.de/a"),
    ],
)
def test_hosts_on_the_list_may_be_asked(rule: str, url: str) -> None:
    assert AllowedHosts([rule]).check(url)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("example.com", "https://example.org/a"),
        ("example.com", "https://a.example.com/a"),
        ("example.com", "https://badexample.com/a"),
        ("example.com", "https://example.com.evil.org/a"),
        ("example.com", "https://example.com:8443/a"),
        ("example.com", "https://example.com:80/a"),
        ("example.com:8443", "https://example.com/a"),
        ("*.example.com", "https://example.com/a"),
        ("*.example.com", "https://aexample.com/a"),
        ("example.com", "https://example.com@evil.org/"),
        ("*", "https://user:secret@example.com/"),
        ("*", "ftp://example.com/a"),
        ("*", "file:///etc/passwd"),
        ("*", "gopher://example.com/"),
        ("*", "data:image/png;base64,AAAA"),
        ("*", "//example.com/a"),
        ("*", "example.com/a"),
        ("*", "https://"),
        ("*", "https:///a"),
        ("*", "http://[::1/a"),
        ("*", "http://example.com:99999/a"),
        ("*", "http://example.com:x/a"),
        ("*", "http://exam ple.com/a"),
        ("*", "http://example.com/a\r\nHost: other"),
        ("*", "http://example.com/ä"),
        ("*", "http://example.com\\@evil.org/"),
        ("*", "http://example.com/" + "a" * 5000),
        ("*", "http://" + "a" * 300 + ".com/"),
        ("*", ""),
    ],
)
def test_other_urls_are_refused(rule: str, url: str) -> None:
    with pytest.raises(AddressRefused):
        AllowedHosts([rule]).check(url)


def test_the_parts_of_an_address() -> None:
    address = AllowedHosts(["*"]).check("https://Example.com/a/b.png?c=d&e#f")
    assert (address.scheme, address.host, address.port) == ("https", "example.com", 443)
    assert address.target == "/a/b.png?c=d&e"
    assert AllowedHosts(["*"]).check("http://example.com?x").target == "/?x"


@pytest.mark.parametrize(
    "rule",
    ["", "https://example.com", "a b", "*.*.com", "*com", "a.com/", "a.com:", "a.com:0", "a.com:70000"],
)
def test_rules_that_mean_nothing_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=r"host|port"):
        AllowedHosts([rule])


def test_no_rules_are_no_hosts() -> None:
    assert not AllowedHosts([])
    assert AllowedHosts(["a.com"])
