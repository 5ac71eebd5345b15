"""The checks of `holdfast doctor --gateway`: the way to the gateway, then those of its store.

Promises: a check never changes anything. A token that may not see the checks of the store is a warning: the
others still count.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import __version__
from holdfast.cli.api import v1
from holdfast.cli.output.times import length
from holdfast.core.errors import Forbidden
from holdfast.queue.check import Check, Level
from holdfast.queue.checks import CLOCK_WARN_SECONDS, SLOW_SECONDS, answer_time

if TYPE_CHECKING:
    from holdfast.client.http import (
        Http,
    )  # It needs an extra that a queue without a gateway does not.


async def check_all(http: Http, max_wait: float) -> list[Check]:
    """The results of all checks."""
    began, at = http.clock.monotonic(), http.clock.now()
    about = (await http.call("GET", v1("about"))).body
    took = http.clock.monotonic() - began
    who = (await http.call("GET", v1("whoami"))).body
    checks = [_reach(took), _version(about), _token(who), _clock(about, at + took / 2, took)]
    return [*checks, *await _of_store(http, max_wait)]


def _reach(took: float) -> Check:
    text = f"reachable, answers in {answer_time(took)}"
    return Check("gateway", Level.WARN if took > SLOW_SECONDS else Level.OK, text)


def _version(about: dict[str, Any]) -> Check:
    version = about["version"]
    if version == __version__:
        return Check("version", Level.OK, f"{version}, as this command")
    text = (
        f"the gateway is {version}, this command {__version__}: some options may be unknown there"
    )
    return Check("version", Level.WARN, text)


def _token(who: dict[str, Any]) -> Check:
    roles, projects = ", ".join(who["roles"]), ", ".join(who["projects"])
    return Check("token", Level.OK, f"of {who['name']}: {roles}; projects: {projects}")


def _clock(about: dict[str, Any], now: float, took: float) -> Check:
    gap = now - datetime.fromisoformat(about["now"]).timestamp()
    side = "ahead of" if gap > 0 else "behind"
    text = f"this machine is {length(abs(gap))} {side} the store of the gateway"
    if abs(gap) > CLOCK_WARN_SECONDS + took:
        text += ": synchronise the clocks (leases are not affected)"
        return Check("clock skew", Level.WARN, text)
    return Check("clock skew", Level.OK, text)


async def _of_store(http: Http, max_wait: float) -> list[Check]:
    query = {"max_wait_seconds": max_wait}
    try:
        body = (await http.call("GET", v1("doctor"), query=query)).body
    except Forbidden as error:
        text = f"the token may not see the checks of the store: {error}"
        return [Check("store", Level.WARN, text)]
    return msgspec.convert(body["items"], list[Check])
