// The rhythm of a node as the gateway that answers has heard it: a strip for a row, bars for its page.
import type { JSX } from "preact";
import { dur, plural, spanText } from "../../lib/format";
import type { Node as NodeView } from "../../lib/types";
import { isLate } from "./state";

const SHOWN = 24;
const WARN_SKEW_SECONDS = 0.5;
const UNHEARD = "This gateway has not heard it. Ask the gateway that it speaks to.";
const YOUNG = "The first interval is open.";

/** How far the clock of a node is ahead, with its sign. */
export function Skew({ of }: { of: number | null }): JSX.Element {
  if (of === null)
    return (
      <span class="dim" title="It named no time of its clock">
        –
      </span>
    );
  return (
    <span
      class={Math.abs(of) >= WARN_SKEW_SECONDS ? "warn" : ""}
      title="The time of its clock against that of the store; the way of the message is part of it"
    >
      {of > 0 ? "+" : ""}
      {dur(of, true)}
    </span>
  );
}

const isLost = (silence: number, heartbeat: number | null): boolean =>
  heartbeat !== null && silence > 3 * heartbeat;

/** The silence that goes on, if it is longer than those of a node that is on time. */
const openOf = (node: NodeView, since: number): number[] => {
  const silence = (node.seen_seconds_ago ?? 0) + since;
  return isLate(silence, node.heartbeat_seconds) ? [silence] : [];
};

const summary = (silences: number[], heartbeat: number | null): string => {
  const late = silences.filter((silence) => isLate(silence, heartbeat)).length;
  return `${plural(silences.length, "interval")}, ${late ? `${late} late` : "all on time"}; the longest silence ${dur(Math.max(...silences), true)}`;
};

export function Strip({ node, since }: { node: NodeView; since: number }): JSX.Element {
  const silences = [...(node.heartbeats ?? []), ...openOf(node, since)].slice(-SHOWN);
  if (node.heartbeats === null || silences.length === 0)
    return (
      <span class="dim" title={node.heartbeats === null ? UNHEARD : YOUNG}>
        –
      </span>
    );
  const said = summary(silences, node.heartbeat_seconds);
  return (
    <span class="hb" role="img" aria-label={said} title={said}>
      {silences.map((silence) => (
        <i
          class={
            isLost(silence, node.heartbeat_seconds) ? "o" : isLate(silence, node.heartbeat_seconds) ? "l" : ""
          }
        />
      ))}
    </span>
  );
}

const HEIGHT = 96;
/** A bar for each interval against the time that is expected; the open one is hatched and says its age. */
export function Beats({ node, since }: { node: NodeView; since: number }): JSX.Element {
  const expected = node.heartbeat_seconds ?? 0;
  const silences = node.heartbeats ?? [];
  const [open] = openOf(node, since);
  const top = Math.max(2 * expected, ...silences, open ?? 0);
  const of = (silence: number) =>
    isLost(silence, expected) ? "bad" : isLate(silence, expected) ? "warn" : "good";
  const bar = (silence: number, more = "") => (
    <i
      class={`f-${of(silence)} ${more}`}
      style={{ height: `${Math.max(2, (HEIGHT * silence) / top)}px` }}
      title={spanText(silence)}
    />
  );
  return (
    <section>
      <div class="sec">
        <h2>Heartbeats</h2>
        <span class="sub">
          {expected ? `longest silence of each interval, ${spanText(expected)} expected` : ""}
        </span>
      </div>
      {silences.length === 0 ? (
        <p class="dim">{node.heartbeats === null ? UNHEARD : YOUNG}</p>
      ) : (
        <div class="beats" role="img" aria-label={summary(silences, expected)}>
          <span class="ax">
            <span>{dur(top, true)}</span>
            <span>0 s</span>
          </span>
          <span class="pl">
            <u style={{ bottom: `${(HEIGHT * expected) / top}px` }} />
            {silences.map((silence) => bar(silence))}
            {open !== undefined && bar(open, "open")}
          </span>
          {open !== undefined && <span class="warn">{dur(open, true)} and counting</span>}
        </div>
      )}
    </section>
  );
}
