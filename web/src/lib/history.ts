// What the events of a task tell: the path through its statuses, its attempts by fence, its versions.
import { json, unmarked } from "./exact";
import { capital, clean, dur, num, person, plural, short } from "./format";
import { nodeName } from "./hosts";
import { STATUS_AFTER } from "./rules";
import type { Event, Task } from "./types";

interface Step {
  status: string;
  at: string;
  until: string | null;
  note: string;
}
export interface Run {
  fence: number;
  attempt: number;
  node: string;
  from: string;
  to: string | null;
  outcome: string;
  note: string;
  late: string | null;
}

const text = (value: unknown): string =>
  value == null ? "" : typeof value === "string" ? unmarked(value) : json(value);

/** The status that an event leads to. Null: it changes none. */
function statusAfter(event: Event): string | null {
  switch (event.kind) {
    case "task.enqueued":
      return event.data.waiting_on ? "blocked" : "queued";
    case "task.failed":
      return event.data.will_retry ? "queued" : null;
    case "task.forced":
      return text(event.data.after) || null;
    default:
      return STATUS_AFTER[event.kind as keyof typeof STATUS_AFTER] ?? null;
  }
}

const NOTES: Record<string, string> = {
  "task.lost": "lease lost",
  "task.released": "released",
  "task.snoozed": "snoozed",
  "task.failed": "retry",
  "task.resumed": "resumed",
  "task.replayed": "replayed",
  "task.revived": "parent replayed",
  "task.unblocked": "parents ended",
};

export function path(events: Event[]): Step[] {
  const steps: Step[] = [];
  for (const event of events) {
    const status = statusAfter(event);
    const last = steps.at(-1);
    if (!status || (last?.status === status && event.kind !== "task.started")) continue;
    if (last) last.until = event.at;
    const who =
      event.kind === "task.started"
        ? nodeName(text(event.data.node))
        : event.data.actor
          ? `by ${person(text(event.data.actor))}`
          : event.data.decision_id
            ? "decision"
            : "";
    steps.push({ status, at: event.at, until: null, note: who || NOTES[event.kind] || "" });
  }
  return steps;
}

/** The event that led to a status, where the store no longer keeps it. */
const LED_TO: Record<string, string> = {
  completed: "task.completed",
  failed: "task.dead",
  aborted: "task.aborted",
  paused: "task.paused",
  stuck: "task.stuck",
};

/** The events with those that the store no longer keeps, as far as the task tells them: of a task with many it
 * has the latest, of one that rests for longer than the feed goes back it has none. */
export function whole(task: Task, events: Event[]): Event[] {
  if (events.some((event) => event.kind === "task.enqueued")) return events;
  const made = (kind: string, at: string, data: Record<string, unknown>): Event => ({
    position: "",
    kind,
    at,
    task_id: task.id,
    type: task.type,
    project: task.project,
    version: null,
    data,
  });
  const node = task.node ?? events.map((event) => event.data.node).find(Boolean) ?? "";
  const waits = events.length === 0 && (task.status === "queued" || task.status === "blocked");
  const isRun = task.started_at !== null && !waits && !events.some((event) => event.kind === "task.started");
  const led = events.length === 0 ? LED_TO[task.status] : undefined;
  return [
    made("task.enqueued", task.created_at, {
      queue: task.queue,
      ...(waits && task.status === "blocked" ? { waiting_on: task.waiting_on || 1 } : {}),
    }),
    ...(isRun
      ? [made("task.started", task.started_at ?? "", { node, attempt: task.attempts, fence: task.fence })]
      : []),
    ...(led ? [made(led, task.finished_at ?? task.updated_at, led === "task.dead" ? failed(task) : {})] : []),
    ...events,
  ];
}

const failed = (task: Task): Record<string, unknown> => ({
  error: task.failure?.message ?? "",
  attempts: task.attempts,
});

const ENDS: Record<string, string> = {
  "task.completed": "completed",
  "task.failed": "failed",
  "task.dead": "failed",
  "task.lost": "lost",
  "task.released": "released",
  "task.snoozed": "snoozed",
  "task.paused": "paused",
  "task.aborted": "aborted",
  "task.forced": "forced",
};

export function runs(events: Event[]): Run[] {
  const all: Run[] = [];
  for (const event of events) {
    const data = event.data;
    const last = all.at(-1);
    if (event.kind === "task.started")
      all.push({
        fence: Number(data.fence),
        attempt: Number(data.attempt),
        node: text(data.node),
        from: event.at,
        to: null,
        outcome: "running",
        note: "",
        late: null,
      });
    else if (event.kind === "task.late") {
      const of = all.find((run) => run.fence === Number(data.fence));
      if (of) of.late = event.at;
    } else if (last && last.to === null && ENDS[event.kind]) {
      last.to = event.at;
      last.outcome = ENDS[event.kind] ?? "";
      last.note = about(event);
    } else if (last && last.to === null && event.kind === "task.stuck") last.outcome = "stuck";
    else if (last && last.to === null && event.kind === "task.unstuck") last.outcome = "running";
    if (last && last.to === null && event.kind === "task.progress") last.note = about(event);
  }
  return all;
}

/** A result in a line. That of a command is its exit code. */
const outcome = (result: unknown): string => {
  const code = (result as { exit_code?: unknown } | null)?.exit_code;
  return typeof code === "number" ? `exit ${code}` : text(result);
};

/** The few words about an event that fit beside it; the whole is in its tip. */
export function brief(event: Event): string {
  const data = event.data;
  if (event.kind === "task.completed" && data.duration != null) return `in ${dur(Number(data.duration))}`;
  if (event.kind === "task.started") return nodeName(text(data.node)) || about(event);
  return about(event) || (event.task_id ? words(event.kind) : subject(event));
}

