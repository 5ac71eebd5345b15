// What an act would do.
import type { ComponentChildren, JSX } from "preact";
import { num } from "../../lib/format";
import type { Task, TaskRow } from "../../lib/types";
import { type Family, Icon, type Sign, familyOf } from "../marks";
import { Text } from "../parts";
import { Verb } from "./kinds";
import { Foreseen } from "./one";

export function Dry({
  seen,
  verb,
  task,
}: {
  seen: Foreseen | null;
  verb: Verb;
  task: TaskRow | Task;
}): JSX.Element | null {
  if (!seen) return null;
  const line = (
    sign: Sign,
    of: Family,
    what: ComponentChildren,
    value: ComponentChildren,
    note?: ComponentChildren,
  ) => (
    <li>
      <Icon is={sign} of={of} />
      <span>{what}</span>
      <b>{value}</b>
      {note && <small>{note}</small>}
    </li>
  );
  const effect = seen.effect;
  return (
    <ul class="dry" aria-label="What happens">
      {effect
        ? line(
            (effect.to in
            { queued: 1, running: 1, paused: 1, failed: 1, completed: 1, aborted: 1, blocked: 1, stuck: 1 }
              ? effect.to
              : "queued") as Sign,
            familyOf(effect.to),
            "this task",
            effect.from === effect.to ? effect.to : `${effect.from} → ${effect.to}`,
            effect.fence > task.fence
              ? `Fence ${task.fence} becomes ${effect.fence}: what the old runner writes is refused.`
              : verb === "pause" && effect.from === effect.to
                ? "It is held back; its status stays."
                : undefined,
          )
        : line("check", "idle", "this task", "stays as it is", "It already has this state.")}
      {seen.runner &&
        line(
          "nodes",
          "off",
          <>
            <Text>{seen.runner}</Text> is notified
          </>,
          "at once",
          "Its handler is cancelled; what it does outside Holdfast is not undone.",
        )}
      {Boolean(seen.dependents) &&
        line("blocked", "idle", "tasks that wait for it", num(seen.dependents ?? 0))}
      {seen.would_run_next && line("running", "work", "runs next", "yes")}
    </ul>
  );
}
