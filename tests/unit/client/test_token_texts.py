"""Tokens as people and files give them: stripped and checked in one place, and never in an error."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from holdfast import TaskQueue
from holdfast.cli.main import main
from holdfast.client import BlockingClient, Client
from holdfast.client.address import check_token
from holdfast.client.node.node import Node
from holdfast.errors import BadConfig, InvalidInput
from holdfast.remote.gateways import gateways_of

SECRET = "hf_user_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
BAD = (
    "",
    " \n",
    f"{SECRET}\r\nX-Other: 1",
    f"{SECRET}\n{SECRET}",
    f"{SECRET} b",
    f"{SECRET}ü",
    "\x7f",
)
URL = "http://127.0.0.1:1"


async def by_client(token: str, _: Path) -> None:
    Client(URL, token=token)


async def by_blocking_client(token: str, _: Path) -> None:
    BlockingClient(URL, token=token)


async def by_queue(token: str, _: Path) -> None:
    TaskQueue("holdfast://127.0.0.1:1", token=token)


async def by_node(token: str, folder: Path) -> None:
    await Node.open(folder / "node", gateway=URL, join_token=token)


WAYS = (by_client, by_blocking_client, by_queue, by_node)


@pytest.mark.parametrize("token", BAD)
@pytest.mark.parametrize("give", WAYS)
async def test_a_token_that_no_header_carries_is_refused(
    give: Callable[[str, Path], Awaitable[None]], token: str, tmp_path: Path
) -> None:
    with pytest.raises(BadConfig) as raised:
        await give(token, tmp_path)
    assert "token" in str(raised.value)
    assert "hf_user" not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.fixture
def own_logging() -> Iterator[None]:
    """A command sets up the log of its process."""
    log, root = logging.getLogger("holdfast"), logging.getLogger()
    before = (log.level, root.level, [*log.handlers], [*root.handlers])
    yield
    log.setLevel(before[0])
    root.setLevel(before[1])
    log.handlers[:], root.handlers[:] = before[2:]


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("token", BAD)
@pytest.mark.parametrize("words", [["task", "list"], ["worker", "shop:queue"]])
def test_a_command_refuses_it_and_does_not_print_it(
    words: list[str],
    token: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", token)
    assert main([*words, "--gateway", "holdfast://127.0.0.1:1"]) == BadConfig.exit_code
    printed = "".join(capsys.readouterr())
    assert "token" in printed
    assert "hf_user" not in printed
    assert "Traceback" not in printed


def test_blanks_around_a_token_are_removed() -> None:
    assert check_token(f" {SECRET}\n") == SECRET
    assert gateways_of("holdfast://127.0.0.1:1", f"{SECRET}\n").token == SECRET


async def test_a_header_that_cannot_be_sent_is_not_shown() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.LocalProtocolError(f"Illegal header value b'Bearer {SECRET}'")

    async with Client(URL, token=SECRET, transport=httpx2.MockTransport(refuse)) as client:
        with pytest.raises(InvalidInput) as raised:
            await client.whoami()
    assert "hf_user" not in str(raised.value)
