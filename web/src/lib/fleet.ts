// The fleet: objects of the API as far as screens read them, and what is said of them.
import type { Family, Sign } from "../ui/marks";
import { num, person, plural } from "./format";
import { EXECUTION, EXECUTION_KINDS, JOB_ENDED } from "./rules";

/** The job of an execution: its payload names it. */
export function jobOf(task: { type: string; payload: unknown }): string | null {
  const job = task.type === EXECUTION ? (task.payload as { job?: unknown } | null)?.job : null;
  return typeof job === "string" ? job : null;
}

export interface Excluded {
  host: string;
  reason: string;
  detail: string;
}
interface Halt {
  mode: string;
  reason: string;
  actor: string;
  cause: string;
}
export interface JobRow {
  id: string;
  external_id: string | null;
  project: string;
  command_type: string;
  command: string;
  status: string;
  approval_state: string;
  approval_id: string | null;
  created_by: string;
  reason: string;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  not_after: string | null;
  hosts: number;
  ended: Record<string, number>;
  wave: number;
  waves_total: number;
  halt: Halt | null;
  break_glass: boolean;
  parent_job_id: string | null;
  digest: string;
  version: number;
}
export interface Wave {
  n: number;
  size: number;
  state: "pending" | "asked" | "open" | "closed";
  started_at: string | null;
  closed_at: string | null;
  counts: Record<string, number>;
}
interface Vote {
  voter: string;
  verdict: string;
  reason: string;
  at: string;
  withdrawn_at: string | null;
}
interface ApprovalRow {
  id: string;
  job_id: string;
  project: string;
  state: string;
  digest: string;
  rule: string;
  requested_by: string;
  excluded: string[];
  eligible: string[];
  need: Record<string, number>;
  created_at: string;
  expires_at: string | null;
  remaining_seconds: number | null;
  version: number;
}
export interface Approval extends ApprovalRow {
  have: Record<string, number>;
  denied: number;
  votes: Vote[];
}
export interface OpenApproval extends ApprovalRow {
  job: JobRow;
}
export interface Drift {
  new: string[];
  gone: string[];
  changed: string[];
  new_count: number;
  gone_count: number;
  changed_count: number;
}
interface Glass {
  actor: string;
  reason: string;
  ticket: string;
  at: string;
  reviewed_by: string | null;
  reviewed_at: string | null;
  note: string;
}
interface Rollout {
  waves: (number | string)[];
  max_in_flight: number | string;
  order: string;
  bake_seconds: number;
  gate: string;
  straggler_seconds: number;
  budgets: Record<string, number | string | null>;
  canary_budget: number | null;
  consecutive: number | null;
  on_breach: string;
  rate_per_second: number | null;
}
export interface Job extends JobRow {
  selector: string | null;
  folded: string;
  args: Record<string, unknown>;
  env: Record<string, string>;
  secrets: Record<string, unknown>;
  rollout: Rollout;
  exec_timeout_seconds: number;
  retry: Record<string, unknown>;
  idempotent: boolean;
  on_restart: string;
  priority: string;
  metadata: Record<string, unknown>;
  counts: Record<string, number>;
  kinds: Record<string, number>;
  waves: Wave[];
  budget: Record<string, { used: number; limit: number }>;
  eta_seconds: number | null;
  excluded: Excluded[];
  approval: Approval | null;
  glass: Glass | null;
  drift: Drift | null;
}
export interface Matrix {
  job_id: string;
  version: number;
  kinds: Record<string, string>;
  cells: string;
  hosts: string[];
  waves: number[];
  labels: Record<string, string[]>;
}
interface Stream {
  bytes: number;
  kept: number;
  sha256: string | null;
  complete: boolean;
}
export interface Execution {
  id: string;
  job_id: string;
  host: string;
  host_id: string;
  nth: number;
  wave: number | null;
  status: string;
  kind: string;
  reason: string;
  task_status: string;
  attempt: number;
  max_attempts: number;
  token: number | null;
  exit_code: number | null;
  signal: number | null;
  queued_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  output: Record<string, Stream>;
  late: unknown;
  break_glass: boolean;
  parent_job_id: string | null;
  version: number;
}
export interface OutputGroup {
  sha256: string;
  count: number;
  hosts: string;
  first: string;
  bytes: number;
  sample: string;
}
export interface Folded {
  stream: string;
  groups: OutputGroup[];
  more_groups: number;
  missing: string;
  missing_count: number;
  differing: number;
}
export interface JobAnswer {
  job_id: string;
  external_id: string | null;
  project: string;
  status: string;
  approval_state: string;
  hosts: number;
  excluded: Excluded[];
  digest: string;
  created: boolean;
  url: string;
  dry_run: boolean;
  folded: string;
  waves: number[];
  plan: { host: string; wave: number; place: number; would_run: boolean; reason: string }[];
}
export interface HostRow {
  id: string;
  name: string;
  project: string;
  driver: string;
  address: string;
  labels: Record<string, string>;
  state: string;
  standing: string | null;
  agent: {
    node_id: string;
    live: boolean;
    version: string;
    incarnation: number;
    seen_at: string;
    seen_seconds_ago: number;
    capabilities: unknown;
  } | null;
  slot: { execution_id: string; token: number; since: string | null } | null;
  created_at: string;
  updated_at: string;
  version: number;
}
export interface Host extends HostRow {
  groups: string[];
  facts: Record<string, unknown>;
  blocks: string[];
}
export interface Selection {
  selector: string;
  count: number;
  folded: string;
  hosts: string[];
}
export interface HostGroup {
  name: string;
  project: string;
  selector: string;
  created_at: string;
  version: number;
}
export interface BlockRow {
  id: string;
  project: string;
  host: string | null;
  host_id: string | null;
  selector: string | null;
  command_type: string;
  reason: string;
  owner: string;
  effect: string;
  on_running: string;
  on_lift: string;
  window: Record<string, unknown> | null;
  expires_at: string | null;
  remaining_seconds: number | null;
  active: boolean;
  lifted_at: string | null;
  lifted_by: string;
  created_at: string;
  version: number;
}
export interface Block extends BlockRow {
  affects: number;
  folded: string;
}

