// The objects of the fleet (docs/reference/objects.md), and how the outcome of a host looks.
import type { Family, Sign } from "../ui/marks";

export interface Halt { mode: string; reason: string; actor: string; cause: string }
export interface Excluded { host: string; reason: string; detail: string }
export interface JobRow {
  id: string; external_id: string | null; project: string; command_type: string; command: string; status: string; approval_state: string;
  approval_id: string | null; created_by: string; reason: string; created_at: string; started_at: string | null; finished_at: string | null;
  not_after: string | null; hosts: number; ended: Record<string, number>; wave: number; waves_total: number; halt: Halt | null;
  break_glass: boolean; parent_job_id: string | null; digest: string; version: number;
}
export interface Vote { voter: string; verdict: string; reason: string; at: string; withdrawn_at: string | null }
export interface Approval {
  id: string; job_id: string; project: string; state: string; digest: string; rule: string; requested_by: string; excluded: string[]; eligible: string[];
  need: Record<string, number>; created_at: string; expires_at: string | null; remaining_seconds: number | null; version: number;
  have?: Record<string, number>; denied?: number; votes?: Vote[]; job?: JobRow;
}
export interface Wave { n: number; size: number; state: string; started_at: string | null; closed_at: string | null; counts: Record<string, number> }
export interface Job extends JobRow {
  selector: string | null; args: Record<string, unknown>; env: Record<string, string>; rollout: Record<string, unknown>; exec_timeout_seconds: number;
  idempotent: boolean; on_restart: string; counts: Record<string, number>; kinds: Record<string, number>; waves: Wave[];
  budget: Record<string, { used: number; limit: number }>; eta_seconds: number | null; excluded: Excluded[]; approval: Approval | null;
}
export interface Execution {
  id: string; job_id: string; host: string; host_id: string; nth: number; wave: number | null; status: string; kind: string; reason: string;
  attempt: number; max_attempts: number; token: number | null; exit_code: number | null; signal: number | null; started_at: string | null;
  finished_at: string | null; duration_seconds: number | null; output: Record<string, { bytes: number }>; late: unknown;
}
export interface OutputGroup { sha256: string; count: number; hosts: string; first: string; bytes: number; sample: string }
export interface Folded { stream: string; groups: OutputGroup[]; more_groups: number; missing: string; missing_count: number; differing: number }
export interface Host {
  id: string; name: string; project: string; driver: string; address: string; labels: Record<string, string>; state: string;
  agent: { live: boolean; version: string; seen_seconds_ago: number } | null; slot: { execution_id: string; since: string } | null; version: number;
  groups?: string[]; facts?: Record<string, unknown>; blocks?: string[];
}
export interface Block {
  id: string; host: string | null; selector: string | null; command_type: string; reason: string; owner: string; effect: string; on_running: string;
  on_lift: string; expires_at: string | null; remaining_seconds: number | null; active: boolean; lifted_at: string | null; lifted_by: string; created_at: string; version: number;
}
export interface PlanRow { host: string; nth: number; wave: number; would_run: boolean; reason: string }
export interface JobAnswer { job_id: string; external_id: string | null; status: string; approval_state: string; hosts: number; excluded: Excluded[]; digest: string; created: boolean; dry_run: boolean; folded: string; plan: PlanRow[] }

export type Outcome = "success" | "failed" | "timeout" | "lost" | "unknown" | "unreachable" | "blocked" | "skipped" | "running" | "waiting";
/** In the order of a bar: what ended well, what runs, what ended otherwise, what waits. */
export const OUTCOMES: Outcome[] = ["success", "failed", "timeout", "lost", "unknown", "unreachable", "blocked", "skipped", "running", "waiting"];
export const OUTCOME_OF: Record<Outcome, Family> = { success: "good", failed: "bad", timeout: "warn", lost: "doubt", unknown: "doubt", unreachable: "idle", blocked: "idle", skipped: "idle", running: "work", waiting: "idle" };

/** The outcome of an execution, from its status and its fine kind. */
export function outcomeOf(status: string, kind: string): Outcome {
  if (status === "SUCCESS") return "success";
  if (/lost/.test(kind)) return "lost";
  if (/unknown/.test(kind)) return "unknown";
  if (kind === "undeliverable" || kind === "timeout_delivery") return "unreachable";
  if (status === "FAILED") return "failed";
  if (status === "TIMEOUT") return "timeout";
  if (status === "BLOCKED") return "blocked";
  if (status === "CANCELLED") return "skipped";
  if (status === "RUNNING") return "running";
  return "waiting";
}
const STATUS: Record<string, Outcome> = { SUCCESS: "success", FAILED: "failed", TIMEOUT: "timeout", BLOCKED: "blocked", CANCELLED: "skipped", RUNNING: "running", QUEUED: "waiting", NEW: "waiting" };
export const outcomeOfStatus = (status: string): Outcome => STATUS[status] ?? "waiting";

export const JOB_ENDED = new Set(["SUCCESS", "PARTIAL", "FAILED", "CANCELLED", "REJECTED", "EXPIRED"]);
export function jobMark(status: string): [Sign, Family, string] {
  switch (status) {
    case "SUCCESS": return ["host-success", "good", "success"];
    case "PARTIAL": return ["host-partial", "good", "partial"];
    case "FAILED": return ["host-failed", "bad", "failed"];
    case "CANCELLED": return ["host-skipped", "idle", "cancelled"];
    case "REJECTED": return ["decision", "idle", "rejected"];
    case "EXPIRED": return ["host-timeout", "idle", "expired"];
    case "WAIT_APPROVAL": return ["decision", "person", "waits for approval"];
    case "PAUSED": case "HALTING": return ["host-paused", "hold", status.toLowerCase()];
    case "RUNNING": return ["host-running", "work", "running"];
    default: return ["host-waiting", "idle", "new"];
  }
}
export const jobName = (job: { external_id: string | null; id: string }): string => job.external_id ?? job.id.slice(-8);
