// Acts on jobs. Every one shows its effect first, asks for a reason, and is bound to the version that was seen.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, missing, type Problem } from "../lib/api";
import {
  commandOf,
  countLooks,
  digestShort,
  jobApi,
  nameOf,
  standing,
  type Approval,
  type Job,
  type JobAnswer,
} from "../lib/fleet";
import { num, person, plural } from "../lib/format";
import { afterAct } from "../lib/live";
import { go } from "../lib/place";
import { keepReason } from "../lib/prefs";
import { who } from "../lib/api";
import { ReasonField, Refused } from "./act";
import { Icon, type Family, type Sign } from "./marks";
import { Button, Command, Dialog, Field, Text, toast } from "./parts";

type JobVerb =
  | "pause"
  | "resume"
  | "promote"
  | "abort"
  | "change"
  | "retry"
  | "break-glass"
  | "review"
  | "approve"
  | "reject"
  | "withdraw";

interface Kind {
  name: string;
  keep: string;
  right: string;
  reason: boolean;
  danger?: boolean;
  person?: boolean;
  title: (job: Job) => string;
  says: string;
  effect: (job: Job) => Effect[];
  done: (job: Job) => string;
}
type Effect = [Sign, Family, ComponentChildren, ComponentChildren];

const next = (job: Job): number => job.waves.find((wave) => wave.state === "asked")?.size ?? 0;
const runs = (job: Job): Effect => ["host-running", "work", "run now and finish", num(standing(job).running)];
const waits = (job: Job, what: string): Effect => ["host-waiting", "dim", what, num(standing(job).waiting)];
const ended = (job: Job): Effect => [
  "host-success",
  "good",
  "have ended and stay as they are",
  num(standing(job).ended),
];

const KINDS: Record<JobVerb, Kind> = {
  pause: {
    name: "Pause",
    keep: "Keep running",
    right: "jobs.control",
    reason: true,
    title: (job) => `Pause ${nameOf(job)}?`,
    says: "No further host starts until a person resumes it.",
    effect: (job) => [runs(job), waits(job, "wait until it is resumed"), ended(job)],
    done: () => "Paused. Hosts that run finish.",
  },
  resume: {
    name: "Resume",
    keep: "Keep it paused",
    right: "jobs.control",
    reason: false,
    title: (job) => `Resume ${nameOf(job)}?`,
    says: "Its counters stay: what a budget had used is accepted, and one more pauses it again.",
    effect: (job) => [waits(job, "may start again, within the window"), ended(job)],
    done: () => "Resumed.",
  },
  promote: {
    name: "Open the wave",
    keep: "Let it wait",
    right: "jobs.control",
    reason: false,
    person: true,
    title: (job) => `Open wave ${job.wave + 1} of ${nameOf(job)}?`,
    says: "The wave waits for a person. It starts at once.",
    effect: (job) => [
      [
        "host-waiting",
        "dim",
        `start in wave ${job.wave + 1}, ${job.rollout.max_in_flight} at a time`,
        num(next(job)),
      ],
      ended(job),
    ],
    done: (job) => `Wave ${job.wave + 1} is open.`,
  },
  abort: {
    name: "Abort",
    keep: "Keep running",
    right: "jobs.control",
    reason: true,
    danger: true,
    title: (job) =>
      `Abort ${nameOf(job)} on ${plural(standing(job).waiting + standing(job).running, "host")}?`,
    says: "This cannot be undone. What has not started never starts.",
    effect: (job) => [waits(job, "never start"), ended(job)],
    done: () => "Aborted.",
  },
  change: {
    name: "Change",
    keep: "Leave it",
    right: "jobs.control",
    reason: false,
    title: (job) => `Change the rollout of ${nameOf(job)}`,
    says: "It counts from the next host on. Beyond what was approved the job needs another approval.",
    effect: () => [],
    done: () => "Changed.",
  },
  retry: {
    name: "Retry",
    keep: "Not now",
    right: "jobs.create",
    reason: false,
    title: (job) => `Retry ${nameOf(job)} on hosts that did not succeed?`,
    says: "A new job with the same command, for these hosts only. Where a command may have run already, it may run twice.",
    effect: () => [],
    done: () => "The retry is a new job.",
  },
  "break-glass": {
    name: "Start without approval",
    keep: "Let it wait",
    right: "jobs.break_glass",
    reason: true,
    danger: true,
    title: (job) => `Start ${nameOf(job)} without its approval?`,
    says: "All approvers are notified. Another person has to review it before this can be used again.",
    effect: (job) => [waits(job, "start, without a vote")],
    done: () => "Started without its approval. It waits for a review.",
  },
  review: {
    name: "I have looked at it",
    keep: "Not yet",
    right: "jobs.approve",
    reason: true,
    person: true,
    title: (job) => `Review ${nameOf(job)}`,
    says: "It started without its approval. Say what you found.",
    effect: () => [],
    done: () => "Reviewed.",
  },
  approve: {
    name: "Approve",
    keep: "Back",
    right: "jobs.approve",
    reason: true,
    person: true,
    title: (job) => `Approve ${plural(job.hosts, "host")}?`,
    says: "",
    effect: () => [],
    done: () => "Your vote counts.",
  },
  reject: {
    name: "Reject",
    keep: "Back",
    right: "jobs.approve",
    reason: true,
    danger: true,
    title: (job) => `Reject ${nameOf(job)}?`,
    says: "The vote that decides ends the job: no host starts.",
    effect: (job) => [waits(job, "never start")],
    done: () => "Rejected.",
  },
  withdraw: {
    name: "Withdraw my vote",
    keep: "Keep it",
    right: "jobs.approve",
    reason: false,
    title: (job) => `Withdraw your vote on ${nameOf(job)}?`,
    says: "It counts no more. An approved job that has not started waits again.",
    effect: () => [],
    done: () => "Your vote is withdrawn.",
  },
};

