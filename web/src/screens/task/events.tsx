// The events of a task.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { num } from "../../lib/format";
import { about, by, markOf } from "../../lib/history";
import { url } from "../../lib/place";
import type { Event } from "../../lib/types";
import { Icon, type Sign } from "../../ui/marks";
import { Seg, Text, Time } from "../../ui/parts";

export const QUIET = new Set(["task.progress", "task.output", "task.metrics"]);

export function EventList({ events, isCut }: { events: Event[]; isCut: boolean }): JSX.Element {
  if (events.length === 0) return <NoEvents />;
  return <Events events={events} isCut={isCut} />;
}

function NoEvents(): JSX.Element {
  return (
    <section>
      <div class="sec">
        <h2>Events</h2>
      </div>
      <p class="sub">
        The store no longer has the events of this task: they are older than the time for which it keeps
        events. What is above comes from the task itself.
      </p>
    </section>
  );
}

function Events({ events, isCut }: { events: Event[]; isCut: boolean }): JSX.Element {
  const [mode, setMode] = useState<"main" | "all">("main");
  const shown = [...events]
    .reverse()
    .filter((event) => mode === "all" || !QUIET.has(event.kind))
    .slice(0, 60);
  return (
    <section>
      <div class="sec">
        <h2>Latest events</h2>
        <span class="sub">
          {isCut
            ? `the last ${num(events.length)} are kept, `
            : shown.length < events.length
              ? `${num(shown.length)} of ${num(events.length)}, `
              : ""}
          newest first
        </span>
        <span class="sp" />
        <Seg
          label="Which"
          value={mode}
          onPick={setMode}
          options={[
            ["main", "Without progress"],
            ["all", "With progress"],
          ]}
        />
      </div>
      <ul class="ev">
        {shown.map((event) => {
          const [sign, of] = markOf(event.kind);
          return (
            <li>
              <a class="m dim" href={url(`/events?at=${event.position}`)}>
                {num(Number(event.position.split(":")[1]))}
              </a>
              <span class="m dim">
                <Time at={event.at} />
              </span>
              <Icon is={sign as Sign} of={of} />
              <span class="cut">
                <b class="strong">{event.kind.replace(/^task\./, "")}</b>{" "}
                <span class="sub">
                  <Text>{about(event)}</Text>
                </span>
              </span>
              <span class="sub cut">
                <Text>{by(event)}</Text>
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
