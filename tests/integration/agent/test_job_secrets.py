"""A secret of a job from the settings to the host: the command has it, and nothing shows or stores it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.client import Client
from holdfast.errors import InvalidInput
from holdfast.fleet.secret_values import SecretSource
from holdfast.gateway.fleet_settings import FleetSettings
from tests.integration.agent.test_agent_process import running
from tests.integration.agent.test_real_gateway import host_id, start
from tests.integration.worker.served import ADMIN, open_site

VALUE = "correct-horse-battery"
PRINTING = """sh -c 'printf "pw=%s\\n" "$PW"; printf %.9s "$PW"; printf %s "${PW#?????????}"; echo " end"'"""


@pytest.mark.timeout(90)
async def test_a_command_has_a_secret_that_nothing_shows(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(f"{VALUE}\n")
    show = {"argv": ["{command}"], "options": True, "env": ["PW"], "approval": "none"}
    settings = FleetSettings(
        command_types={"show": show}, secrets={"pw": SecretSource(file=str(tmp_path / "pw"))}
    )
    url = f"sqlite:///{tmp_path}/holdfast.db"
    async with (
        open_site(url, loops=True, fleet=settings) as site,
        running(await start(site, tmp_path, "web-1")),
        Client(site.listening.url, ADMIN) as client,
    ):
        await host_id(tmp_path, "web-1")
        given = {"PW": {"name": "pw"}}
        made = await client.jobs.create("show", PRINTING, hosts=["web-1"], secrets=given)
        job = await client.jobs.wait(made.job_id, 60)
        assert job.status == "SUCCESS", job.kinds
        assert job.secrets == {"PW": {"name": "pw", "version": 1}}
        chunks = [chunk.data async for chunk in client.jobs.logs(job.id, "web-1")]
        stars = b"*" * len(VALUE)
        assert b"".join(chunks) == b"pw=" + stars + b"\n" + stars + b" end\n"
        events = (await client._api.call("GET", "events", query={"limit": 1000})).body
        assert len(events["items"]) < 1000
        assert VALUE not in repr(events)
        assert VALUE not in repr(await client.audit.list())
        other = {"PW": {"name": "other"}}
        with pytest.raises(InvalidInput, match="'other', which the server does not have"):
            await client.jobs.create("show", "true", hosts=["web-1"], secrets=other)
    assert VALUE.encode() not in _stored(tmp_path)


def _stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("holdfast.db*") if path.is_file())
