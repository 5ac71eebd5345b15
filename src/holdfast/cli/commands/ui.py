"""`holdfast ui`: opens the Control Center of a gateway, with a login link for the token of the command line.

Promises: the link counts once, for ten minutes, on the machine of the gateway. The session that it opens has
the rights of the token. Never: puts the token into the link.
"""

from __future__ import annotations

import asyncio
import webbrowser
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue, http_of
from holdfast.cli.options import COMMON, Common, Flag, Output
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.session import remark, target, with_queue

NO_GATEWAY = (
    "no gateway is given, and a store has no pages: holdfast server prints a login link, "
    "or give --gateway"
)
NO_BROWSER = "there is no browser to open: open the link"


def ui(
    *,
    no_browser: Annotated[Flag, Parameter(help="Print the link only.")] = False,
    common: Common = COMMON,
) -> None:
    """Open the Control Center of a gateway on this machine: prints a login link that counts once."""
    if not target(common).is_gateway:
        raise Usage(NO_GATEWAY)

    async def work(queue: TaskQueue) -> dict[str, Any]:
        http = http_of(queue)
        assert http is not None
        made = (await http.call("POST", "/login/code")).body
        link = {
            "url": f"{http.url}{made['path']}",
            "expires_in_seconds": made["expires_in_seconds"],
        }
        if not no_browser and not await asyncio.to_thread(webbrowser.open, link["url"]):
            remark(NO_BROWSER)
        return link

    link = with_queue(common, work)
    if common.output in (Output.TABLE, Output.WIDE, Output.NAME):
        print(link["url"])
    else:
        Printer(common).object(link)
