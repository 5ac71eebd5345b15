"""What the transports of a server share: its services, the settings, authentication, rate limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from holdfast.core.access import Principal
from holdfast.core.errors import BadSignature, Unauthenticated
from holdfast.core.fleet.webhooks.signature import SIGNATURE_HEADER, read_headers
from holdfast.core.rights import PrincipalKind, Role
from holdfast.fleet.webhooks.webhooks import Incoming
from holdfast.gateway.auth.addresses import AddressLimits
from holdfast.gateway.auth.bearer import Authenticated, Authenticator, secret_of
from holdfast.gateway.auth.cookies import LoginCodes
from holdfast.gateway.auth.rate import RateLimit
from holdfast.gateway.services import GatewayServices
from holdfast.gateway.settings import ServerSettings


class Gateway:
    """One gateway."""

    def __init__(self, services: GatewayServices, settings: ServerSettings) -> None:
        self.services = services
        self.settings = settings
        self.auth = Authenticator(services.tokens, admin_token=settings.admin_token)
        self.rates = RateLimit(settings.rate_per_second, settings.burst)
        self.addresses = AddressLimits()
        self.logins = LoginCodes(services.ids)
        self.opened: Counter[str] = Counter()
        """Open connections by credential."""

    @property
    def is_stopping(self) -> bool:
        return self.services.is_stopping

    async def authenticate(self, header: str | None, address: str) -> Authenticated:
        """The principal of a request, counted against its rate. Administrators have no rate limit. Wrong
        credentials are counted by address."""
        secret = secret_of(header)
        now = self.services.clock.monotonic()
        self.addresses.check(address, secret, now)
        try:
            who = await self.auth.by_secret(secret)
        except Unauthenticated:
            self.addresses.failed(address, now)
            raise
        self.addresses.accepted(secret)
        self.count(who.principal, who.credential)
        return who

    async def authenticate_signed(
        self,
        headers: Mapping[str, str],
        read_body: Callable[[], Awaitable[bytes]],
        address: str,
        *,
        source: str | None,
    ) -> tuple[Authenticated, Incoming, bytes]:
        """The source that signed a request, and its body. Without a signature the body is not read."""
        now = self.services.clock.monotonic()
        self.addresses.check(address, headers.get(SIGNATURE_HEADER, ""), now)
        try:
            if read_headers(headers) is None:
                raise BadSignature(
                    "the request has no credential: send the header Authorization: Bearer <token>, or sign "
                    "it as a known source"
                )
            body = await read_body()
            incoming = await self.services.fleet.webhooks.authenticate(headers, body, source=source)
        except Unauthenticated:
            self.addresses.failed(address, now)
            raise
        principal = Principal(
            incoming.principal,
            PrincipalKind.WEBHOOK,
            frozenset({Role.WEBHOOK}),
            frozenset({incoming.source.project}),
        )
        self.count(principal, incoming.source.id)
        return Authenticated(principal, incoming.source.id, None), incoming, body

    def enter(self, principal: Principal, address: str) -> None:
        """Counts a request that makes a credential. RateLimited if its address has sent too many."""
        if Role.ADMIN not in principal.roles:
            self.addresses.enter(address, self.services.clock.monotonic())

    def count(self, principal: Principal, credential: str) -> None:
        """Counts one request. RateLimited if there were too many."""
        if Role.ADMIN not in principal.roles:
            self.rates.take(credential, self.services.clock.monotonic())