// -- how a host of a job is shown --------------------------------------------------------------------

export const LOOKS = [
  "success",
  "running",
  "waiting",
  "failed",
  "timeout",
  "lost",
  "unknown",
  "unreachable",
  "blocked",
  "skipped",
] as const;
export type Look = (typeof LOOKS)[number];
type Kind = keyof typeof EXECUTION_KINDS;
/** The kinds of executions. A gateway may have later ones. */
export const KINDS = Object.keys(EXECUTION_KINDS) as Kind[];
const LOOK_OF: Record<Kind, Look> = {
  new: "waiting",
  awaiting_approval: "waiting",
  awaiting_wave: "waiting",
  queued: "waiting",
  host_busy: "waiting",
  awaiting_turn: "waiting",
  held: "waiting",
  offered: "waiting",
  accepted: "waiting",
  host_unreachable: "unreachable",
  host_closed: "unreachable",
  held_by_block: "blocked",
  starting: "running",
  running: "running",
  unknown: "unknown",
  succeeded: "success",
  failed: "failed",
  refused: "failed",
  lost: "lost",
  undeliverable: "unreachable",
  timeout_delivery: "unreachable",
  expired: "unreachable",
  timeout_exec: "timeout",
  blocked: "blocked",
  cancelled_before_start: "skipped",
  cancelled_killed: "skipped",
  cancelled_unconfirmed: "unknown",
  skipped: "skipped",
  rejected: "skipped",
};
export const lookOf = (kind: string): Look => LOOK_OF[kind as Kind] ?? "unknown";
export const FAMILY_OF: Record<Look, Family> = {
  success: "good",
  running: "work",
  waiting: "dim",
  failed: "bad",
  timeout: "warn",
  lost: "doubt",
  unknown: "doubt",
  unreachable: "idle",
  blocked: "idle",
  skipped: "idle",
};
export const MEANING: Record<Look, string> = {
  success: "the command succeeded",
  running: "the command runs",
  waiting: "has not started",
  failed: "the command failed, or the agent refused it",
  timeout: "the command ran too long",
  lost: "the host did not answer after its go: it may have run",
  unknown: "what happened is not known yet",
  unreachable: "the host is out of reach or takes nothing new: it has not started",
  blocked: "a block keeps it off the host",
  skipped: "cancelled, or the job was halted before it",
};
export const signOf = (look: Look): Sign => `host-${look}`;
export const isEnded = (kind: string): boolean => EXECUTION_KINDS[kind as Kind]?.ended ?? false;
/** Hosts of a job that have got no go, those that have and run, and those that have ended. */
export function standing(job: Job): { waiting: number; running: number; ended: number } {
  const found = { waiting: 0, running: 0, ended: 0 };
  for (const [kind, n] of Object.entries(job.kinds))
    found[
      isEnded(kind) ? "ended" : EXECUTION_KINDS[kind as Kind]?.status === "RUNNING" ? "running" : "waiting"
    ] += n;
  return found;
}
export type Counts = Record<Look, number>;
export function countLooks(kinds: Record<string, number>): Counts {
  const found = Object.fromEntries(LOOKS.map((look) => [look, 0])) as Counts;
  for (const [kind, n] of Object.entries(kinds)) found[lookOf(kind)] += n;
  return found;
}
/** The order of a bar: what ended well, what ended badly, what is under way. What waits is its paper. */
const BAR: Look[] = [
  "success",
  "failed",
  "timeout",
  "lost",
  "unknown",
  "unreachable",
  "blocked",
  "skipped",
  "running",
];
export const barOf = (counts: Counts): [number, Family][] =>
  BAR.map((look) => [counts[look], FAMILY_OF[look]]);