/** One line about an event. */
export function about(event: Event): string {
  const data = event.data;
  const progress = data.progress as { done?: number; note?: string; phase?: string } | undefined;
  switch (event.kind) {
    case "task.enqueued":
      return [
        data.waiting_on ? `waits for ${plural(Number(data.waiting_on), "task")}` : `in ${text(data.queue)}`,
        data.priority === "normal" ? "" : text(data.priority),
        data.due_at ? "not due yet" : "",
      ]
        .filter(Boolean)
        .join(", ");
    case "task.started":
      return `attempt ${text(data.attempt)}, fence ${text(data.fence)}`;
    case "task.progress":
      return (
        progress?.note ||
        progress?.phase ||
        (progress?.done != null ? `${Math.round(progress.done * 100)} %` : "")
      );
    case "task.completed":
      return [
        data.duration != null ? `in ${dur(Number(data.duration))}` : "",
        data.result !== undefined ? outcome(data.result) : "",
      ]
        .filter(Boolean)
        .join(", ");
    case "task.failed":
      return `${text(data.error)}${data.will_retry ? "" : ", no attempt left"}`;
    case "task.dead":
      return `${text(data.error)} after ${plural(Number(data.attempts ?? 0), "attempt")}`;
    case "task.late":
      return `fence ${text(data.fence)} refused, now ${text(data.current_fence)}`;
    case "job.progress":
      return `${num(Number(data.ended))} of ${plural(Number(data.hosts), "host")}, wave ${text(data.wave)}`;
    case "task.lost":
      return `death ${text(data.deaths)}`;
    case "task.output":
      return `${text(data.size)} bytes on ${text(data.stream)}`;
    case "checkpoint.created":
      return [text(data.type), text(data.note)].filter(Boolean).join(": ");
    case "checkpoint.hitl_required":
      return text(data.question);
    case "decision.decided":
      return `“${text(data.choice)}”`;
    case "node.state":
      return [nodeName(text(data.node)), text(data.state), text(data.reason)].filter(Boolean).join(", ");
    case "conflict.recorded":
      return [text(data.kind), text(data.state)].join(", ");
    case "lock.revoked":
    case "lock.taken_over":
      return `${text(data.resource)}, fence ${text(data.fence)}`;
    case "intervention.issued":
    case "intervention.delivered":
    case "intervention.applied":
    case "intervention.refused":
    case "intervention.expired":
      return [
        text(data.intervention),
        data.target_node ? `to ${text(data.target_node)}` : "",
        text(data.detail),
      ]
        .filter(Boolean)
        .join(" ");
    default: {
      const named = ["reason", "totals", "spec", "state"].map((key) => text(data[key])).filter(Boolean);
      return named.join(", ");
    }
  }
}

/** Who did it. */
export function by(event: Event): string {
  const { actor, node } = event.data;
  return actor ? person(text(actor)) : node ? nodeName(text(node)) : "";
}

/** What an event is about, if it is no task. */
export const subject = (event: Event): string =>
  event.task_id
    ? `${event.type ?? "task"} ${short(event.task_id)}`
    : text(
        event.data.schedule ??
          event.data.queue ??
          (event.data.node ? nodeName(text(event.data.node)) : undefined) ??
          event.data.resource ??
          event.data.name ??
          event.data.group ??
          event.data.operation_id ??
          (typeof event.data.block === "string" ? `block ${short(event.data.block)}` : undefined) ??
          (event.data.job ? event.data.external_id && `job ${text(event.data.external_id)}` : undefined) ??
          (typeof event.data.job === "string" ? `job ${short(event.data.job)}` : ""),
      );

export function markOf(
  kind: string,
): [string, "person" | "work" | "good" | "hold" | "warn" | "bad" | "doubt" | "idle" | "off" | "dim"] {
  if (kind === "task.completed" || kind === "schedule.fired") return ["completed", "good"];
  if (
    kind === "task.started" ||
    kind === "task.progress" ||
    kind === "job.progress" ||
    kind === "task.metrics" ||
    kind === "task.output" ||
    kind === "task.unstuck" ||
    kind.startsWith("task.checkpoint") ||
    kind === "checkpoint.created"
  )
    return ["running", "work"];
  if (kind === "task.failed" || kind === "task.dead") return ["failed", "bad"];
  if (
    kind === "task.paused" ||
    kind === "task.held" ||
    kind === "queue.paused" ||
    kind === "schedule.paused" ||
    kind === "node.state"
  )
    return ["paused", "hold"];
  if (kind === "task.stuck") return ["stuck", "warn"];
  if (kind === "task.aborted" || kind === "task.forced") return ["aborted", "off"];
  if (kind === "task.late" || kind === "node.fenced" || kind === "node.cloned") return ["aborted", "doubt"];
  if (kind === "task.lost" || kind === "node.lost") return ["late", "warn"];
  if (
    kind.startsWith("decision.") ||
    kind.startsWith("intervention.") ||
    kind === "checkpoint.hitl_required" ||
    kind.startsWith("token.") ||
    kind === "lock.revoked"
  )
    return ["decision", "person"];
  if (kind.startsWith("conflict.")) return ["conflict", "person"];
  if (kind.startsWith("node.")) return ["nodes", "dim"];
  return ["queued", "idle"];
}

/** A kind as words: "Job progress". */
export const words = (kind: string): string =>
  capital(clean(kind.replace(/^task\./, "").replace(/[._]/g, " ")));
