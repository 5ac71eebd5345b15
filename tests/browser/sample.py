"""A queue with handlers of every mood, for the pages of the Control Center to show."""

from __future__ import annotations

import asyncio
import os

from holdfast import Context, Snooze, TaskQueue

queue = TaskQueue(
    os.environ["HOLDFAST_URL"],
    max_workers=8,
    lease_seconds=15,
    shutdown_timeout=1,
    task_timeout=None,
)


@queue.task(name="email.send", max_attempts=2)
async def send(to: str, ctx: Context, template: str = "receipt", fail: str = "") -> str:
    await ctx.output(f"sending {template} to {to}\n")
    if fail:
        raise ConnectionError(f"ConnectTimeout: {fail}")
    return f"sent to {to}"


@queue.task(name="invoice.render", max_attempts=5)
async def render(customer: str, ctx: Context, pages: int = 240, for_ever: bool = False) -> int:
    await ctx.output(f"\x1b[32mrender\x1b[0m {customer}\n")
    await ctx.progress(0.4, f"page {pages // 2} of {pages}")
    if for_ever:
        await asyncio.Event().wait()
    await ctx.checkpoint("rendered", {"pages": pages}, note=f"{pages} pages")
    return pages


@queue.task(name="invoice.mail", queue="payments")
async def mail(customer: str) -> str:
    return customer


@queue.task(name="ledger.close-month", max_attempts=3)
async def close(month: str, ctx: Context) -> str:
    answer = await ctx.decide(
        f"Close {month} with a difference of 12.40 EUR?",
        options=["close anyway", "book a correction", "leave it open"],
        deadline=3_000,
        default="leave it open",
        data={
            "debit": "118204.10",
            "credit": "118191.70",
            "difference": "12.40",
            "currency": "EUR",
        },
    )
    return str(answer.choice)


@queue.task(name="payout.settle", queue="payments", max_attempts=5, progress_timeout=2)
async def settle(batch: str, ctx: Context) -> None:
    await ctx.progress(0.1, "waits for the bank")
    await asyncio.Event().wait()


@queue.task(name="report.render", queue="reports")
async def report(name: str) -> str:
    return name


@queue.task(name="blob.make", max_attempts=1)
async def blob(size: int, ctx: Context) -> str:
    line = "\x1b[33mline\x1b[0m <b>of</b> \u202eoutput\n"
    await ctx.output(line * (size // len(line.encode())))
    return "x" * size


@queue.task(name="crawl.site", queue="crawl")
async def crawl(site: str, ctx: Context) -> Snooze | str:
    if ctx.attempt == 1 and ctx.saved is None:
        await ctx.save({"asked": 1})
        return Snooze(3_000)
    return site


@queue.task(name="note.write", max_attempts=1)
async def write(text: str, ctx: Context) -> str:
    await ctx.output(text)
    raise RuntimeError(text)