/** A row of a list counts ends by status only. */
const STATUS_LOOK: [string, Family][] = [
  ["SUCCESS", "good"],
  ["FAILED", "bad"],
  ["TIMEOUT", "warn"],
  ["BLOCKED", "idle"],
  ["CANCELLED", "idle"],
];
export const endedBar = (job: JobRow): [number, Family][] =>
  STATUS_LOOK.map(([status, of]) => [job.ended[status] ?? 0, of]);
/** Hosts on which the command failed or ran too long. */
export const notWell = (job: JobRow): number => (job.ended.FAILED ?? 0) + (job.ended.TIMEOUT ?? 0);
export const endedOf = (job: JobRow): number => Object.values(job.ended).reduce((a, b) => a + b, 0);

// -- how a job is shown ------------------------------------------------------------------------------

const OVER = new Set<string>(JOB_ENDED);
export const isOver = (job: JobRow): boolean => OVER.has(job.status);
export const isPaused = (job: JobRow): boolean => job.status === "PAUSED";
export const waitsForVotes = (job: JobRow): boolean => job.status === "WAIT_APPROVAL";
/** What a person calls a job: the caller's name of it, else its command. */
export const nameOf = (job: JobRow): string =>
  job.external_id || `${job.command_type}${job.command ? ` ${job.command}` : ""}`.slice(0, 60);
export const commandOf = (job: { command_type: string; command: string }): string =>
  job.command
    ? job.command_type === "exec" || job.command_type === "shell"
      ? job.command
      : `${job.command_type} ${job.command}`
    : job.command_type;

export function jobMark(job: JobRow): [Sign, Family, string] {
  switch (job.status) {
    case "SUCCESS":
      return ["host-success", "good", "success"];
    case "PARTIAL":
      return ["host-partial", "good", "partial"];
    case "FAILED":
      return ["host-failed", "bad", "failed"];
    case "CANCELLED":
      return ["host-skipped", "idle", "cancelled"];
    case "REJECTED":
      return ["host-skipped", "idle", "rejected"];
    case "EXPIRED":
      return ["host-unreachable", "idle", "expired"];
  }
  if (waitsForVotes(job)) return ["decision", "person", "waits for approval"];
  if (isPaused(job)) return ["host-paused", "hold", "paused"];
  if (job.halt) return ["host-paused", "hold", job.halt.mode === "abort" ? "ends its hosts" : "drains"];
  return job.started_at ? ["host-running", "work", "runs"] : ["host-waiting", "dim", "not started"];
}

const CAUSE: Record<string, string> = {
  budget: "a budget is full",
  operator: "a person stopped it",
  rejected: "it was not approved",
  expired: "its time was over",
};
const isMachine = (actor: string): boolean => actor === "" || actor === "rollout";
/** One line: why it is where it is. */
export function jobWhy(job: JobRow): string {
  const bad = notWell(job);
  if (job.halt) {
    const who = isMachine(job.halt.actor) ? " itself" : ` by ${person(job.halt.actor)}`;
    const verb = isPaused(job)
      ? "Paused"
      : job.halt.mode === "abort"
        ? "Aborted"
        : isOver(job)
          ? "Stopped"
          : "Drains, stopped";
    return `${verb}${who}: ${job.halt.reason || CAUSE[job.halt.cause] || job.halt.cause}`;
  }
  if (waitsForVotes(job)) return "Waits for approval; nothing has started";
  if (job.status === "REJECTED") return "Its approval was refused";
  if (job.status === "EXPIRED")
    return job.approval_state === "EXPIRED"
      ? "Its approval expired: not enough people voted in time"
      : "Its time was over before it could start";
  if (!job.started_at && !isOver(job)) return "Starts in a moment";
  if (bad) return `${plural(bad, "host")} did not succeed`;
  if (job.break_glass) return "Started without its approval";
  return isOver(job) ? job.reason : "Nothing failed";
}
export const amount = (value: number | string | null | undefined): string =>
  value === null || value === undefined
    ? "no limit"
    : typeof value === "number"
      ? num(value)
      : value.replace("%", " %");
export const digestShort = (digest: string): string => digest.replace(/^[a-z0-9]*:/, "").slice(0, 8);
/** The page of a job, and its place in the API. */
export const jobPath = (job: { id: string }): string => `/fleet/jobs/${job.id}`;
export const jobApi = (job: { id: string }): string => `/jobs/${job.id}`;

/** Hosts that are left out, gathered by what keeps them out. */
export function gathered(excluded: Excluded[]): { why: string; block: string; hosts: string[] }[] {
  const found = new Map<string, { why: string; block: string; hosts: string[] }>();
  for (const one of excluded) {
    const text = one.detail || one.reason;
    const [, block = "", said = text] = /^block (blk_\S+) of (.*)$/s.exec(text) ?? [];
    const entry = found.get(text) ?? {
      why: person(said.replace(/(\d\d:\d\d):\d\d\.\d+Z/, "$1 UTC").replace(/(\d{4}-\d\d-\d\d)T/, "$1 ")),
      block,
      hosts: [],
    };
    entry.hosts.push(one.host);
    found.set(text, entry);
  }
  return [...found.values()];
}
