// The versions of a task: writer, clock and change.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { json } from "../../lib/exact";
import { clean, num } from "../../lib/format";
import { by, path } from "../../lib/history";
import type { Event } from "../../lib/types";
import { familyOf } from "../../ui/marks";
import { Button, Text, Time, scrollable } from "../../ui/parts";
import { QUIET } from "./events";

/** What a version of a task came with: the events of one change are one row. */
interface Version {
  event: Event;
  writer: string;
  causes: string[];
  text: [string, string, string][];
}

/** Events that are written beside a task: they change no version. */
const NO_VERSION = new Set([...QUIET, "task.checkpoint", "checkpoint.created", "task.late"]);

export function Versions({ events }: { events: Event[] }): JSX.Element {
  const [all, setAll] = useState(false);
  let before = "";
  const found = new Map<number, Version>();
  for (const event of events) {
    if (!event.version || NO_VERSION.has(event.kind)) continue;
    const change = changeOf(event, before);
    before = change.status ?? before;
    const old = found.get(event.version);
    const cause = event.kind.replace(/^task\./, "");
    found.set(event.version, {
      event: old && change.text.length === 0 ? old.event : event,
      writer: by(event) || old?.writer || "",
      causes: [...(old?.causes ?? []), cause],
      text: [...(old?.text ?? []), ...change.text],
    });
  }
  const byVersion = [...found.values()].reverse();
  const shown = all ? byVersion : byVersion.slice(0, 5);
  return (
    <section>
      <div class="sec">
        <h2>Versions</h2>
        <span class="sub">{num(byVersion.length)}, newest first</span>
        <span class="sp" />
        {byVersion.length > 5 && (
          <Button small onClick={() => setAll(!all)}>
            {all ? "Fewer" : "All"}
          </Button>
        )}
      </div>
      <div class="scroll" ref={scrollable}>
        <table class="t">
          <thead>
            <tr>
              <th class="n">Ver</th>
              <th class="n">Clock</th>
              <th>At</th>
              <th>Writer</th>
              <th>Cause</th>
              <th>Change</th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ event, writer, causes, text }) => (
              <tr>
                <td class="n strong">{event.version}</td>
                <td class="n m dim">{event.position.split(":")[1]}</td>
                <td>
                  <Time at={event.at} />
                </td>
                <td>
                  <Text>{writer || "gateway"}</Text>
                </td>
                <td>{causes.join(", ")}</td>
                <td class="m">
                  {text.map(([name, old, now]) =>
                    name === "status" ? (
                      <span class="chg">
                        {old && (
                          <>
                            <span class="dim">{old}</span> →{" "}
                          </>
                        )}
                        <span class={familyOf(now)}>{now}</span>{" "}
                      </span>
                    ) : (
                      <span class="chg">
                        <span class="dim">{name}</span>{" "}
                        {old && (
                          <>
                            <span class="del">{clean(old)}</span> →{" "}
                          </>
                        )}
                        <span class="add">{clean(now)}</span>{" "}
                      </span>
                    ),
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function changeOf(event: Event, before: string): { text: [string, string, string][]; status: string | null } {
  const data = event.data;
  const steps: [string, string, string][] = [];
  const status = path([event])[0]?.status ?? null;
  if (status && status !== before) steps.push(["status", before, status]);
  if (event.kind === "task.started") steps.push(["fence", "", String(data.fence)]);
  if (event.kind === "task.edited" && data.before)
    for (const [name, old] of Object.entries(data.before as object))
      steps.push([`payload.${name}`, json(old).slice(0, 40), "changed"]);
  if (event.kind === "task.rescheduled") steps.push(["due_at", "", String(data.due_at)]);
  if (event.kind === "task.assigned") steps.push(["assigned_to", "", String(data.node)]);
  if (event.kind === "task.held") steps.push(["held_by", "", String(data.actor)]);
  return { text: steps, status };
}
