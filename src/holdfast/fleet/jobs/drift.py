"""Whether a job is still what was approved: its digest, computed again before it starts.

Promises: what has changed since (the command type, a secret, the blocks that match its hosts) makes an
approval void, and people are asked again. A job that needed no approval is judged again by the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.core.event import NewEvent
from holdfast.core.fleet.approvals import approval as rules_of_approval
from holdfast.core.fleet.commands.command_type import CommandType
from holdfast.core.fleet.commands.secrets import SecretRef
from holdfast.core.fleet.jobs.spec import JobSpec, read_spec, stored
from holdfast.core.fleet.model import ApprovalState, Host, Job
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs import asking
from holdfast.fleet.jobs.asking import voided
from holdfast.fleet.jobs.job_rows import job_event, rollout_of, with_rollout
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.verdicts import pinned_digest, read_blocks
from holdfast.store.script import Script, call


class CurrentDigest(NamedTuple):
    """The digest of a job as it is now, and its targets."""

    digest: str
    hosts: Sequence[Host]
    spec: JobSpec
    """With the definition of its command type and the versions of its secrets that count now."""
    is_defined: bool
    """Whether the command type still exists."""


def current_digest(job: Job, rules: FleetRules, now: float) -> Script[CurrentDigest]:
    """Reads all targets: for a job that has not started."""
    spec = read_spec(job.spec_json)
    defined = rules.command_types.get(spec.command_type)
    spec = replace(spec, definition=defined or spec.definition, secrets=_newest(spec, rules))
    rows = yield call(own("pinned_hosts"), job_id=job.id)
    blocks = yield from read_blocks(job.project, spec.command_type, now)
    with_facts = blocks.ask_facts or asking.ask_facts(rules)
    found = yield from host_scripts.pinned([row[0] for row in rows], with_facts=with_facts)
    hosts = [found[row[0]] for row in rows if row[0] in found]
    definition = defined or CommandType(name=spec.command_type)
    digest = pinned_digest(spec, definition, hosts, blocks)
    return CurrentDigest(digest, hosts, spec, defined is not None)


def _newest(spec: JobSpec, rules: FleetRules) -> dict[str, SecretRef]:
    """The references to secrets with the newest versions. A secret that is gone is refused at the offer."""
    return {
        variable: SecretRef(ref.name, rules.secret_versions.get(ref.name, ref.version))
        for variable, ref in spec.secrets.items()
    }


def void_if_drifted(
    job: Job, rules: FleetRules, ids: Ids, now: float
) -> Script[tuple[Job, list[NewEvent]]]:
    """The job as it is, if its digest fits. Else with the new digest and the approval that it needs now."""
    if job.break_glass_json is not None:
        return job, []
    current = yield from current_digest(job, rules, now)
    if current.digest == job.digest:
        return job, []
    return (yield from ask_again(job, current, rules, ids, now))


def ask_again(
    job: Job,
    current: CurrentDigest,
    rules: FleetRules,
    ids: Ids,
    now: float,
    *,
    why: str = "what was approved has changed",
) -> Script[tuple[Job, list[NewEvent]]]:
    """Ends the request of the job, and asks for another one where the rules want it. The job gets what
    people are asked about now: the definition of its command type, and the versions of its secrets."""
    fresh = replace(job, digest=current.digest, spec_json=stored(current.spec))
    if job.approval_id is not None:
        before = yield from asking.read_request(job.approval_id)
        fresh = asking.excluding(fresh, rules_of_approval.excluded_of(before))
        yield from asking.write_request(before, voided(before, now))
    rule = yield from asking.find_rule(
        current.spec, current.hosts, rules, is_defined=current.is_defined
    )
    changed, request = asking.judged(fresh, rule, ids, now)
    if request is not None:
        yield from asking.add_request(request)
    changed = with_rollout(changed, rollout_of(changed))
    if job.approval_state is ApprovalState.NOT_REQUIRED and request is None:
        return changed, []
    event = job_event(
        "job.void",
        changed,
        now,
        reason=why,
        before=job.digest,
        digest=changed.digest,
        approval_state=changed.approval_state.value,
        requested_by=job.created_by,
    )
    return changed, [event]
