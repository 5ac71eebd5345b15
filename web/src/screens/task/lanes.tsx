// The leases of a task: a lane for each fence.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clean, clock, dur, serverNow } from "../../lib/format";
import { type Run } from "../../lib/history";
import { nodeName } from "../../lib/hosts";
import type { Event } from "../../lib/types";

const OUTCOME: Record<string, string> = {
  running: "work",
  stuck: "warn",
  completed: "good",
  failed: "bad",
  lost: "warn",
  paused: "hold",
  aborted: "idle",
  released: "idle",
  snoozed: "idle",
  forced: "idle",
};

const LANES_MAX = 6;

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5,
  216e5, 864e5,
];

const [LANE_LEFT, LANE_ROW, LANE_RIGHT, CHAR_PX] = [104, 36, 28, 6.6];

/** Round marks on an axis of this length in milliseconds: at most five, none close to its end. */
function marksOf(span: number): number[] {
  const step = STEPS_MS.find((one) => span / one <= 5) ?? span / 4;
  return Array.from({ length: Math.floor((span * 0.88) / step) + 1 }, (_, n) => n * step);
}

/** One lane for each claim. Drawn in real pixels, so that its text has the size of all others. */
export function Lanes({ runs: all, events }: { runs: Run[]; events: Event[] }): JSX.Element | null {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(
      ([entry]) => entry && setWidth(Math.max(320, Math.floor(entry.contentRect.width))),
    );
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [all.length > 0]);
  const shown = all.slice(-LANES_MAX);
  if (shown.length === 0) return null;
  const begin = Date.parse(shown[0]?.from ?? "");
  const isOpen = shown.some((run) => run.to === null);
  const last = Math.max(
    ...shown.flatMap((run) => [run.to ? Date.parse(run.to) : 0, run.late ? Date.parse(run.late) : 0]),
    Date.parse(events.at(-1)?.at ?? ""),
  );
  const end = Math.max(isOpen ? serverNow() : last, begin + 1);
  const x = (at: number) => LANE_LEFT + ((at - begin) / (end - begin)) * (width - LANE_LEFT - LANE_RIGHT);
  const span = end - begin;
  const ticks = [...marksOf(span).map((at) => begin + at), end];
  const height = shown.length * LANE_ROW;
  return (
    <section class="lanes-s">
      <div class="sec">
        <h2>Leases and fences</h2>
        <span class="sub">
          one lane for each claim{all.length > shown.length ? `, the last ${shown.length}` : ""}
        </span>
      </div>
      <div ref={box}>
        <svg
          class="lanes"
          width={width}
          height={height + 22}
          role="img"
          aria-label={`${shown.length} claims, the last ${shown.at(-1)?.outcome}`}
        >
          {ticks.map((tick, index) => (
            <>
              <line x1={x(tick)} x2={x(tick)} y1="0" y2={height} class="grid" />
              <text
                x={x(tick)}
                y={height + 16}
                text-anchor={index === 0 ? "start" : tick === end ? "end" : "middle"}
              >
                {tick === end && isOpen
                  ? "now"
                  : span < 10_000
                    ? index === 0
                      ? "start"
                      : `+${dur((tick - begin) / 1000)}`
                    : clock(tick)}
              </text>
            </>
          ))}
          {shown.map((run, index) => (
            <Lane run={run} y={index * LANE_ROW} x={x} end={end} width={width} />
          ))}
        </svg>
      </div>
    </section>
  );
}

function Lane({
  run,
  y,
  x,
  end,
  width,
}: {
  run: Run;
  y: number;
  x: (at: number) => number;
  end: number;
  width: number;
}): JSX.Element {
  const [a, b] = [
    x(Date.parse(run.from)),
    Math.max(x(run.to ? Date.parse(run.to) : end), x(Date.parse(run.from)) + 3),
  ];
  const said = run.to === null ? "" : `${run.outcome}${run.note ? `, ${clean(run.note)}` : ""}`;
  const node = clean(nodeName(run.node));
  const [inside, right] = [b - a, width - b];
  const room = Math.floor((Math.max(inside, right) - 16) / CHAR_PX);
  const label = said.length > room ? `${said.slice(0, Math.max(0, room - 1))}…` : said;
  const at = right >= inside ? b + 6 : a + 7;
  return (
    <g class={`lane-${OUTCOME[run.outcome] ?? "idle"}`}>
      <text x="0" y={y + 13} class="strong">
        fence {run.fence}
      </text>
      <text x="0" y={y + 27}>
        {node.length > 14 ? `${node.slice(0, 13)}…` : node}
      </text>
      <rect x={a} y={y + 5} width={b - a} height="18" rx="3" />
      {room > 6 && (
        <text x={at} y={y + 18} class="lab">
          {label}
        </text>
      )}
      {run.late && (
        <g class="doubt">
          <circle
            cx={x(Date.parse(run.late))}
            cy={y + 14}
            r="4.5"
            fill="none"
            stroke="currentColor"
            stroke-width="1.4"
          />
          <path
            d={`M${x(Date.parse(run.late)) - 3} ${y + 17}l6-6`}
            stroke="currentColor"
            stroke-width="1.4"
          />
        </g>
      )}
    </g>
  );
}
