"""The sections of a server's settings: their sources, what is refused, and that each has an effect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config import TABLES, find_url
from holdfast.core.retention import HubRetention
from holdfast.core.worker import wire
from holdfast.errors import BadConfig
from holdfast.gateway.rest.live import Live
from holdfast.gateway.sections import InterventionSettings, SyncSettings
from holdfast.gateway.server import _uvicorn
from holdfast.gateway.settings import OTHERS, SECTIONS, ServerSettings, server_settings
from holdfast.queue.settings import Settings
from tests.integration.gateway.support import open_site
from tests.integration.worker.served import open_site as open_server

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference"


def test_the_environment_counts_more_than_the_file(tmp_path: Path) -> None:
    (tmp_path / "redis").write_text("redis://:secret@localhost/0\n")
    document: dict[str, dict[str, object]] = {
        "sync": {"window_frames": 3, "group_commit_ms": 5},
        "keep": {"done": 60},
    }
    environ = {
        "HOLDFAST_SYNC__WINDOW_FRAMES": "7",
        "HOLDFAST_INTERVENTION__EXPIRY_SECONDS": "9.5",
        "HOLDFAST_SERVER__REDIS_FILE": str(tmp_path / "redis"),
    }
    made = server_settings(document, environ, {})
    assert (made.sync.window_frames, made.sync.gather_seconds) == (7, 0.005)
    assert made.keep.queue_settings() == {"keep_done": 60}
    assert made.intervention.expiry_seconds == 9.5
    assert made.redis == "redis://:secret@localhost/0"


def test_sections_set_what_the_queue_of_the_server_has() -> None:
    document: dict[str, dict[str, object]] = {
        "keep": {"sync_log": 1, "tombstones": 2, "mutations": 3, "output": 4, "audit": 5},
        "decision": {"deadline_default_seconds": 6},
        "task": {"progress_timeout_seconds": 7},
        "sync": {"affinity_seconds": 8, "reassign_fallback_seconds": 9},
    }
    made = Settings(**server_settings(document, {}, {}).queue_settings())
    assert made.retention.hub == HubRetention(1, 2, 3, 4, 5)
    assert (made.decision_deadline, made.progress_timeout) == (6, 7)
    assert (made.affinity_seconds, made.reassign_fallback_seconds) == (8, 9)


@pytest.mark.parametrize("name", ["keep_sync_log", "keep_output", "keep_audit", "progress_timeout"])
def test_a_bad_value_of_the_queue_is_named(name: str) -> None:
    with pytest.raises(BadConfig, match=f"{name} is -1"):
        Settings().changed({name: -1})


def test_the_bounds_of_the_live_feed_reach_its_protocol() -> None:
    config = _uvicorn(
        None, ServerSettings(frame_bytes=2_000, ping_seconds=7), asyncio.Event()
    ).config
    assert (config.ws_max_size, config.ws_ping_interval) == (2_000, 7)


@pytest.mark.parametrize(
    ("document", "environ", "message"),
    [
        ({"sync": {"window_frame": 1}}, {}, "did you mean 'window_frames'"),
        ({"server": {"prot": 1}}, {}, "did you mean 'port'"),
        ({"server": {"admin_token": "x" * 40}}, {}, "no setting 'admin_token'"),
        ({"server": {"sync": {}}}, {}, "no setting 'sync'"),
        ({"sync": {"window_frames": 0}}, {}, "window_frames"),
        ({"intervention": {"expiry_seconds": "soon"}}, {}, r"\[intervention\]"),
        ({}, {"HOLDFAST_SYNK__WINDOW_FRAMES": "1"}, "did you mean 'sync'"),
        ({}, {"HOLDFAST_KEEP__DAED": "1"}, "did you mean 'dead'"),
        ({}, {"HOLDFAST_SERVER__REDIS_FILE": "/none"}, "cannot be read"),
        ({"sync": {"lease_max_seconds": 4}}, {}, "lease_max_seconds is 4"),
        ({"sync": {"lease_default_seconds": 4000}}, {}, "more than lease_max_seconds"),
        ({"sync": {"heartbeat_seconds": 0}}, {}, "heartbeat_seconds is 0"),
        ({"sync": {"reassign_fallback_seconds": -1}}, {}, "reassign_fallback_seconds is -1"),
        ({"sync": {"affinity_seconds": -1}}, {}, "affinity_seconds is -1"),
        ({"sync": {"require_fence": "perhaps"}}, {}, "require_fence"),
        ({"decision": {"deadline_default_seconds": 0}}, {}, "deadline_default_seconds is 0"),
        ({"task": {"progress_timeout_seconds": -1}}, {}, "progress_timeout_seconds is -1"),
        ({"server": {"frame_bytes": 10}}, {}, "frame_bytes is 10"),
        ({"server": {"ping_seconds": 0}}, {}, "ping_seconds is 0"),
    ],
)
def test_what_is_not_known_or_not_valid_is_refused(
    document: dict[str, Any], environ: dict[str, str], message: str
) -> None:
    with pytest.raises(BadConfig, match=message):
        server_settings(document, environ, {})


def test_an_unknown_table_is_refused_by_every_command(tmp_path: Path) -> None:
    assert set(TABLES) == {"holdfast", *SECTIONS}
    (tmp_path / "holdfast.toml").write_text("[sevrer]\nport = 1\n")
    with pytest.raises(BadConfig, match=r"did you mean \[server\]"):
        find_url(None, {}, tmp_path)


async def test_the_settings_of_the_feed_have_an_effect() -> None:
    bounds: dict[str, Any] = {"ring_events": 10, "buffer_bytes": 8_000, "stall_seconds": 3.0}
    async with open_site(
        "sqlite://", buffer_total_bytes=9_000, frame_bytes=3_000, **bounds
    ) as site:
        feed = Live(site.gateway).feed
        assert (feed.flow.high_bytes, feed.flow.low_bytes) == (8_000, 2_000)
        assert feed.flow.stall_seconds == 3.0
        assert feed.frame_bytes == 3_000
        assert not feed.is_full()
        feed.broadcaster.buffered = 9_001
        assert feed.is_full()


async def test_the_expiry_of_interventions_has_an_effect() -> None:
    section = InterventionSettings(expiry_seconds=50.0)
    async with open_site("sqlite://", intervention=section) as site:
        task = await site.task()
        body = {"type": "PAUSE", "reason": "r"}
        made = await site.ask("POST", f"/tasks/{task['id']}/interventions", body)
        row = await site.services.store.interventions.get(made.json()["intervention"]["id"])
        assert row is not None
        assert row.expires_at - row.issued_at == pytest.approx(50.0)


async def test_the_window_of_workers_has_an_effect(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holdfast.db"
    async with open_server(url, sync=SyncSettings(window_frames=5)) as site:
        _, secret = await site.node_token("w1")
        async with site.grpc(secret) as worker:
            assert (await worker.hello()).window_frames == 5
            await worker.send(wire.Goodbye())


def test_every_setting_is_documented() -> None:
    text = (PAGE / "server.md").read_text("utf-8")
    settings = set(ServerSettings.__struct_fields__) - {"admin_token", "has_tokens", *OTHERS}
    for name in settings:
        assert f"`{name}`" in text, name
    for section, kind in OTHERS.items():
        assert f"`[{section}]`" in text, section
        for field in msgspec.structs.fields(kind):
            assert f"`{section}.{field.name}`" in text, field.name