/** Why this person's vote would not count, or nothing. */
export function voteOff(
  approval: Approval | { excluded: string[]; eligible: string[]; requested_by: string; state?: string },
): string | undefined {
  const me = who.value;
  if (!me) return undefined;
  if (approval.state && approval.state !== "pending") return `It is ${approval.state}.`;
  const off = missing("jobs.approve", "Voting");
  if (off) return off;
  if (approval.requested_by === me.name) return "You asked for it: another person has to answer.";
  if (approval.excluded.includes(me.name))
    return "You may not vote on this: you changed it, or made the token that asks.";
  const mine = new Set([me.name, ...me.roles.map((role) => `role:${role}`)]);
  const names = approval.eligible;
  if (names.length && !names.some((name) => mine.has(name) || name.startsWith("group:")))
    return `Only votes of ${names.map(person).join(", ")} count.`;
  return undefined;
}
export const myVote = (approval: Approval): string =>
  approval.votes.find((vote) => vote.voter === who.value?.name && !vote.withdrawn_at)?.verdict ?? "";
export const sum = (of: Record<string, number>): number => Object.values(of).reduce((a, b) => a + b, 0);

const asked = signal<{ verb: JobVerb; job: Job } | null>(null);
export const actOnJob = (verb: JobVerb, job: Job): void => void (asked.value = { verb, job });
/** Keeps the numbers of an open dialog true. A vote stays bound to what the person was shown. */
export function renewJobAct(job: Job): void {
  const open = asked.value;
  if (open?.job.id === job.id && open.job !== job && !["approve", "reject", "withdraw"].includes(open.verb))
    asked.value = { ...open, job };
}
export const JobActDialog = (): JSX.Element | null =>
  asked.value && (
    <Ask
      key={`${asked.value.verb} ${asked.value.job.id}`}
      {...asked.value}
      onClose={() => (asked.value = null)}
    />
  );

const TYPED_FROM = 100;
const BUDGETS: [string, string][] = [
  ["failed", "Failed"],
  ["timeout", "Timed out"],
  ["lost", "Lost"],
  ["unreachable", "Out of reach"],
];
const RETRIES: [string, string, string][] = [
  ["failed", "failed", "FAILED"],
  ["timeout", "timed out", "TIMEOUT"],
  ["lost", "lost: may have run", "FAILED"],
  ["unreachable", "out of reach: never started", "TIMEOUT"],
  ["blocked", "blocked: never started", "BLOCKED"],
  ["cancelled", "cancelled, or left out by a halt", "CANCELLED"],
];
const readAmount = (text: string): number | string | null =>
  text.trim() === ""
    ? null
    : /^\d+$/.test(text.trim())
      ? Number(text.trim())
      : text.trim().replace(/\s+/g, "");

