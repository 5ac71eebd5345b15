// One line about a task in a list, from what the row has: no further call.
import { age, dur, person, until } from "./format";
import { nodeName } from "./hosts";
import { ASKS, EXECUTION } from "./rules";
import type { TaskRow } from "./types";

export function line(task: TaskRow): string {
  switch (task.status) {
    case "running": {
      const p = task.progress;
      const note = p?.note || p?.phase;
      if (note) return note;
      return p?.done
        ? `Runs, ${Math.round(p.done * 100)} %`
        : task.node
          ? `Runs on ${nodeName(task.node)}`
          : "Runs";
    }
    case "stuck":
      return `No progress for ${dur(age(task.updated_at), true)}`;
    case "queued": {
      if (task.held_by) return `Held by ${person(task.held_by)}`;
      const due = until(task.due_at);
      if (due > 1) return `${task.attempts > 0 ? "Retry is due" : "Due"} in ${dur(due, true)}`;
      return `Waits for a worker, ${dur(age(task.due_at ?? task.created_at), true)}`;
    }
    case "blocked":
      return task.type === EXECUTION
        ? "Waits for its wave, or for the approval of its job"
        : task.waiting_on
          ? `Waits for ${task.waiting_on} ${task.waiting_on === 1 ? "task" : "tasks"}`
          : "Waits";
    case "paused":
      return task.gate?.startsWith(ASKS)
        ? "Waits for a decision"
        : task.held_by
          ? `Paused by ${person(task.held_by)}`
          : "Paused";
    case "failed":
      return task.error ?? "Failed";
    case "completed":
      return task.result_preview ? task.result_preview : "Done";
    case "aborted":
      return task.error ?? (task.type === EXECUTION ? "Ended by its job or by a block" : "Ended by a person");
    default:
      return "";
  }
}
