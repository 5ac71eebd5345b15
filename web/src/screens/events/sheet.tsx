// One event: what caused it, what it changed, its row of the audit.
import type { JSX } from "preact";
import { type Page, get } from "../../lib/api";
import { json } from "../../lib/exact";
import { num, short, time } from "../../lib/format";
import { about, by, markOf, subject } from "../../lib/history";
import { useLoad } from "../../lib/load";
import { setParams, url } from "../../lib/place";
import type { Event } from "../../lib/types";
import { Icon, type Sign } from "../../ui/marks";
import { Command, Copy, Json, Text } from "../../ui/parts";
import { offsetOf } from "./feed";

export function EventSheet({ event }: { event: Event }): JSX.Element {
  const [sign, of] = markOf(event.kind);
  const chain =
    useLoad(
      event.task_id ? (signal) => get<Page<Event>>(`/tasks/${event.task_id}/history`, signal) : null,
      `chain ${event.task_id}`,
      5_000,
    ).data?.items ?? [];
  const index = chain.findIndex((one) => one.position === event.position);
  const around = index < 0 ? [] : chain.slice(Math.max(0, index - 3), index + 4);
  return (
    <aside class="sheet" aria-label={event.kind}>
      <div class="row">
        <span class="m dim">{event.position}</span>
        <Copy text={event.position} name="Copy the position" />
        <span class="sp" />
        <button
          type="button"
          class="x"
          aria-label="Close"
          onClick={() => setParams({ open: null, at: null })}
        >
          <Icon is="close" />
        </button>
      </div>
      <h2 class="big row">
        <Icon is={sign as Sign} of={of} />
        {event.kind}
      </h2>
      <p class="sub">
        <Text>{subject(event)}</Text> · {time(event.at)}
        {by(event) ? (
          <>
            {" "}
            · <Text>{by(event)}</Text>
          </>
        ) : null}
      </p>
      {around.length > 0 && (
        <>
          <div class="sec">
            <h2>Before and after</h2>
            <span class="sub">of this task</span>
          </div>
          <ol class="chain">
            {around.map((one) => {
              const [s, f] = markOf(one.kind);
              return (
                <li aria-current={one.position === event.position ? "true" : undefined}>
                  <Icon is={s as Sign} of={f} />
                  <b>{one.kind}</b>
                  <p class="s">
                    <Text>
                      {one.position === event.position
                        ? "this one"
                        : `${num(offsetOf(one.position))} · ${about(one)}`}
                    </Text>
                  </p>
                </li>
              );
            })}
          </ol>
        </>
      )}
      <div class="sec">
        <h2>Event</h2>
        <span class="sp" />
        <Copy text={json(event)} name="Copy the event" />
      </div>
      <Json value={event.data} />
      <dl class="kv gap">
        <dt>version</dt>
        <dd>{event.version ?? "–"}</dd>
        <dt>project</dt>
        <dd>{event.project ?? "–"}</dd>
        {event.task_id && (
          <>
            <dt>task</dt>
            <dd class="m">
              <a href={url(`/tasks/${event.task_id}`)}>{short(event.task_id)}</a>
            </dd>
          </>
        )}
      </dl>
      <div class="gap">
        <Command>{`holdfast events tail --after ${event.position.split(":")[0]}:${offsetOf(event.position) - 1}`}</Command>
      </div>
    </aside>
  );
}
