"""docs/reference/objects.md lists the fields of the structs."""

import re
from pathlib import Path

import msgspec
import pytest

from holdfast.client import admin_models, fleet_models, job_models, models, webhook_models

PAGE = Path(__file__).parents[3] / "docs/reference/objects.md"
SHAPES: dict[str, type[msgspec.Struct]] = {
    "task": models.TaskView,
    "task in a list": models.TaskRow,
    "progress of a task": models.ProgressView,
    "failure of a task": models.FailureView,
    "dependency of a task": models.DependencyView,
    "why": models.Why,
    "event": models.EventView,
    "checkpoint": models.CheckpointView,
    "intervention": models.Intervention,
    "group of dead letters": admin_models.DeadGroup,
    "queue": admin_models.QueueView,
    "schedule": admin_models.ScheduleView,
    "node": admin_models.NodeView,
    "lock": admin_models.LockView,
    "lock in a list": admin_models.LockRow,
    "act on a lock": admin_models.LockAct,
    "decision": models.DecisionView,
    "decision in a list": models.DecisionRow,
    "conflict": admin_models.ConflictView,
    "conflict in a list": admin_models.ConflictRow,
    "project": admin_models.ProjectView,
    "token": admin_models.TokenRow,
    "act in the audit": admin_models.AuditView,
    "host": fleet_models.HostView,
    "host in a list": fleet_models.HostRow,
    "agent of a host": fleet_models.HostAgentView,
    "slot of a host": fleet_models.HostSlotView,
    "hosts of a selector": fleet_models.HostSelection,
    "import of hosts": fleet_models.HostImport,
    "group of hosts": fleet_models.GroupView,
    "block": fleet_models.BlockView,
    "block in a list": fleet_models.BlockRow,
    "answer to a new job": job_models.JobAnswer,
    "job": job_models.JobView,
    "job in a list": job_models.JobRow,
    "host in a plan": job_models.PlanRow,
    "wave": job_models.WaveView,
    "drift of a job": job_models.DriftView,
    "approval": job_models.ApprovalView,
    "approval in a list": job_models.OpenApproval,
    "vote": job_models.VoteView,
    "answer to a vote": job_models.ApprovalAnswer,
    "answer to an order": job_models.JobChanged,
    "break-glass": job_models.BreakGlassView,
    "execution": job_models.ExecutionView,
    "why of an execution": job_models.ExecutionWhy,
    "folded output": job_models.FoldedOutput,
    "group of outputs": job_models.OutputGroupView,
    "webhook": webhook_models.WebhookView,
    "new webhook": webhook_models.IssuedWebhook,
    "delivery": webhook_models.DeliveryView,
}


def listed() -> dict[str, list[str]]:
    """The fields of each object of the page."""
    rows = re.findall(r"^\| ([^|`]+) \|.*\| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", fields) for name, fields in rows if name != "object"}


def test_the_page_has_every_shape() -> None:
    assert listed().keys() == SHAPES.keys()


@pytest.mark.parametrize("name", SHAPES)
def test_the_page_has_the_fields_of_a_shape(name: str) -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(SHAPES[name])]
    assert listed()[name] == fields
