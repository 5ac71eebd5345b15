// One approval in full: blast numbers, what runs, what is left out, who has voted, what a vote is bound to.
import { json } from "../lib/exact";
import type { JSX } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { get } from "../lib/api";
import {
  amount,
  barOf,
  commandOf,
  countLooks,
  gathered,
  jobPath,
  nameOf,
  waitsForVotes,
  type Job,
} from "../lib/fleet";
import { dur, num, percent, person, plural, spanText, time, until } from "../lib/format";
import { screenKeys } from "../lib/keys";
import { useLoad } from "../lib/load";
import { go, url } from "../lib/place";
import { Bound, VoteActs, Votes, whoText } from "../ui/approval";
import { Icon } from "../ui/marks";
import { actOnJob, JobActDialog, voteOff } from "../ui/job_act";
import { Command, Meter, scrollable, Shown, Text, Wrong } from "../ui/parts";

const LIVE_MS = 1_000;
const FLEET_MS = 60_000;

export function JobApproval({ id }: { id: string }): JSX.Element {
  const loaded = useLoad((signal) => get<Job>(`/jobs/${id}?drift=true`, signal), `approval ${id}`, LIVE_MS);
  if (!loaded.data && loaded.error) return <Wrong error={loaded.error} retry={loaded.reload} />;
  return (
    <>
      <Shown of={loaded}>{(job) => <Detail job={job} />}</Shown>
      <JobActDialog />
    </>
  );
}

