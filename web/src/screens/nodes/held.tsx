// What a node holds, and what the feed says of it.
import type { JSX } from "preact";
import { num, short } from "../../lib/format";
import { about, markOf } from "../../lib/history";
import { url } from "../../lib/place";
import type { Event, TaskRow } from "../../lib/types";
import { line } from "../../lib/why";
import { Icon, Status, type Sign } from "../../ui/marks";
import { Empty, Lease, Text, Time, scrollable } from "../../ui/parts";

export const EVENTS_BACK = 400;

export function Leases({ tasks, since }: { tasks: TaskRow[]; since: number }): JSX.Element {
  return (
    <section>
      <div class="sec">
        <h2>Held leases</h2>
        <span class="sub">{num(tasks.length)}</span>
      </div>
      {tasks.length === 0 ? (
        <div class="wrap">
          <Empty sign="running" title="Nothing runs here" />
        </div>
      ) : (
        <div class="wrap scroll" ref={scrollable}>
          <table class="t">
            <thead>
              <tr>
                <th>Status</th>
                <th>Task</th>
                <th class="n">Fence</th>
                <th>Lease</th>
                <th class="whyc">What it does</th>
              </tr>
            </thead>
            <tbody>
              {tasks.map((task) => (
                <tr data-row>
                  <td>
                    <Status is={task.status} />
                  </td>
                  <td>
                    <a class="strong" href={url(`/tasks/${task.id}`)}>
                      <Text>{task.type}</Text>
                    </a>{" "}
                    <span class="m dim">{short(task.id)}</span>
                  </td>
                  <td class="n m">{task.fence}</td>
                  <td>
                    {task.lease_remaining_seconds !== null && (
                      <Lease
                        left={task.lease_remaining_seconds - since}
                        whole={Math.max(15, task.lease_remaining_seconds)}
                      />
                    )}
                  </td>
                  <td class="whyc">
                    <Text>{line(task)}</Text>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

export function Latest({ events }: { events: Event[] }): JSX.Element {
  return (
    <section>
      <div class="sec">
        <h2>Latest events</h2>
        <span class="sub">among the last {EVENTS_BACK} of the feed</span>
      </div>
      {events.length === 0 ? (
        <p class="dim">Nothing lately.</p>
      ) : (
        <ul class="ev">
          {events.map((event) => {
            const [s, f] = markOf(event.kind);
            return (
              <li>
                <span class="m dim">{num(Number(event.position.split(":")[1]))}</span>
                <span class="m dim">
                  <Time at={event.at} />
                </span>
                <Icon is={s as Sign} of={f} />
                <span class="cut">
                  <b class="strong">{event.kind.replace(/^task\./, "")}</b>{" "}
                  <span class="sub">
                    <Text>{about(event)}</Text>
                  </span>
                </span>
                <span class="sub">
                  {event.task_id ? (
                    <a href={url(`/tasks/${event.task_id}`)}>
                      {event.type} {short(event.task_id)}
                    </a>
                  ) : (
                    ""
                  )}
                </span>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}
