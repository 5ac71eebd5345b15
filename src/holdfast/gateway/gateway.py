"""What the transports of a server share: the hub, the settings, authentication, rate limits."""

from __future__ import annotations

from holdfast.core.access import Principal
from holdfast.core.rights import Role
from holdfast.gateway.auth.bearer import Authenticated, Authenticator
from holdfast.gateway.auth.rate import RateLimit
from holdfast.gateway.hub import Hub
from holdfast.gateway.settings import ServerSettings


class Gateway:
    """One gateway. `auth.find_node` may be set by the part that keeps credentials of nodes."""

    def __init__(self, hub: Hub, settings: ServerSettings) -> None:
        self.hub = hub
        self.settings = settings
        hub.redaction = settings.redaction()
        self.auth = Authenticator(hub.tokens, admin_token=settings.admin_token)
        self.rates = RateLimit(settings.rate_per_second, settings.burst)
        self.is_stopping = False

    async def authenticate(self, header: str | None) -> Authenticated:
        """The principal of a request, counted against its rate. Administrators have no rate limit."""
        who = await self.auth.by_header(header)
        self.count(who.principal, who.credential)
        return who

    def count(self, principal: Principal, credential: str) -> None:
        """Counts one request. RateLimited if there were too many."""
        if Role.ADMIN not in principal.roles:
            self.rates.take(credential, self.hub.clock.monotonic())
