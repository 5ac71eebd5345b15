"""Offers what waits for a person to the one at the terminal: decisions of tasks, votes on jobs.

Promises: a key answers, and `s` or Enter leaves the question open. A question that has ended meanwhile goes
away. An answer that is refused is an error line, and the command goes on.
Never: asks where no person can answer (`keyboard.is_interactive`), or answers by itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from holdfast.cli import values
from holdfast.cli.api import v1
from holdfast.cli.keyboard import Keyboard
from holdfast.cli.problem import describe, show
from holdfast.client.calls import Calls
from holdfast.core.codec import dumps
from holdfast.core.fleet.model import JobStatus
from holdfast.core.text import one_line
from holdfast.errors import HoldfastError

KEYS: Final = "123456789abcdefghijklmnopqrtuvwxyz"
"""The keys of options, in order: without `s`."""
SKIP: Final = ("s", "\n", "\r", "\x1b", "")
LOOK_SECONDS: Final = 1.0
"""How often a question looks whether it was answered elsewhere."""


def say(text: str = "", *, end: str = "\n") -> None:
    """Prints a line of a question."""
    print(one_line(text) if text else "", end=end, file=sys.stderr, flush=True)


class Prompter:
    """Asks one question at a time, while the command goes on."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._asked: tuple[str, asyncio.Task[None]] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end()

    async def offer_open(self, task_id: str) -> None:
        """Offers what the task waits for now."""
        query = {"q": f'state:open task_id:"{task_id}"', "limit": 1}
        for item in (await self._calls.call("GET", v1("decisions"), query=query)).body["items"]:
            await self.offer(item["id"])

    async def hear(self, kind: str, data: Mapping[str, Any]) -> None:
        """Follows an event of the task: a question begins, or has ended."""
        if kind == "checkpoint.hitl_required":
            await self.offer(str(data["decision_id"]))
        elif (
            kind.startswith("decision.")
            and self._asked
            and data.get("decision_id") == self._asked[0]
        ):
            await self._end()

    async def offer(self, decision_id: str) -> None:
        if self._asked is not None and self._asked[0] == decision_id:
            return
        await self._end()
        self._asked = decision_id, asyncio.create_task(ask_decision(self._calls, decision_id))

    async def _end(self) -> None:
        if self._asked is None:
            return
        asked, self._asked = self._asked[1], None
        await _ended(asked)


async def ask_decision(calls: Calls, decision_id: str) -> None:
    """Shows a question and sends the answer."""
    item = (await calls.call("GET", v1("decisions", decision_id))).body
    options = [str(option) for option in item["options"]][: len(KEYS)]
    with Keyboard() as keyboard:
        say(f"{item['question']} ({decision_id})")
        if not options:
            say("answer (JSON or text; Enter leaves it open): ", end=" ")
            text = await keyboard.line()
            choice: Any = values.parsed(text) if text else None
        else:
            for key, option in zip(KEYS, options, strict=False):
                say(f"  {key}  {option}")
            say("  s  leave it open")
            choice = await _chosen(keyboard, dict(zip(KEYS, options, strict=False)))
    if choice is None:
        say(f"left open: holdfast decision answer {decision_id} CHOICE")
        return
    body = {"choice": choice, "expected_version": item["version"]}
    if await _sent(calls, v1("decisions", decision_id), body):
        say(f"answered with {dumps(choice)}")


async def offer_vote(calls: Calls, job: Mapping[str, Any]) -> None:
    """Offers a vote on a job that waits for approval, unless it is the person's own. Ends too when the job
    does not wait any more."""
    who = (await calls.call("GET", v1("whoami"))).body["name"]
    if job["status"] != JobStatus.WAIT_APPROVAL or job["created_by"] == who:
        return
    asked = asyncio.create_task(_vote(calls, job))
    try:
        while not asked.done() and await _waits(calls, job):
            await asyncio.wait({asked}, timeout=LOOK_SECONDS)
    finally:
        await _ended(asked)


async def _vote(calls: Calls, job: Mapping[str, Any]) -> None:
    with Keyboard() as keyboard:
        say(f"job {job['id']} waits for an approval: {job['command'] or job['command_type']}")
        reason = job["reason"] or "no reason"
        say(f"  {job['hosts']} hosts, asked for by {job['created_by']}: {reason}")
        say("  a  approve")
        say("  r  reject")
        say("  s  leave it open")
        verb = await _chosen(keyboard, {"a": "approve", "r": "reject"})
        if verb is None:
            say(f"left open: holdfast approve {job['id']}")
            return
        say(f"why do you {verb} it? (Enter for no reason):", end=" ")
        reason = await keyboard.line()
    body = {"reason": reason, "expect_digest": job["digest"]}
    if await _sent(calls, v1("jobs", job["id"], verb), body):
        say(f"you have voted: {verb}")


async def _waits(calls: Calls, job: Mapping[str, Any]) -> bool:
    found = (await calls.call("GET", v1("jobs", job["id"]))).body
    return bool(found["status"] == JobStatus.WAIT_APPROVAL)


async def _ended(asked: asyncio.Task[None]) -> None:
    """Ends a question. An interrupt of this command meanwhile is not taken for the end of the question."""
    asked.cancel()
    await asyncio.wait({asked})
    if not asked.cancelled() and (error := asked.exception()) is not None:
        raise error


async def _chosen(keyboard: Keyboard, choices: Mapping[str, str]) -> str | None:
    """The choice of a key. None: the question stays open."""
    while True:
        key = (await keyboard.key()).lower()
        if key in choices:
            return choices[key]
        if key in SKIP:
            return None


async def _sent(calls: Calls, path: str, body: dict[str, Any]) -> bool:
    try:
        await calls.call("POST", path, body)
    except HoldfastError as error:
        show(describe(error), as_json=False)
        return False
    return True
