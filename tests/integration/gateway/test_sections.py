"""The sections of a server's settings: their sources, what is refused, and that each has an effect."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config import TABLES, find_url
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.core.fleet.rules import RULES, FleetRules
from holdfast.core.retention import HubRetention
from holdfast.core.worker import wire
from holdfast.errors import BadConfig
from holdfast.fleet.retention import FleetRetention
from holdfast.fleet.secret_values import SecretSource
from holdfast.gateway.fleet_settings import FleetSettings
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


def test_the_retention_of_the_fleet_is_not_one_of_the_queue() -> None:
    made = server_settings({"keep": {"jobs": 1, "deliveries": 2}}, {}, {})
    assert made.keep.fleet == FleetRetention(1, 2)
    assert made.keep.queue_settings() == {}


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


def test_the_values_of_the_fleet_are_those_of_its_rules() -> None:
    """Every value has the default of the rules, under its own name but for the two of the backoff."""
    assert FleetSettings().rules == RULES
    names = {"base_backoff_seconds": "base_backoff", "max_backoff_seconds": "max_backoff"}
    computed = {"command_types", "secret_versions", "secret_scopes"}
    for field in FleetRules.__struct_fields__:
        assert field in computed or names.get(field, field) in FleetSettings.__struct_fields__


def test_a_fleet_is_set_by_tables_and_variables() -> None:
    text = """
        [fleet]
        max_in_flight = 7
        [fleet.command_types.deploy]
        argv = ["deploy", "{command}"]
        approval = "two"
        [[fleet.approval_rules]]
        name = "two"
        match = { command_type = "deploy" }
        all_of = [{ count = 2, from = ["role:approver"] }]
        [fleet.secrets.registry]
        env = "REGISTRY"
        version = 3
    """
    environ = {
        "HOLDFAST_FLEET__BASE_BACKOFF": "2.5",
        "HOLDFAST_FLEET__EXEC_MAX_RETRIES": "9",
        "HOLDFAST_WEBHOOKS__ALLOW": "10.0.0.0/8,hooks.example",
    }
    made = server_settings(tomllib.loads(text), environ, {})
    rules = made.fleet.rules
    assert (rules.max_in_flight, rules.base_backoff_seconds, rules.exec_max_retries) == (7, 2.5, 9)
    assert rules.command_types["deploy"].argv == ("deploy", "{command}")
    assert "exec" in rules.command_types
    assert rules.approval_rules[0].all_of[0].count == 2
    assert made.fleet.secrets == {"registry": SecretSource(env="REGISTRY", version=3)}
    assert made.webhooks.allow == ("10.0.0.0/8", "hooks.example")
    environ = {"HOLDFAST_FLEET__SECRETS": '{"a": {"file": "/run/a"}}'}
    assert server_settings({}, environ, {}).fleet.secrets == {"a": SecretSource(file="/run/a")}


async def test_the_settings_of_the_fleet_have_an_effect() -> None:
    fleet = FleetSettings(max_in_flight=3, secrets={"a": SecretSource(env="A")})
    async with open_site("sqlite://", fleet=fleet) as site:
        assert site.services.fleet.rules.max_in_flight == 3
        assert site.services.fleet.secrets.pin({"X": SecretRef("a")}) == {"X": SecretRef("a", 1)}


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
        ({"fleet": {"max_inflight": 1}}, {}, "did you mean 'max_in_flight'"),
        ({"fleet": {"max_in_flight": 0}}, {}, "max_in_flight is 0"),
        ({"fleet": {"exec_timeout_seconds": 0}}, {}, "exec_timeout_seconds is 0"),
        ({"fleet": {"base_backoff": 5, "max_backoff": 4}}, {}, "max_backoff is 4"),
        ({"fleet": {"approval_default": "ask"}}, {}, "approval_default is 'ask'"),
        ({"fleet": {"stale_blocks": "lax"}}, {}, "stale_blocks"),
        ({"fleet": {"hosting": "cellery"}}, {}, "hosting"),
        ({"fleet": {"command_types": {"a": {"argvs": ["x"]}}}}, {}, "fleet.command_types.a.argvs"),
        ({"fleet": {"command_types": {"a": {"argv": []}}}}, {}, "fleet.command_types.a.argv"),
        (
            {"fleet": {"command_types": {"a": {"argv": ["x"], "approval": "b"}}}},
            {},
            "no rule of fleet.approval_rules",
        ),
        ({"fleet": {"approval_rules": [{"matches": {}}]}}, {}, "did you mean 'match'"),
        ({"fleet": {"approval_rules": [{"deny": 0}]}}, {}, r"approval_rules\[0\].deny is 0"),
        ({"fleet": {"approval_rules": [{"match": {"selector": "((("}}]}}, {}, "approval_rules"),
        ({"fleet": {"secrets": {"a": {"envs": "X"}}}}, {}, "did you mean 'env'"),
        ({"fleet": {"secrets": {"a": {}}}}, {}, "fleet.secrets.a needs env"),
        ({"fleet": {"secrets": {"a": {"env": "X", "file": "y"}}}}, {}, "give one of them"),
        ({"fleet": {"secrets": {"a b": {"env": "X"}}}}, {}, "fleet.secrets has the name 'a b'"),
        ({"fleet": {"secrets": {"a": {"env": "X", "version": 0}}}}, {}, "a.version is 0"),
        ({"fleet": {"secrets": {"a": {"env": "X", "projects": []}}}}, {}, "a.projects has 0 names"),
        ({"fleet": {"secrets": {"a": {"env": "X", "projects": ["A b"]}}}}, {}, "a.projects"),
        (
            {"fleet": {"secrets": {"a": {"env": "X", "command_types": ["exce"]}}}},
            {},
            "did you mean 'exec'",
        ),
        ({}, {"HOLDFAST_FLEET__SECRETS": "{"}, "HOLDFAST_FLEET__SECRETS is not JSON"),
        ({"keep": {"jobs": -1}}, {}, "jobs is -1"),
        ({"webhooks": {"tolerance_seconds": 0}}, {}, "tolerance_seconds is 0"),
        ({"webhooks": {"allow": ["a b"]}}, {}, "allow has 'a b'"),
        ({}, {"HOLDFAST_WEBHOOKS__ALOW": "x"}, "did you mean 'allow'"),
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
