"""Rules of outgoing webhooks: kinds, bodies, pauses, addresses."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from holdfast.core.event import Event, Position
from holdfast.core.event_kinds import TABLE, EventClass, TopicRule
from holdfast.core.fleet.webhooks.address import AddressRules, WebhookTarget, is_public
from holdfast.core.fleet.webhooks.rules import (
    BODY_BYTES_MAX,
    KINDS_DEFAULT,
    RETRY_SECONDS,
    DeliveryVerdict,
    check_kinds,
    message_of,
    prefixes,
    retry_seconds,
    verdict_of,
    wants,
)
from holdfast.core.redaction import Redaction
from holdfast.errors import BadConfig, InvalidInput

RULES = Redaction()


def event(kind: str, **data: Any) -> Event:
    return Event(Position("e", 7), kind, 1_800_000_000.0, "", "", data)


def test_kinds_are_those_of_the_table_or_groups() -> None:
    assert check_kinds([]) == KINDS_DEFAULT
    assert check_kinds(["job.*", "task.dead", "host.added", "job.*"]) == (
        *("job.*", "task.dead", "host.added"),
    )
    for kind in ("job", "job.odd", "*", "task.output", "token.*", "audit.x", "webhook.added", ""):
        with pytest.raises(InvalidInput, match="kinds"):
            check_kinds([kind])
    with pytest.raises(InvalidInput, match="at most 100"):
        check_kinds(["job.*"] * 101)


def test_an_endpoint_gets_what_it_asked_for_and_nothing_about_credentials() -> None:
    every = [row.kind if not row.kind.endswith(".") else f"{row.kind}x" for row in TABLE]
    groups = sorted({f"{kind.partition('.')[0]}.*" for kind in every})
    for row, kind in zip(TABLE, every, strict=True):
        is_inside = TopicRule.ADMIN in row.topics
        is_frequent = row.event_class is EventClass.INFORMATIONAL
        assert wants(groups, event(kind)) is not (is_inside or is_frequent), kind
        assert not wants(["none.*"], event(kind))
    assert wants(["task.dead"], event("task.dead"))
    assert not wants(["task.dead"], event("task.failed"))
    assert prefixes(["task.dead", "job.*"]) == {"task.dead", "job."}


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=3_000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=50), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=300), values, max_size=12))
def test_a_body_is_bounded_and_the_same_each_time(data: dict[str, Any]) -> None:
    of = event("job.finished", **data)
    message = message_of("whk_1", of, RULES)
    assert message == message_of("whk_1", of, RULES)
    assert len(message.body.encode()) < BODY_BYTES_MAX
    body = msgspec.json.decode(message.body)
    assert body.keys() == {"type", "timestamp", "data"}
    assert message.id == "msg_whk_1_e_7"


@given(st.text(min_size=1, max_size=50), st.integers(1, len(RETRY_SECONDS)))
def test_pauses_are_those_of_the_table_up_to_a_fifth_longer(message: str, attempts: int) -> None:
    pause = retry_seconds(message, attempts)
    assert pause is not None
    assert RETRY_SECONDS[attempts - 1] <= pause < 1.2 * RETRY_SECONDS[attempts - 1]
    assert pause == retry_seconds(message, attempts)
    assert retry_seconds(message, attempts, asked=1e9) == 86_400.0 or attempts == 9
    assert retry_seconds(message, len(RETRY_SECONDS) + 1) is None


@given(st.integers(100, 599))
def test_only_a_status_of_success_delivers(status: int) -> None:
    verdict = verdict_of(status)
    assert (verdict is DeliveryVerdict.DELIVERED) == (200 <= status <= 299)
    assert (verdict is DeliveryVerdict.GONE) == (status == 410)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1"),
        *("::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1"),
        *("2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b:1::7f00:1", "::7f00:1", "::808:808"),
        *("::ffff:0:7f00:1", "fec0::1", "192.0.0.8", "3fff::1", "5f00::1", "168.63.129.16"),
    ],
)
def test_addresses_inside_are_not_public(address: str) -> None:
    assert not is_public(ip_address(address))
    target = WebhookTarget(True, "x.example", 443, "/")
    assert not AddressRules().allows(target, ip_address(address))
    assert AddressRules([address]).allows(target, ip_address(address))
    assert AddressRules(["X.example"]).allows(target, ip_address(address))


def test_public_addresses_are_public() -> None:
    for address in (
        "8.8.8.8",
        "2606:4700::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::",
    ):
        assert is_public(ip_address(address)), address


PRIVATE = [ip_network(text) for text in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16")]


@given(st.sampled_from(PRIVATE), st.integers(0, 2**24 - 1), st.sampled_from(["", "::ffff:"]))
def test_no_private_address_passes_in_any_form(network: Any, host: int, prefix: str) -> None:
    address = ip_address(int(network.network_address) + host % network.num_addresses)
    assert not is_public(ip_address(f"{prefix}{address}"))
    with pytest.raises(InvalidInput):
        AddressRules().parse(f"https://{address}/")


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://a.example", WebhookTarget(True, "a.example", 443, "/")),
        ("https://A.example:8443/x?y=z", WebhookTarget(True, "a.example", 8443, "/x?y=z")),
        ("https://[2606:4700::1]/", WebhookTarget(True, "2606:4700::1", 443, "/")),
        ("http://in.example:80/", WebhookTarget(False, "in.example", 80, "/")),
        ("http://10.0.0.9/", WebhookTarget(False, "10.0.0.9", 80, "/")),
    ],
)
def test_urls_in_their_parts(url: str, target: WebhookTarget) -> None:
    rules = AddressRules(["in.example", "10.0.0.0/8"])
    assert rules.parse(url) == target
    name = "[2606:4700::1]" if ":" in target.host else target.host
    assert target.authority == (name if target.port in (80, 443) else f"{name}:{target.port}")
    assert "[::2]:" in target.at("::2")
    assert target.at("1.2.3.4").endswith(target.path)


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "ftp://a.example/", "https://", "https:///x", "https://a.example#f"),
        *("https://user:pass@a.example/", "https://a.example:0/", "https://a.example:70000/"),
        *("https://a example/", "https://a.example/\n", "http://a.example/", "https://[::1]/"),
        *("https://[fe80::1%25eth0]/", "https://a.example/" + "x" * 2_000),
        *("https://a..example/", "https://.example/", f"https://{'a' * 64}.example/"),
        f"https://{'a.' * 127}example/",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        AddressRules().parse(url)


def test_what_cannot_be_allowed_is_a_wrong_setting() -> None:
    for text in ("a b", "10.0.0.0/99", "", "https://a.example"):
        with pytest.raises(BadConfig, match="allow has"):
            AddressRules([text])
