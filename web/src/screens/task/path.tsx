// The path of a task, and what it may become.
import type { JSX } from "preact";
import { clean, clock, dur, serverNow } from "../../lib/format";
import { path } from "../../lib/history";
import { TRANSITIONS } from "../../lib/rules";
import type { Event, Task as TaskView } from "../../lib/types";
import { Icon, type Sign, familyOf } from "../../ui/marks";
import { Text } from "../../ui/parts";

export const mayBecome = (status: string): readonly string[] =>
  TRANSITIONS[status as keyof typeof TRANSITIONS] ?? [];

const STEPS_MAX = 7;

export function PathBox({ task, events }: { task: TaskView; events: Event[] }): JSX.Element {
  const all = path(events);
  const shown = all.slice(-STEPS_MAX);
  const may = mayBecome(task.status);
  const total =
    ((task.finished_at ? Date.parse(task.finished_at) : serverNow()) - Date.parse(task.created_at)) / 1000;
  return (
    <section>
      <div class="sec">
        <h2>Path</h2>
        <span class="sub">
          {dur(total)}
          {task.finished_at ? " in all" : " so far"}
          {all.length > shown.length ? ` · ${all.length - shown.length} earlier steps` : ""}
        </span>
      </div>
      <div class="pathrow">
        <ol class="path">
          {shown.map((step, index) => (
            <li class={index === shown.length - 1 ? "now" : ""}>
              <Icon is={step.status as Sign} of={familyOf(step.status)} />
              <b>{step.status}</b>
              <small>
                {step.until || may.length
                  ? dur(((step.until ? Date.parse(step.until) : serverNow()) - Date.parse(step.at)) / 1000)
                  : clock(Date.parse(step.at))}
              </small>
              <small class="e cut" title={clean(step.note)}>
                <Text>{step.note}</Text>
              </small>
            </li>
          ))}
        </ol>
        {may.length > 0 && (
          <div class="next">
            <h3>May become</h3>
            {may.map((status) => (
              <span>
                <Icon is={status as Sign} of={familyOf(status)} />
                {status}
              </span>
            ))}
          </div>
        )}
      </div>
    </section>
  );
}
