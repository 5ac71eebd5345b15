"""A server in its own process with the living sample, and a browser in front of it."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from playwright.async_api import Browser, Page, StorageState, async_playwright, expect

from holdfast.web.files import DIST
from proof.lab.chromium import FLAGS, find_chromium
from tests.browser.fill import Filler, fill
from tests.launcher import ROOT, Child, launcher

ADMIN: Final = "hf_admin_" + "b" * 40
WIDE: Final = {"width": 1440, "height": 900}
PHONE: Final = {"width": 390, "height": 844}
WAIT_MS: Final = 15_000
"""How long a page may take to show something, on a busy machine."""
expect.set_options(timeout=WAIT_MS)


class Place:
    """A server that can be stopped and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.login_url = ""
        self.url = ""
        self.sessions: dict[str, StorageState] = {}
        """What a browser keeps of a login, by token."""
        self._port = "0"
        self._child: Child | None = None

    def start(self) -> None:
        env = {
            **os.environ,
            "HOLDFAST_URL": f"sqlite:///{self.folder}/sample.db",
            "HOLDFAST_ADMIN_TOKEN": ADMIN,
        }
        options = (
            "--port",
            self._port,
            "--grpc-port",
            "-1",
            "--workers",
            "tests.browser.sample:queue",
            "--simulated-hosts",
            "24",
        )
        reading, writing = os.pipe()
        with (self.folder / "stderr").open("a") as stderr, Path(os.devnull).open() as stdin:
            self._child = launcher().start(
                ["server", *options], ROOT, env, (stdin, writing, stderr)
            )
        os.close(writing)
        with os.fdopen(reading) as stdout:
            first, second = stdout.readline(), stdout.readline()
        found = re.search(r"on (\S+?:(\d+)) ", first)
        assert found is not None, (first, (self.folder / "stderr").read_text())
        self.url, self._port = found[1], found[2]
        self.login_url = second.split()[2]

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


@contextmanager
def server() -> Iterator[Place]:
    if not (DIST / "manifest.json").exists():
        raise RuntimeError("the Control Center is not built: make web")
    with TemporaryDirectory() as name:
        place = Place(Path(name))
        place.start()
        try:
            yield place
        finally:
            place.stop()


@asynccontextmanager
async def filled() -> AsyncIterator[tuple[Place, Filler]]:
    """A server with the sample. What the sample waits for has happened."""
    with server() as place:
        to = Filler(place.url, ADMIN)
        await fill(to, place.folder)
        await to.until("/decisions?q=state:open", lambda body: body["items"])
        await to.until("/stats", lambda body: body["dead_letter_count"] == 16)
        yield place, to
        await to.close()


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS])
        yield browser
        await browser.close()


class Sins:
    """What no page may do: break the policy, throw, ask another host, write an error to the console."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.found: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.found.append(f"threw {error}"))
        page.on("console", lambda said: self._said(said.type, said.text))
        page.on("request", lambda request: self._asked(request.url))

    def _said(self, kind: str, text: str) -> None:
        # A refused login, a server that is away: the browser itself says these.
        expected = "Failed to load resource" in text or "WebSocket connection to" in text
        if kind in ("error", "warning") and not expected:
            self.found.append(f"{kind}: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self._url, self._url.replace("http", "ws", 1), "data:", "blob:")):
            self.found.append(f"asked {url}")


async def open_page(
    browser: Browser, place: Place, token: str = ADMIN, *, path: str = "/", **options: Any
) -> Page:
    """A page of a new browser that is logged in, at a path. Empty: nothing is loaded yet."""
    if token not in place.sessions:
        place.sessions[token] = await log_in(browser, place, token)
    seen = {"viewport": WIDE, "color_scheme": "light", **options}
    context = await browser.new_context(storage_state=place.sessions[token], **seen)
    context.set_default_timeout(WAIT_MS)
    page = await context.new_page()
    if path:
        await page.goto(f"{place.url}{path}")
        await page.wait_for_selector("[data-mark=live]")
    return page


async def log_in(browser: Browser, place: Place, token: str) -> StorageState:
    """Logs in as a person does. Returns what the browser keeps."""
    async with await browser.new_context() as context:
        context.set_default_timeout(WAIT_MS)
        page = await context.new_page()
        await page.goto(f"{place.url}/login")
        await page.get_by_label("Token").fill(token)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_selector("[data-mark=live]")
        return await context.storage_state()
