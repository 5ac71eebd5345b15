"""The table of `/api/v1` beside tasks: events, nodes, locks, schedules, tokens, projects, figures, audit."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.client import admin_models as models
from holdfast.core.rights import Operation as O  # noqa: N817
from holdfast.gateway.operations import (
    admin,
    doctor,
    events,
    facets,
    nodes,
    presets,
    projects,
    system,
    weights,
)
from holdfast.gateway.rest.route import PagedSearch, Route, Searched


class EventsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: str | None = None
    before: str | None = None
    """Events before this position, or `head`: the latest first."""
    topics: str = ""
    kinds: str = ""
    q: str = ""
    limit: int = 100
    wait_seconds: float = 0.0


class AuditQuery(PagedSearch, frozen=True, forbid_unknown_fields=True):
    since: int | None = None
    """Rows after this number, the oldest first."""


class FoundNodes(Searched, frozen=True, forbid_unknown_fields=True):
    live: bool = True
    agents: bool = True


class FlowQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    minutes: int = facets.MINUTES_MAX


class DoctorQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_wait_seconds: float = doctor.MAX_WAIT_SECONDS


class LocksQuery(PagedSearch, frozen=True, forbid_unknown_fields=True):
    behind: str | None = None


class PresetsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str


class PresetRemoval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    project: str | None = None
    reason: str = ""


class Reasoned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change without a body is made."""

    reason: str = ""


