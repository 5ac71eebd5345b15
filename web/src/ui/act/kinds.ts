// The acts on tasks: their words, rights and order.

import { ASKS, type Acts, EXECUTION, EXECUTION_ACTS, TASK_ACTS } from "../../lib/rules";
import type { Task, TaskRow } from "../../lib/types";

export type Verb =
  | "abort"
  | "pause"
  | "resume"
  | "retry"
  | "reassign"
  | "release"
  | "force"
  | "replay"
  | "discard";

export interface Kind {
  type: string;
  name: string;
  keep: string;
  danger?: boolean;
  right: string;
  needsReason: boolean;
  says: string;
}

export const KINDS: Record<Verb, Kind> = {
  abort: {
    type: "ABORT",
    name: "Abort",
    keep: "Keep it",
    danger: true,
    right: "tasks.intervene",
    needsReason: true,
    says: "It ends for good. There is no way back; a copy can be started.",
  },
  pause: {
    type: "PAUSE",
    name: "Pause",
    keep: "Keep running",
    right: "tasks.intervene",
    needsReason: true,
    says: "It stops and keeps its last checkpoint. No attempt is spent.",
  },
  resume: {
    type: "RESUME",
    name: "Resume",
    keep: "Leave it",
    right: "tasks.intervene",
    needsReason: true,
    says: "It may be claimed again.",
  },
  retry: {
    type: "RETRY",
    name: "Retry",
    keep: "Leave it",
    right: "tasks.intervene",
    needsReason: true,
    says: "It is due now; a dead letter gets new attempts.",
  },
  reassign: {
    type: "REASSIGN",
    name: "Reassign",
    keep: "Leave it",
    right: "tasks.intervene",
    needsReason: true,
    says: "Only the chosen node may claim it, for a while.",
  },
  release: {
    type: "RELEASE_LOCK",
    name: "Release",
    keep: "Keep the lease",
    right: "tasks.intervene",
    needsReason: true,
    says: "It is taken from its runner and queued again. No attempt is spent.",
  },
  force: {
    type: "FORCE_STATUS",
    name: "Force status",
    keep: "Leave it",
    danger: true,
    right: "tasks.force",
    needsReason: true,
    says: "Sets the status along legal steps, whatever the runner does.",
  },
  replay: {
    type: "",
    name: "Replay",
    keep: "Leave them",
    right: "dead.replay",
    needsReason: false,
    says: "Dead letters get new attempts.",
  },
  discard: {
    type: "",
    name: "Discard",
    keep: "Keep them",
    danger: true,
    right: "dead.discard",
    needsReason: true,
    says: "They end for good as aborted.",
  },
};

/** The order in which acts are offered. */
const ORDER: Verb[] = ["pause", "resume", "retry", "reassign", "release", "abort", "force"];

/** What the task takes now, as the core rules. */
export function actsOf(task: TaskRow | Task): Acts {
  const of = (task.type === EXECUTION ? EXECUTION_ACTS : TASK_ACTS)[task.status];
  const hold = task.held_by ? "held" : task.gate?.startsWith(ASKS) ? "asks" : "free";
  return of?.[hold] ?? of?.free ?? { takes: [], forced: [] };
}

/** The verbs for this task. A dead letter is discarded rather than aborted. */
export function verbsOf(task: TaskRow | Task): Verb[] {
  const { takes, forced } = actsOf(task);
  const verbs = ORDER.filter((verb) =>
    verb === "force" ? forced.length > 0 : takes.includes(KINDS[verb].type),
  );
  return task.status === "failed" ? verbs.map((verb) => (verb === "abort" ? "discard" : verb)) : verbs;
}
