"""Addresses of gateways: one meaning for queues, clients, nodes and commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast import TaskQueue
from holdfast.app import http_of
from holdfast.client import Client, Node
from holdfast.client.address import Tls, check_token, read_addresses
from holdfast.errors import BadConfig

TWO = ("http://a:1", "http://b:2")
SAME = [
    "holdfast://a:1,b:2",
    "holdfast://a:1,holdfast://b:2",
    "http://a:1,http://b:2",
    "http://a:1, http://b:2/",
    "grpc://a:1,b:2",
    ["http://a:1", "http://b:2"],
    ["holdfast://a:1", "grpc://b:2/"],
    ("holdfast://a:1", "b:2"),
]


@pytest.mark.parametrize("given", SAME)
async def test_all_ways_of_writing_two_gateways_mean_the_same_everywhere(
    given: str | Sequence[str], tmp_path: Path
) -> None:
    assert read_addresses(given).urls == TWO
    assert tuple(Client(given, token="t")._http.urls) == TWO
    http = http_of(TaskQueue(given, token="t"))
    assert http is not None
    assert tuple(http.urls) == TWO
    async with await Node.open(tmp_path, gateway=given) as node:
        assert tuple(node._http.urls) == TWO
    async with await Node.open(tmp_path) as node:
        assert tuple(node._http.urls) == TWO, "the identity has both"


def test_the_environment_is_read_as_an_argument_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "t")
    for given in SAME:
        if isinstance(given, str):
            monkeypatch.setenv("HOLDFAST_GATEWAY", given)
            assert tuple(Client()._http.urls) == TWO


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        ("http://host:8787/", ["http://host:8787"]),
        ("holdfasts://host", ["https://host:8787"]),
        ("https://host/prefix/", ["https://host/prefix"]),
        ("holdfast://a:1,b:2/prefix", ["http://a:1/prefix", "http://b:2/prefix"]),
        ("http://a:1/x,http://b:2/y", ["http://a:1/x", "http://b:2/y"]),
        ("grpcs://[::1]:1,[::2]", ["https://[::1]:1", "https://[::2]:8787"]),
    ],
)
def test_ports_and_paths(given: str, urls: list[str]) -> None:
    assert list(read_addresses(given).urls) == urls


def test_options_are_for_all_gateways() -> None:
    read = read_addresses("grpcs://a:1,b:2?ca=ca.pem&grpc_port=9")
    assert (read.prefers_grpc, read.grpc_port, read.tls) == (True, 9, Tls(ca="ca.pem"))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("", "is missing"),
        ([], "is missing"),
        (["http://a:1", ""], "a gateway is missing in 'http://a:1,'"),
        (",http://a:1", "a gateway is missing"),
        (
            "http://a:1?ca=nowhere.pem",
            "ca=nowhere.pem in the address of the gateway cannot be used",
        ),
        ("host:8787", "has no scheme"),
        ("ftp://host", "is not the address of a gateway"),
        ("http://", "names no host"),
        ("http://ann:pw@host", "has a login"),
        ("http://host?a=1", "no option 'a'"),
        ("http://h:x", "the port of http://h:*** is not one"),
        ("http://h:99999", "the port of http://h:99999 is not one: give a number from 1 to 65535"),
        ("http://h:0", "the port of http://h:0 is not one"),
        ("http://a:1,https://b:2", "with TLS and without"),
        ("http://a b:1", "cannot be read"),
        ("http://h\x00", "control characters"),
    ],
)
def test_an_error_names_the_mistake(given: str | list[str], text: str) -> None:
    for read in (lambda url: read_addresses(url).tls.context(), lambda url: Client(url, token="t")):
        with pytest.raises(BadConfig) as raised:
            read(given)
        assert text in str(raised.value)
        assert "pw" not in str(raised.value)


@pytest.mark.parametrize(
    "token", ["", " \n", "hf_user_se cret", "hf_user_se\ncret", "hf_user_sécret"]
)
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(BadConfig) as raised:
        Client("http://h:1", token=token)
    assert "cret" not in str(raised.value)
    with pytest.raises(BadConfig) as raised:
        TaskQueue("http://h:1", token=token)
    assert "cret" not in str(raised.value)


def test_blanks_around_a_token_are_left_out() -> None:
    assert check_token("hf_user_x\n") == "hf_user_x"
