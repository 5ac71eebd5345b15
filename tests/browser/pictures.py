"""Makes the pictures of the documentation from the sample of `holdfast dev`.

python -m tests.browser.pictures      # writes docs/pictures, in about a minute
"""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

import httpx2
from playwright.async_api import Browser, Page

from tests.browser.place import ADMIN, PHONE, chromium
from tests.launcher import ROOT, launcher

FOLDER = ROOT / "docs" / "pictures"
SHOT: Any = {"width": 1280, "height": 800}
QUALITY = 0.86
TO_WEBP = """
async ([data, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${data}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}
"""


class Picture(NamedTuple):
    name: str
    path: str
    theme: Literal["light", "dark"] = "light"
    ready: str = ".page h1, .det h1"
    is_phone: bool = False


def pictures(ids: dict[str, str]) -> list[Picture]:
    return [
        Picture("overview", "/", ready=".need"),
        Picture("job", f"/fleet/jobs/{ids['job']}", "dark", ready="[role=application]"),
        Picture("task", f"/tasks/{ids['task']}"),
        Picture("dead-letters", f"/dead-letters?cause={ids['cause']}", ready=".dry"),
        Picture(
            "new-command",
            "/fleet/new?selector=role%3Dweb&type=restart&command=nginx",
            ready=".plans",
        ),
        Picture("approval-phone", f"/inbox/{ids['approval']}", ready=".blast", is_phone=True),
    ]


IDS = {
    "job": ("/jobs?status=RUNNING", "id"),
    "task": ("/tasks?q=type:catalogue.import%20status:running", "id"),
    "cause": ("/dead-letters/groups", "fingerprint"),
    "approval": ("/approvals", "job_id"),
}


async def main() -> None:
    with TemporaryDirectory() as name:
        await made(Path(name))


async def made(folder: Path) -> None:
    env = {**os.environ, "XDG_STATE_HOME": str(folder), "HOLDFAST_ADMIN_TOKEN": ADMIN}
    with (
        (folder / "stderr").open("w") as stderr,
        launcher().running(["dev", "--port", "0"], folder, env, stderr) as child,
    ):
        assert child.stdout is not None
        url = child.stdout.readline().split()[-1]
        for line in child.stdout:
            if line.strip().startswith("sample"):
                break
        async with chromium() as browser:
            await take(browser, url)


async def take(browser: Browser, url: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    headers = {"Authorization": f"Bearer {ADMIN}"}
    async with httpx2.AsyncClient(base_url=f"{url}/api/v1", headers=headers) as client:
        await _until_ended(client, 300)
        ids = {
            name: (await client.get(path)).json()["items"][0][field]
            for name, (path, field) in IDS.items()
        }
    for one in pictures(ids):
        viewport: Any = PHONE if one.is_phone else SHOT
        context = await browser.new_context(
            viewport=viewport, color_scheme=one.theme, reduced_motion="reduce"
        )
        page = await context.new_page()
        await page.goto(f"{url}/login")
        await page.get_by_label("Token").fill(ADMIN)
        await page.get_by_role("button", name="Log in").click()
        await page.wait_for_selector("[data-mark=live]")
        await page.goto(f"{url}{one.path}")
        await page.wait_for_selector(one.ready)
        await page.wait_for_selector(".skel", state="detached")
        (FOLDER / f"{one.name}.webp").write_bytes(await webp(page))
        await context.close()


async def _until_ended(client: httpx2.AsyncClient, hosts: int) -> None:
    """Until the job of the sample is well under way. The feed says when to look again."""
    position = None
    while True:
        [job, *_] = (await client.get("/jobs?status=RUNNING")).json()["items"]
        if sum(job["ended"].values()) >= hosts:
            return
        after = "" if position is None else f"&after={position}"
        path = f"/events?wait_seconds=3&limit=1000{after}"
        position = (await client.get(path, timeout=30)).json()["next"]


async def webp(page: Page) -> bytes:
    """The page as it is shown, by the encoder of the browser: a fifth of the bytes of a PNG."""
    shot = base64.b64encode(await page.screenshot()).decode()
    blank = await page.context.new_page()
    return base64.b64decode(await blank.evaluate(TO_WEBP, [shot, QUALITY]))


if __name__ == "__main__":
    asyncio.run(main())