_Reason = admin.ReasonBody
ROUTES: Final = (
    Route(
        "GET",
        "/events",
        events.read_events,
        "Events after a position, or before one",
        EventsQuery,
        operation=O.EVENTS_READ,
    ),
    Route(
        "POST",
        "/ws-tickets",
        system.create_ticket,
        "A ticket for one WebSocket",
        operation=O.EVENTS_READ,
        status=201,
        is_entry=True,
    ),
    Route(
        "GET",
        "/nodes",
        nodes.find,
        "List nodes",
        FoundNodes,
        operation=O.NODES_READ,
        items=models.NodeView,
    ),
    Route("GET", "/nodes/{node_id}", nodes.get, "One node", operation=O.NODES_READ),
    *(
        Route(
            "POST",
            f"/nodes/{{node_id}}/{verb}",
            handler,
            summary,
            body=_Reason,
            operation=O.NODES_MANAGE,
        )
        for verb, handler, summary in (
            ("cordon", nodes.cordon, "Give a node no new tasks"),
            ("uncordon", nodes.uncordon, "Admit a node again"),
            ("drain", nodes.drain, "Let a node end its runs, and give it no new tasks"),
            ("quarantine", nodes.quarantine, "Refuse everything that a node sends"),
            ("revoke", nodes.revoke, "End the runs and the credential of a node"),
        )
    ),
    Route(
        "POST",
        "/join-tokens",
        system.create_join_token,
        "A token with which nodes register",
        body=system.JoinBody,
        operation=O.TOKENS_MANAGE,
        status=201,
    ),
    Route(
        "GET",
        "/locks",
        admin.list_locks,
        "List held locks",
        LocksQuery,
        operation=O.LOCKS_READ,
        is_list=True,
        items=models.LockRow,
    ),
    Route(
        "GET",
        "/locks/{resource}",
        admin.get_lock,
        "One lock with its waiters",
        operation=O.LOCKS_READ,
    ),
    Route(
        "POST",
        "/locks/{resource}/revoke",
        admin.revoke_lock,
        "Take a lock from its holder",
        body=_Reason,
        operation=O.LOCKS_REVOKE,
    ),
    Route(
        "GET",
        "/schedules",
        admin.list_schedules,
        "List schedules",
        Searched,
        operation=O.SCHEDULES_READ,
        items=models.ScheduleView,
    ),
    Route(
        "GET", "/schedules/{name}", admin.get_schedule, "One schedule", operation=O.SCHEDULES_READ
    ),
    Route(
        "PUT",
        "/schedules/{name}",
        admin.put_schedule,
        "Add or change a schedule",
        body=admin.ScheduleBody,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "DELETE",
        "/schedules/{name}",
        admin.remove_schedule,
        "Remove a schedule",
        Reasoned,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "POST",
        "/schedules/{name}/pause",
        admin.pause_schedule,
        "Pause a schedule",
        body=admin.ChangeBody,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "POST",
        "/schedules/{name}/resume",
        admin.resume_schedule,
        "Resume a schedule",
        body=admin.ChangeBody,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "POST",
        "/schedules/{name}/run",
        admin.run_schedule,
        "Enqueue the task of a schedule now",
        body=_Reason,
        operation=O.SCHEDULES_WRITE,
        status=201,
    ),
    Route(
        "POST",
        "/schedules/{name}/backfill",
        admin.backfill_schedule,
        "Enqueue the tasks of past times of a schedule",
        body=admin.BackfillBody,
        operation=O.SCHEDULES_WRITE,
    ),
    Route(
        "GET",
        "/tokens",
        system.list_tokens,
        "List tokens",
        PagedSearch,
        operation=O.TOKENS_MANAGE,
        is_list=True,
        items=models.TokenRow,
    ),
    Route(
        "POST",
        "/tokens",
        system.create_token,
        "Create a token",
        body=system.TokenBody,
        operation=O.TOKENS_MANAGE,
        status=201,
    ),
    Route(
        "DELETE",
        "/tokens/{token_id}",
        system.revoke_token,
        "Revoke a token",
        Reasoned,
        operation=O.TOKENS_MANAGE,
    ),
    Route(
        "POST",
        "/tokens/{token_id}/rotate",
        system.rotate_token,
        "Give a token another secret",
        Reasoned,
        operation=O.TOKENS_MANAGE,
    ),
    Route("GET", "/about", system.about, "The version and the time of the gateway"),
    Route("GET", "/rights", system.list_operations, "The operations that the caller may use"),
    Route("GET", "/whoami", system.whoami, "The principal of the request"),
    Route(
        "GET",
        "/projects",
        projects.find,
        "List projects",
        Searched,
        operation=O.TASKS_READ,
        items=models.ProjectView,
    ),
    Route("GET", "/projects/{project}", projects.get, "One project", operation=O.TASKS_READ),
    Route(
        "POST",
        "/projects",
        projects.create,
        "Create a project",
        body=projects.ProjectBody,
        operation=O.PROJECTS_MANAGE,
        status=201,
    ),
    Route(
        "PATCH",
        "/projects/{project}",
        projects.change,
        "Change the settings of a project",
        body=projects.SettingsBody,
        operation=O.PROJECTS_MANAGE,
    ),
    Route(
        "GET",
        "/presets",
        presets.find,
        "List the views of tasks, or the templates of commands",
        PresetsQuery,
        operation=O.PRESETS_READ,
    ),
    Route(
        "PUT",
        "/presets/{kind}/{name}",
        presets.put,
        "Keep a view or a template",
        body=presets.PresetBody,
        operation=O.PRESETS_WRITE,
    ),
    Route(
        "DELETE",
        "/presets/{kind}/{name}",
        presets.remove,
        "Remove a view or a template",
        PresetRemoval,
        operation=O.PRESETS_WRITE,
    ),
    Route(
        "GET",
        "/types",
        system.list_types,
        "List task types",
        Searched,
        operation=O.QUEUES_READ,
        items=models.TypeRow,
    ),
    Route(
        "PUT",
        "/types",
        system.put_types,
        "Register task types",
        body=system.TypesBody,
        operation=O.TASKS_SUBMIT,
    ),
    Route(
        "GET",
        "/types/{name}/weights",
        weights.list_weights,
        "List the keys of a type whose weight is not 1",
        PagedSearch,
        operation=O.QUEUES_READ,
        items=models.KeyWeightView,
    ),
    Route(
        "PUT",
        "/types/{name}/weights",
        weights.set_weight,
        "Set how many tasks a key of a fair type starts in one turn",
        body=weights.WeightBody,
        operation=O.TYPES_WEIGH,
    ),
    Route(
        "GET", "/stats", system.stats, "Numbers of tasks, workers and nodes", operation=O.STATS_READ
    ),
    Route(
        "GET",
        "/flow",
        facets.flow,
        "Tasks enqueued, started, completed and failed over the last minutes",
        FlowQuery,
        operation=O.STATS_READ,
    ),
    Route(
        "GET",
        "/doctor",
        doctor.check,
        "Check the store, the nodes and the queues",
        DoctorQuery,
        operation=O.STATS_READ,
    ),
    Route(
        "GET",
        "/audit",
        system.list_audit,
        "List acts of operators",
        AuditQuery,
        operation=O.AUDIT_READ,
        is_list=True,
        items=models.AuditView,
    ),
    Route(
        "GET",
        "/audit/verify",
        system.verify_audit,
        "Verify the chain of the audit",
        operation=O.AUDIT_READ,
    ),
)