function Detail({ job }: { job: Job }): JSX.Element {
  const approval = job.approval;
  const isOpen = waitsForVotes(job);
  const fleet =
    useLoad(
      (signal) =>
        get<{ count: number }>(
          `/hosts/select?selector=${encodeURIComponent("*")}&project=${job.project}`,
          signal,
        ).catch(() => null),
      `hosts of ${job.project}`,
      FLEET_MS,
    ).data?.count ?? 0;
  useLayoutEffect(() => {
    if (!isOpen || !approval || voteOff(approval)) return;
    screenKeys.value = [
      { keys: "a", what: "Approve", run: () => actOnJob("approve", job) },
      { keys: "x", what: "Reject", run: () => actOnJob("reject", job) },
    ];
    return () => void (screenKeys.value = []);
  });
  const counts = countLooks(job.kinds);
  const blocked = job.excluded.length;
  return (
    <>
      <article class="det">
        <button type="button" class="back btn gho" onClick={() => go("/inbox")}>
          <Icon is="left" />
          Inbox
        </button>
        <h1>
          Approve <Text>{nameOf(job)}</Text>
        </h1>
        <p class="sub">
          <Text>{person(approval?.requested_by ?? job.created_by)}</Text> asks,{" "}
          {time(approval?.created_at ?? job.created_at)}
          {job.reason ? (
            <>
              : “<Text>{job.reason}</Text>”
            </>
          ) : null}
          .{" "}
          {isOpen && approval?.expires_at ? (
            <>
              Without an answer it expires at <b class="strong">{time(approval.expires_at)}</b> and no host
              starts.
            </>
          ) : null}
        </p>
        {!isOpen && (
          <p class={`banner ${job.approval_state === "APPROVED" ? "" : "person"}`}>
            <Icon is="decision" of="person" />
            <span>
              <b class="strong">
                {job.approval_state === "APPROVED"
                  ? "It is approved"
                  : job.approval_state === "REJECTED"
                    ? "It was rejected"
                    : job.break_glass
                      ? "It started without its approval"
                      : `It is ${job.approval_state.toLowerCase().replace(/_/g, " ")}`}
              </b>
              .{" "}
              <a class="lnk" href={url(jobPath(job))}>
                Open the job
              </a>
            </span>
          </p>
        )}
        {approval?.state === "void" && (
          <p class="banner warn" role="alert">
            <Icon is="stuck" of="warn" />
            <span>
              <b class="strong">What was approved has changed.</b> The votes are void, and approval is asked
              for again.
            </span>
          </p>
        )}
        <div class="blast">
          <div>
            <span class="sm sub">Hosts</span>
            <b>{num(job.hosts)}</b>
            {fleet > 0 && <span class="sm sub">{percent(Math.min(1, job.hosts / fleet))} of the fleet</span>}
          </div>
          <div>
            <span class="sm sub">At once</span>
            <b>{amount(job.rollout.max_in_flight)}</b>
            <span class="sm sub">{plural(job.waves_total, "wave")}</span>
          </div>
          <div>
            <span class="sm sub">First</span>
            <b>{num(job.waves[0]?.size ?? job.hosts)}</b>
            <span class="sm sub">{job.waves.length > 1 ? "as a canary" : "all together"}</span>
          </div>
          <div>
            <span class="sm sub">Time left</span>
            <b>{isOpen && approval?.expires_at ? dur(Math.max(0, until(approval.expires_at)), true) : "–"}</b>
            <span class="sm sub">to answer</span>
          </div>
        </div>
        <div class="cols2">
          <div>
            <section class="sect">
              <h2>
                What runs <span class="dim">{job.command_type}</span>
              </h2>
              <pre class="well json" ref={scrollable}>
                <b>
                  <Text>{commandOf(job)}</Text>
                </b>
                {Object.entries(job.args).map(([name, value]) => (
                  <>
                    <br />
                    <Text>{`${name} = ${json(value)}`}</Text>
                  </>
                ))}
                {Object.entries(job.env).map(([name, value]) => (
                  <>
                    <br />
                    <Text>{`${name}=${value}`}</Text>
                  </>
                ))}
              </pre>
              <p class="sm sub gap">
                At most {spanText(job.exec_timeout_seconds)} on each host ·{" "}
                {job.idempotent ? "repeated where a host is lost" : "at most once on each host"}
                {Object.keys(job.secrets).length
                  ? ` · with ${plural(Object.keys(job.secrets).length, "secret")}`
                  : ""}
              </p>
            </section>
            <section class="sect">
              <h2>Where</h2>
              <p class="wrapt">
                {job.selector ? (
                  <code>
                    <Text>{job.selector}</Text>
                  </code>
                ) : job.folded ? (
                  <Text>{job.folded}</Text>
                ) : (
                  plural(job.hosts, "named host")
                )}
              </p>
            </section>
            <section class="sect">
              <h2>Look at</h2>
              <ul class="plain">
                <li class="row top">
                  <Icon is={blocked ? "host-blocked" : "check"} of={blocked ? "hold" : "dim"} />
                  <span>
                    {blocked ? (
                      <>
                        <b class="strong">{plural(blocked, "host")}</b> left out by a block
                      </>
                    ) : (
                      "No host is left out by a block"
                    )}
                    {gathered(job.excluded)
                      .slice(0, 4)
                      .map((one) => (
                        <span class="sm sub wrapt">
                          <br />
                          <Text>{`${one.why} (${num(one.hosts.length)})`}</Text>
                        </span>
                      ))}
                  </span>
                </li>
                <li class="row top">
                  <Icon is="jobs" of="dim" />
                  <span>
                    {Object.keys(job.budget).length ? (
                      <>
                        {job.rollout.on_breach === "pause" ? "Pauses" : "Stops"} beyond{" "}
                        {Object.entries(job.rollout.budgets)
                          .map(([name, value]) => `${amount(value)} ${name}`)
                          .join(", ")}
                      </>
                    ) : (
                      <>
                        <b class="strong">No budgets:</b> failures do not stop it
                      </>
                    )}
                  </span>
                </li>
                <li class="row top">
                  <Icon
                    is={job.rollout.gate === "ask" ? "decision" : "running"}
                    of={job.rollout.gate === "ask" ? "person" : "dim"}
                  />
                  <span>
                    {job.waves.length === 1
                      ? "One wave: all hosts without a stop between"
                      : job.rollout.gate === "ask"
                        ? "Asks a person before each further wave"
                        : `Each wave starts ${job.rollout.bake_seconds ? `${spanText(job.rollout.bake_seconds)} ` : ""}after the one before`}
                  </span>
                </li>
              </ul>
            </section>
          </div>
          <div>
            {approval && (
              <section class="sect">
                <h2>
                  Approvals <span class="dim">{whoText(approval)}</span>
                </h2>
                <Votes approval={approval} />
              </section>
            )}
            <section class="sect">
              <h2>What you approve</h2>
              <Bound job={job} />
            </section>
            <section class="sect">
              <h2>Job so far</h2>
              <Meter parts={barOf(counts)} total={job.hosts} />
              <p class="sm sub gap">
                {num(counts.success)} succeeded, {num(counts.waiting)}{" "}
                {counts.waiting === 1 ? "waits" : "wait"}.{" "}
                <a class="lnk" href={url(jobPath(job))}>
                  Open the job
                </a>
              </p>
            </section>
            <section class="sect">
              <Command>
                {!isOpen
                  ? `holdfast job show ${job.external_id ?? job.id}`
                  : `holdfast approve ${job.external_id ?? job.id} -m "REASON"`}
              </Command>
            </section>
          </div>
        </div>
      </article>
      {isOpen && approval && (
        <div class="act">
          <span class="sm sub hid">{voteOff(approval) ?? ""}</span>
          <span class="sp" />
          <VoteActs job={job} wide />
        </div>
      )}
    </>
  );
}