function Ask({ verb, job, onClose }: { verb: JobVerb; job: Job; onClose: () => void }): JSX.Element {
  const kind = KINDS[verb];
  const approval = job.approval;
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [mode, setMode] = useState("drain");
  const [ticket, setTicket] = useState("");
  const [only, setOnly] = useState<string[]>(["failed", "timeout", "unreachable"]);
  const [inFlight, setInFlight] = useState(String(job.rollout.max_in_flight));
  const [rate, setRate] = useState(
    job.rollout.rate_per_second == null ? "" : String(job.rollout.rate_per_second),
  );
  const [budget, setBudget] = useState<Record<string, string>>(
    Object.fromEntries(
      BUDGETS.map(([name]) => [
        name,
        job.rollout.budgets[name] == null ? "" : String(job.rollout.budgets[name]),
      ]),
    ),
  );
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const stands = standing(job);
  const failed = countLooks(
    Object.fromEntries(
      Object.entries(job.kinds).filter(
        ([name]) => !["host_unreachable", "host_closed", "unknown"].includes(name),
      ),
    ),
  );
  const mustType =
    (verb === "abort" && stands.waiting + stands.running > TYPED_FROM
      ? stands.waiting + stands.running
      : verb === "approve" && job.hosts > 10 * TYPED_FROM
        ? job.hosts
        : 0) || null;
  const body = (): Record<string, unknown> => {
    switch (verb) {
      case "abort":
        return { mode };
      case "break-glass":
        return { ticket };
      case "retry":
        return { only };
      case "approve":
      case "reject":
        return { expect_digest: approval?.digest };
      case "change":
        return {
          max_in_flight: readAmount(inFlight) ?? job.rollout.max_in_flight,
          rate_per_second: rate.trim() ? Number(rate) : null,
          budget: Object.fromEntries(
            BUDGETS.map(([name]) => [name, readAmount(budget[name] ?? "")]).filter(
              ([name, value]) => value !== (job.rollout.budgets[name as string] ?? null),
            ),
          ),
        };
      default:
        return {};
    }
  };
  const isVote = verb === "approve" || verb === "reject" || verb === "withdraw";
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const path =
        verb === "change"
          ? jobApi(job)
          : verb === "review"
            ? `${jobApi(job)}/break-glass/review`
            : `${jobApi(job)}/${verb}`;
      // A vote is bound to the digest; an act on a running job to nothing but the job: its version moves with every host.
      const answer = await ask<unknown>(verb === "change" ? "PATCH" : "POST", `/api/v1${path}`, {
        ...body(),
        reason,
      });
      keepReason(reason);
      toast(kind.done(job));
      afterAct();
      onClose();
      if (verb === "retry") go(`/fleet/jobs/${(answer.body as JobAnswer).job_id}`);
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const off =
    (verb === "approve" || verb === "reject" ? approval && voteOff(approval) : undefined) ??
    (kind.reason && !reason.trim()
      ? "Give a reason first."
      : verb === "break-glass" && !ticket.trim()
        ? "Name the ticket first."
        : verb === "retry" && only.length === 0
          ? "Choose at least one."
          : mustType !== null && typed !== String(mustType)
            ? "Type the number first."
            : undefined);
  const label =
    verb === "approve"
      ? `Approve ${plural(job.hosts, "host")}`
      : verb === "abort"
        ? `Abort ${plural(stands.waiting + stands.running, "host")}`
        : kind.name;
  const need = approval ? sum(approval.need) : 0;
  const have = approval ? sum(approval.have) : 0;
  const name = job.external_id ?? job.id;
  const command: Partial<Record<JobVerb, string>> = {
    change: `holdfast job set ${name} --max-in-flight ${inFlight}`,
    retry: `holdfast job retry ${name} --only ${only.join(",")}`,
    abort: `holdfast job abort ${name}${mode === "kill" ? " --mode kill" : ""}`,
    approve: `holdfast approve ${name}`,
    reject: `holdfast reject ${name}`,
    withdraw: `holdfast withdraw ${name}`,
    "break-glass": `holdfast job break-glass ${name} --ticket ${ticket || "TICKET"}`,
  };
  return (
    <Dialog label={kind.name} kind={isVote ? "conf" : ""} onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">
            <Text>{kind.title(job)}</Text>
          </h2>
          <p class="sub">
            {verb === "approve" ? (
              <>
                <Text>{commandOf(job)}</Text>, {job.rollout.max_in_flight} at a time.{" "}
                {have + 1 >= need
                  ? "Yours is the last vote: the job starts."
                  : `After yours, ${plural(need - have - 1, "vote")} more.`}
              </>
            ) : (
              kind.says
            )}
          </p>
        </div>
        {verb === "abort" && stands.running > 0 && (
          <div class="opts" role="radiogroup" aria-label="Hosts that run">
            <label class={mode === "drain" ? "on" : ""}>
              <input type="radio" name="mode" checked={mode === "drain"} onChange={() => setMode("drain")} />
              <span>
                <b class="strong">Let them finish</b>{" "}
                <span class="sub">the {num(stands.running)} that run are not interrupted</span>
              </span>
            </label>
            <label class={mode === "kill" ? "on" : ""}>
              <input type="radio" name="mode" checked={mode === "kill"} onChange={() => setMode("kill")} />
              <span>
                <b class="strong">End them</b>{" "}
                <span class="sub">TERM, then KILL, on {plural(stands.running, "host")}</span>
              </span>
            </label>
          </div>
        )}
        {verb === "change" && (
          <>
            <div class="two">
              <Field label="Hosts at the same time" help="A number, or a share as 5%">
                <input
                  class="inp"
                  value={inFlight}
                  autoFocus
                  onInput={(event) => setInFlight(event.currentTarget.value)}
                />
              </Field>
              <Field label="Hosts per second" help="Empty: no limit">
                <input
                  class="inp"
                  type="number"
                  min="0.01"
                  step="any"
                  value={rate}
                  onInput={(event) => setRate(event.currentTarget.value)}
                />
              </Field>
            </div>
            <fieldset class="four">
              <legend class="lab">Budgets: one more halts the job</legend>
              {BUDGETS.map(([key, word]) => (
                <Field label={word} help={`used ${num(job.budget[key]?.used ?? 0)}`}>
                  <input
                    class="inp"
                    value={budget[key]}
                    placeholder="no limit"
                    onInput={(event) => {
                      const { value } = event.currentTarget;
                      setBudget((old) => ({ ...old, [key]: value }));
                    }}
                  />
                </Field>
              ))}
            </fieldset>
          </>
        )}
        {verb === "retry" && (
          <fieldset class="ticks">
            <legend class="lab">Hosts that ended</legend>
            {RETRIES.map(([key, word]) => (
              <label>
                <input
                  type="checkbox"
                  checked={only.includes(key)}
                  onChange={() =>
                    setOnly((old) => (old.includes(key) ? old.filter((one) => one !== key) : [...old, key]))
                  }
                />
                <span>{word}</span>
                <span class="sp" />
                <b>{num(failed[key === "cancelled" ? "skipped" : (key as "failed")])}</b>
              </label>
            ))}
          </fieldset>
        )}
        {kind.effect(job).length > 0 && (
          <ul class="dry" aria-label="What happens">
            {kind.effect(job).map(([sign, of, what, n]) => (
              <li>
                <Icon is={sign} of={of} />
                <span>{what}</span>
                <b>{n}</b>
              </li>
            ))}
            {verb === "abort" && stands.running > 0 && (
              <li>
                <Icon is="host-running" of="work" />
                <span>{mode === "kill" ? "run now and are ended" : "run now and finish"}</span>
                <b>{num(stands.running)}</b>
              </li>
            )}
          </ul>
        )}
        {verb === "approve" && approval && (
          <ul class="dry" aria-label="What happens">
            <li>
              <Icon is="decision" of="person" />
              <span>votes with yours</span>
              <b>
                {have + 1} of {need}
              </b>
            </li>
            <li>
              <Icon is="key" of="idle" />
              <span>bound to the digest</span>
              <b class="m">{digestShort(approval.digest)}</b>
            </li>
          </ul>
        )}
        {verb === "break-glass" && (
          <Field label="Ticket" help="Where this is written down">
            <input
              class="inp"
              value={ticket}
              autoFocus
              onInput={(event) => setTicket(event.currentTarget.value)}
            />
          </Field>
        )}
        {wrong && <Refused error={wrong} />}
        <ReasonField
          focus={!["change", "break-glass"].includes(verb)}
          value={reason}
          onInput={setReason}
          needed={kind.reason}
        />
        {mustType !== null && (
          <Field label="Type the number of hosts" help={num(mustType)}>
            <input
              class="inp m"
              inputMode="numeric"
              value={typed}
              onInput={(event) => setTyped(event.currentTarget.value)}
            />
          </Field>
        )}
        <div class="row acts">
          {approval && isVote && (
            <span class="sm dim bound">If command or hosts change first, the vote is void.</span>
          )}
          <span class="sp" />
          <Button onClick={onClose}>{kind.keep}</Button>
          <Button
            type="submit"
            name={label}
            rank={kind.danger ? "danfill" : kind.person ? "per" : "pri"}
            right={kind.right}
            busy={busy}
            off={off}
          >
            {label}
          </Button>
        </div>
        <Command>{`${command[verb] ?? `holdfast job ${verb} ${name}`}${reason || kind.reason ? ` -m ${JSON.stringify(reason || "REASON")}` : ""}`}</Command>
      </form>
    </Dialog>
  );
}
