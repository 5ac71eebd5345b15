// Why a task is where it is.
import type { JSX } from "preact";
import { capital, clock, dur, until } from "../../lib/format";
import { by } from "../../lib/history";
import { url } from "../../lib/place";
import type { Event, Task as TaskView, Why } from "../../lib/types";
import { line } from "../../lib/why";
import { Icon, type Sign, familyOf } from "../../ui/marks";
import { Text } from "../../ui/parts";
import { completed, named } from "./index";
import { mayBecome } from "./path";

export function WhyBox({ task, why, events }: { task: TaskView; why: Why; events: Event[] }): JSX.Element {
  const may = mayBecome(task.status);
  const late = events.findLast((event) => event.kind === "task.late");
  const text =
    (task.status === "completed" && task.finished_at ? completed(task) : why.reasons[0]?.text) ??
    (task.status === "aborted"
      ? "It was ended by a person"
      : task.status === "blocked"
        ? line(task)
        : "It may start at any moment");
  const sentence = capital(named(text));
  return (
    <div class="why">
      <Icon is={task.status as Sign} of={familyOf(task.status)} />
      <div>
        <p class="strong">
          <Text>{sentence}</Text>
          {sentence.endsWith(".") ? "" : "."}
          {task.progress?.note && (task.status === "running" || task.status === "stuck") ? (
            <>
              {" "}
              <Text>{capital(task.progress.note)}</Text>.
            </>
          ) : null}
        </p>
        {why.reasons.slice(1).map((reason) => (
          <p>
            <Text>{capital(named(reason.text))}</Text>.
          </p>
        ))}
        {task.status === "failed" && task.failure && !text.includes(task.failure.message) && (
          <p class="bad m">
            <Text>
              {task.failure.error_type
                ? `${task.failure.error_type}: ${task.failure.message}`
                : task.failure.message}
            </Text>
          </p>
        )}
        {late && (
          <p>
            At {clock(Date.parse(late.at))} <Text>{by(late) || "an old runner"}</Text> came back and tried to
            report with fence {String(late.data.fence)}; nothing was changed.
          </p>
        )}
        {task.assigned_to && may.length > 0 && (
          <p>
            Only <Text>{task.assigned_to}</Text> may claim it
            {task.assigned_until ? `, for ${dur(until(task.assigned_until), true)}` : ""}.
          </p>
        )}
        {why.reasons[0]?.code === "decision" && (
          <p>
            <a class="lnk" href={url(`/inbox/${String(why.reasons[0].data.decision_id)}`)}>
              Open the decision
            </a>
          </p>
        )}
      </div>
    </div>
  );
}
