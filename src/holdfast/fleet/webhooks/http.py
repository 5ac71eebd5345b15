"""One attempt to deliver a message: resolve, check and pin the address, send, read the answer.

Promises: the connection goes to an address that was checked, whatever the name resolves to a moment later;
the certificate is that of the name. An attempt ends within `TIMEOUT_SECONDS`. Redirects are not followed, and
proxies of the environment are not used. Never: reads more than `ANSWER_BYTES_MAX` of an answer.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from holdfast.core.fleet.webhooks.address import AddressRules, WebhookTarget
from holdfast.core.fleet.webhooks.rules import DeliveryVerdict, verdict_of
from holdfast.core.text import one_line
from holdfast.errors import InvalidInput

if TYPE_CHECKING:  # commands on a store import this module, and need no extra
    import httpx2

TIMEOUT_SECONDS: Final = 15.0
ANSWER_BYTES_MAX: Final = 1_000
"""Of an answer, for the text of an error."""
CONNECTIONS_MAX: Final = 100
_SECONDS: Final = re.compile(r"\d{1,6}")
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a name."""


class Attempt(msgspec.Struct, frozen=True):
    """How an attempt ended."""

    verdict: DeliveryVerdict
    error: str = ""
    retry_after_seconds: float | None = None


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, as this machine finds them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class WebhookHttp:
    """Sends messages. Close it at the end."""

    def __init__(
        self,
        rules: AddressRules,
        *,
        resolver: Resolve = resolve,
        verify: ssl.SSLContext | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._rules = rules
        self._resolve = resolver
        self._timeout_seconds = timeout_seconds
        self._verify = verify
        self._made: httpx2.AsyncClient | None = None

    @property
    def _client(self) -> httpx2.AsyncClient:
        """Made for the first message: the certificates take a moment to load."""
        import httpx2

        if self._made is None:
            self._made = httpx2.AsyncClient(
                verify=True if self._verify is None else self._verify,
                follow_redirects=False,
                trust_env=False,
                timeout=self._timeout_seconds,
                # A kept connection would be found by its address alone, for another name too.
                limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=0),
            )
        return self._made

    async def close(self) -> None:
        if self._made is not None:
            await self._made.aclose()

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Attempt:
        """Never raises for what the endpoint or the network does."""
        import httpx2

        try:
            async with asyncio.timeout(self._timeout_seconds):
                target = self._rules.parse(url)
                return await self._send(target, await self._pinned(target), headers, body)
        except TimeoutError:
            return _failed(f"no answer within {self._timeout_seconds:g} s")
        except (InvalidInput, OSError, ValueError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            # ValueError: e.g. a name that cannot be encoded for the resolver.
            return _failed(f"{type(error).__name__}: {error}")

    async def _pinned(self, target: WebhookTarget) -> str:
        """An address of the target. InvalidInput if one of its addresses may not be sent to."""
        addresses = await self._resolve(target.host, target.port)
        for text in addresses:
            if not self._rules.allows(target, ip_address(text.partition("%")[0])):
                raise InvalidInput(
                    f"{target.host} resolves to {text}, which is no public address: allow it in "
                    "`webhooks.allow`"
                )
        if not addresses:
            raise InvalidInput(f"{target.host} has no address")
        return addresses[0]

    async def _send(
        self, target: WebhookTarget, address: str, headers: Mapping[str, str], body: bytes
    ) -> Attempt:
        request = self._client.build_request(
            "POST",
            target.at(address),
            content=body,
            headers={**headers, "host": target.authority},
            extensions={"sni_hostname": target.host},
        )
        answer = await self._client.send(request, stream=True)
        try:
            verdict = verdict_of(answer.status_code)
            if verdict is DeliveryVerdict.DELIVERED:
                return Attempt(verdict)
            after = answer.headers.get("retry-after", "")
            return Attempt(
                verdict,
                f"HTTP {answer.status_code}: {await _start(answer)}".rstrip(": "),
                float(after) if _SECONDS.fullmatch(after) else None,
            )
        finally:
            await answer.aclose()


async def _start(answer: httpx2.Response) -> str:
    """The start of an answer, for a person."""
    data = b""
    async for part in answer.aiter_raw():
        data += part
        if len(data) >= ANSWER_BYTES_MAX:
            break
    return one_line(data[:ANSWER_BYTES_MAX].decode("utf-8", "replace"))


def _failed(error: str) -> Attempt:
    return Attempt(DeliveryVerdict.FAILED, error)
