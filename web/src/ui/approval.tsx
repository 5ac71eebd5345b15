// The request for an approval of a job: who may vote, who has, what it is bound to, and what has moved since.
import type { JSX } from "preact";
import {
  digestShort,
  gathered,
  isOver,
  type Excluded,
  type Approval,
  type Drift,
  type Job,
} from "../lib/fleet";
import { dur, initials, num, person, plural, time, until } from "../lib/format";
import { who } from "../lib/api";
import { Icon } from "./marks";
import { actOnJob, myVote, sum, voteOff } from "./job_act";
import { Button, Copy, Text } from "./parts";

export const whoText = (approval: { eligible: string[]; need: Record<string, number> }): string =>
  `${plural(sum(approval.need), "vote")} by ${approval.eligible.map((name) => name.replace(/^(role|user|group):/, "")).join(" or ") || "approver"}, not by the requester`;

export function Votes({ approval }: { approval: Approval }): JSX.Element {
  const off = voteOff(approval);
  const mine = myVote(approval);
  return (
    <ul class="votes">
      {approval.votes.map((vote) => (
        <li class={vote.withdrawn_at ? "gone" : ""}>
          <span class="who" aria-hidden="true">
            {initials(vote.voter)}
          </span>
          <div>
            <p>
              <b class="strong">
                <Text>{person(vote.voter)}</Text>
              </b>{" "}
              <span class={vote.withdrawn_at ? "dim" : vote.verdict === "approve" ? "good" : "bad"}>
                {vote.withdrawn_at ? "withdrew" : vote.verdict === "approve" ? "approved" : "rejected"}
              </span>{" "}
              <span class="dim">{time(vote.withdrawn_at ?? vote.at)}</span>
            </p>
            {vote.reason && (
              <p class="sm sub wrapt">
                “<Text>{vote.reason}</Text>”
              </p>
            )}
          </div>
        </li>
      ))}
      {!mine && approval.state === "pending" && (
        <li>
          <span class="who" aria-hidden="true">
            {initials(who.value?.name ?? "?")}
          </span>
          <div>
            <p>
              <b class="strong">You</b>
            </p>
            <p class="sm sub">
              {off ??
                (sum(approval.have) + 1 >= sum(approval.need)
                  ? "Your vote starts the job."
                  : "Your vote counts; more are needed.")}
            </p>
          </div>
        </li>
      )}
    </ul>
  );
}

export const VoteActs = ({ job, wide = false }: { job: Job; wide?: boolean }): JSX.Element | null => {
  const approval = job.approval;
  if (!approval || isOver(job) || job.started_at) return null;
  const off = voteOff(approval);
  const mine = myVote(approval);
  if (approval.state !== "pending" && !mine) return null;
  return (
    <>
      {mine && (
        <Button right="jobs.approve" name="Withdraw" onClick={() => actOnJob("withdraw", job)}>
          Withdraw…
        </Button>
      )}
      {mine !== "reject" && approval.state === "pending" && (
        <Button
          rank="dan"
          right="jobs.approve"
          off={off}
          name="Reject"
          onClick={() => actOnJob("reject", job)}
        >
          Reject…{wide && <kbd class="k">x</kbd>}
        </Button>
      )}
      {mine !== "approve" && approval.state === "pending" && (
        <Button
          rank="per"
          right="jobs.approve"
          off={off}
          name={`Approve ${plural(job.hosts, "host")}`}
          onClick={() => actOnJob("approve", job)}
        >
          Approve {plural(job.hosts, "host")}
          {wide && <kbd class="k">a</kbd>}
        </Button>
      )}
    </>
  );
};

/** What was approved, and whether it is still that. */
export function Bound({ job }: { job: Job }): JSX.Element {
  const digest = job.approval?.digest ?? job.digest;
  return (
    <>
      <dl class="kv">
        <dt>digest</dt>
        <dd class="m">
          {digestShort(digest)}
          <Copy text={digest} name="Copy the digest" />
        </dd>
        <dt>hosts</dt>
        <dd>
          {num(job.hosts)}, pinned {time(job.created_at)}
        </dd>
        {job.approval && (
          <>
            <dt>rule</dt>
            <dd>
              <Text>{job.approval.rule}</Text>
            </dd>
            {job.approval.expires_at && job.approval.state === "pending" && (
              <>
                <dt>answer by</dt>
                <dd>
                  {time(job.approval.expires_at)}, in {dur(Math.max(0, until(job.approval.expires_at)), true)}
                </dd>
              </>
            )}
          </>
        )}
      </dl>
      {!job.started_at && !isOver(job) && (
        <p class="sm sub gap">
          If the command, the hosts, the rollout, a secret or a block change before it starts, the votes are
          void and approval is asked for again.
        </p>
      )}
      {job.drift && <DriftList drift={job.drift} />}
    </>
  );
}

function DriftList({ drift }: { drift: Drift }): JSX.Element {
  const rows: [string, number, string[], string][] = [
    ["+", drift.new_count, drift.new, "joined since and are not in it"],
    ["−", drift.gone_count, drift.gone, "were removed"],
    ["→", drift.changed_count, drift.changed, "are no longer selected"],
  ];
  const moved = rows.filter(([, n]) => n > 0);
  if (moved.length === 0)
    return (
      <p class="row sm sub gap">
        <Icon is="check" of="good" size={12} />
        The hosts are the same as when it was asked.
      </p>
    );
  return (
    <div class="well drift" role="group" aria-label="Hosts since it was made">
      {moved.map(([sign, n, names, what]) => (
        <p>
          <b class={sign === "+" ? "add" : sign === "−" ? "del" : ""}>
            {sign} {num(n)}
          </b>{" "}
          {what}: <Text>{names.slice(0, 8).join(", ")}</Text>
          {n > 8 ? " …" : ""}
        </p>
      ))}
    </div>
  );
}

export const ApprovalPanel = ({ job }: { job: Job }): JSX.Element | null => {
  const approval = job.approval;
  if (!approval) return null;
  return (
    <section id="approval">
      <div class="sec">
        <h2>Approval</h2>
        <span class="sp" />
        <span
          class={`tag ${approval.state === "pending" ? "person" : approval.state === "approved" ? "good" : ""}`}
        >
          <Icon is="decision" size={12} />
          {approval.state === "pending" ? `${sum(approval.have)} of ${sum(approval.need)}` : approval.state}
        </span>
      </div>
      <p class="sub pb">{whoText(approval)}</p>
      <Votes approval={approval} />
      <div class="gap">
        <Bound job={job} />
      </div>
      <div class="row wrapf gap">
        <VoteActs job={job} />
      </div>
    </section>
  );
};

/** Hosts that will not run it, by what keeps them out. */
export function LeftOut({ excluded }: { excluded: Excluded[] }): JSX.Element {
  return (
    <ul class="dry" aria-label="Left out">
      {gathered(excluded)
        .slice(0, 8)
        .map((one) => (
          <li>
            <Icon is="host-blocked" of="idle" />
            <span class="wrapt">
              <Text>{one.why}</Text>
            </span>
            <b>{num(one.hosts.length)}</b>
            <small class="m cut" title={one.hosts.slice(0, 50).join(", ")}>
              <Text>{one.hosts.slice(0, 6).join(", ")}</Text>
              {one.hosts.length > 6 ? " …" : ""}
            </small>
          </li>
        ))}
    </ul>
  );
}
