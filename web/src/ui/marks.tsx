// Marks: circles are tasks, diamonds are decisions, the rest are signs. Drawn with currentColor; a word stands beside.
import type { JSX } from "preact";

const line = (d: JSX.Element): JSX.Element => (
  <g fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round">
    {d}
  </g>
);
const p = (d: string): JSX.Element => line(<path d={d} />);
const ring = <circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.6" />;
const frame = (
  <rect
    x="2.7"
    y="2.7"
    width="10.6"
    height="10.6"
    rx="1.5"
    fill="none"
    stroke="currentColor"
    stroke-width="1.4"
  />
);
const full = <rect x="2" y="2" width="12" height="12" rx="2" fill="currentColor" />;
const on = (d: string, width = 1.6): JSX.Element => (
  <path d={d} fill="none" stroke="currentColor" stroke-width={width} />
);
const cut = (d: string): JSX.Element => (
  <path
    d={d}
    fill="none"
    stroke="var(--on-fill)"
    stroke-width="1.6"
    stroke-linecap="round"
    stroke-linejoin="round"
  />
);

const SIGNS = {
  overview: p("M2.5 9.5h3l1.6-5 2.4 7.5 1.5-4.5h2.5"),
  inbox: p(
    "M2.5 9 4.2 3.6a1 1 0 0 1 1-.7h5.6a1 1 0 0 1 1 .7L13.5 9v3a1.2 1.2 0 0 1-1.2 1.2H3.7A1.2 1.2 0 0 1 2.5 12zM2.5 9h3.3l.8 1.6h2.8l.8-1.6h3.3",
  ),
  tasks: line(
    <>
      <path d="M6.5 4h7M6.5 8h7M6.5 12h7" />
      <circle cx="3.2" cy="4" r=".9" />
      <circle cx="3.2" cy="8" r=".9" />
      <circle cx="3.2" cy="12" r=".9" />
    </>,
  ),
  letters: p("M2.5 4.5h11v7.8h-11zM2.7 4.8l5.3 4 5.3-4"),
  queues: p("m8 2.5 5.5 2.8L8 8.1 2.5 5.3zM2.5 8 8 10.8 13.5 8M2.5 10.7 8 13.5l5.5-2.8"),
  schedules: line(
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="M8 5v3.2l2.1 1.3" />
    </>,
  ),
  jobs: p("M2.8 2.8h3v3h-3zM2.8 10.2h3v3h-3zM10.2 2.8h3v3h-3zM10.2 10.2h3v3h-3zM6.8 8h2.4M8 6.8v2.4"),
  hosts: p("M2.8 2.8h4v4h-4zM9.2 2.8h4v4h-4zM2.8 9.2h4v4h-4zM9.2 9.2h4v4h-4z"),
  nodes: line(
    <>
      <rect x="2.5" y="3" width="11" height="4" rx="1" />
      <rect x="2.5" y="9" width="11" height="4" rx="1" />
      <path d="M5 5h.01M5 11h.01" />
    </>,
  ),
  sync: p("M13 6.5A5.3 5.3 0 0 0 3.6 5M3 9.5A5.3 5.3 0 0 0 12.4 11M3.3 2.5V5h2.5M12.7 13.5V11h-2.5"),
  conflicts: p("M3 4.2h2.2c3 0 2.6 7.6 5.6 7.6H13M3 11.8h2.2c3 0 2.6-7.6 5.6-7.6H13"),
  locks: line(
    <>
      <rect x="3.2" y="7" width="9.6" height="6.5" rx="1.2" />
      <path d="M5.3 7V5a2.7 2.7 0 0 1 5.4 0v2" />
    </>,
  ),
  events: line(
    <>
      <path d="M3 3v10M3 4.5h3.5M3 8h7M3 11.5h5" />
      <circle cx="9" cy="4.5" r="1" />
      <circle cx="12.5" cy="8" r="1" />
      <circle cx="10.5" cy="11.5" r="1" />
    </>,
  ),
  operations: p("M3 8.5 6 11.5 13 4.5M3 4.5h4"),
  settings: line(
    <>
      <path d="M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6" />
      <circle cx="10" cy="5" r="1.5" />
      <circle cx="6" cy="11" r="1.5" />
    </>,
  ),
  check: p("m3.5 8.5 3 3 6-7"),
  search: line(
    <>
      <circle cx="7" cy="7" r="4.2" />
      <path d="m10.2 10.2 3.3 3.3" />
    </>,
  ),
  copy: line(
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.2" />
      <path d="M3.5 10.5h-.2a.8.8 0 0 1-.8-.8V3.3a.8.8 0 0 1 .8-.8h6.4a.8.8 0 0 1 .8.8v.2" />
    </>,
  ),
  down: p("m4.5 6.5 3.5 3.5 3.5-3.5"),
  right: p("m6.5 4.5 3.5 3.5-3.5 3.5"),
  left: p("M9.5 4.5 6 8l3.5 3.5"),
  close: p("m4 4 8 8m0-8-8 8"),
  command: p("m3.5 5 3 3-3 3M8.5 11.5h4"),
  link: p(
    "M6.6 9.4 9.4 6.6M7.4 4.8l1.2-1.2a2.7 2.7 0 0 1 3.8 3.8l-1.2 1.2M8.6 11.2l-1.2 1.2a2.7 2.7 0 0 1-3.8-3.8l1.2-1.2",
  ),
  chain: line(
    <>
      <rect x="2.3" y="5.6" width="5" height="4.8" rx="2.4" />
      <rect x="8.7" y="5.6" width="5" height="4.8" rx="2.4" />
      <path d="M5.8 8h4.4" />
    </>,
  ),
  plus: p("M8 3.5v9M3.5 8h9"),
  filter: p("M2.5 4h11M4.5 8h7M6.5 12h3"),
  more: (
    <g fill="currentColor">
      <circle cx="3.5" cy="8" r="1.2" />
      <circle cx="8" cy="8" r="1.2" />
      <circle cx="12.5" cy="8" r="1.2" />
    </g>
  ),
  key: line(
    <>
      <circle cx="5" cy="8" r="2.5" />
      <path d="M7.5 8h6M11 8v2.5M13.5 8v2" />
    </>,
  ),
  info: line(
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="M8 7.3v3.6M8 5.1h.01" />
    </>,
  ),
  arrow: p("M8 3.5v9M4.5 9 8 12.5 11.5 9"),
  person: line(
    <>
      <circle cx="8" cy="5.6" r="2.6" />
      <path d="M3 13.2c.6-2.6 2.5-3.9 5-3.9s4.4 1.300 5 3.9" />
    </>,
  ),
  blocked: (
    <circle
      cx="8"
      cy="8"
      r="5.6"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-dasharray="2.3 2.1"
    />
  ),
  queued: ring,
  running: (
    <>
      {ring}
      <path d="M8 4.6a3.4 3.4 0 0 1 0 6.8z" fill="currentColor" />
    </>
  ),
  paused: (
    <>
      {ring}
      {on("M6.6 5.8v4.4M9.4 5.8v4.4")}
    </>
  ),
  stuck: (
    <>
      <path
        d="M8 2.3 14.2 13H1.8z"
        fill="none"
        stroke="currentColor"
        stroke-width="1.6"
        stroke-linejoin="round"
      />
      {on("M8 6.2v3.2M8 10.6v1.2", 1.5)}
    </>
  ),
  completed: (
    <>
      <circle cx="8" cy="8" r="6.4" fill="currentColor" />
      {cut("m5.2 8.2 2 2 3.7-4.2")}
    </>
  ),
  failed: (
    <>
      <path d="M5.3 1.6h5.4l3.7 3.7v5.4l-3.7 3.7H5.3l-3.7-3.7V5.3z" fill="currentColor" />
      {cut("m5.7 5.7 4.6 4.6m0-4.6-4.6 4.6")}
    </>
  ),
  aborted: (
    <>
      {ring}
      {on("M4.2 11.8 11.8 4.2")}
    </>
  ),
  decision: <path d="M8 1.4 14.6 8 8 14.6 1.4 8z" fill="currentColor" />,
  conflict: (
    <path
      d="M3 4.2h2.2c3 0 2.6 7.6 5.6 7.6H13M3 11.8h2.2c3 0 2.6-7.6 5.6-7.6H13"
      fill="none"
      stroke="currentColor"
      stroke-width="1.6"
      stroke-linecap="round"
    />
  ),
  late: (
    <>
      <circle cx="8" cy="8" r="5.8" fill="none" stroke="currentColor" stroke-width="1.6" />
      {on("M8 5v3.2l2 1.4", 1.5)}
    </>
  ),
  "host-success": (
    <>
      {full}
      <path d="m5 8.2 2.1 2.1L11.100 6" fill="none" stroke="var(--on-fill)" stroke-width="1.6" />
    </>
  ),
  "host-failed": (
    <>
      {full}
      <path d="m5 5 6 6m0-6-6 6" stroke="var(--on-bad)" stroke-width="1.7" />
    </>
  ),
  "host-timeout": (
    <>
      {full}
      <path d="M8 4.4V8.4h3.4" fill="none" stroke="var(--on-fill)" stroke-width="1.7" />
    </>
  ),
  "host-lost": (
    <rect x="3.5" y="3.5" width="9" height="9" rx="1" fill="none" stroke="currentColor" stroke-width="3" />
  ),
  "host-unknown": (
    <>
      {frame}
      <path d="M3 13 13 3v10z" fill="currentColor" />
    </>
  ),
  "host-unreachable": (
    <>
      {frame}
      {on("M3.2 12.8 12.8 3.2")}
    </>
  ),
  "host-blocked": (
    <>
      {frame}
      {on("M4.5 8h7", 2)}
    </>
  ),
  "host-skipped": <rect x="6" y="6" width="4" height="4" rx="1" fill="currentColor" />,
  "host-running": (
    <>
      {frame}
      <path d="M8 2.7h4a1.3 1.3 0 0 1 1.3 1.3v8a1.3 1.3 0 0 1-1.3 1.3H8z" fill="currentColor" />
    </>
  ),
  "host-waiting": frame,
  "host-paused": (
    <>
      {frame}
      {on("M6.6 5.8v4.4M9.4 5.8v4.4")}
    </>
  ),
  "host-partial": (
    <>
      {frame}
      <path
        d="M2.700 8h10.600v4a1.300 1.300 0 0 1-1.300 1.300H4A1.300 1.300 0 0 1 2.700 12z"
        fill="currentColor"
      />
    </>
  ),
} as const;

export type Sign = keyof typeof SIGNS;
export type Family = "person" | "work" | "good" | "hold" | "warn" | "bad" | "doubt" | "idle" | "off" | "dim";

/** A sign of 16, 12 or 20 pixels. It is hidden from readers of the screen: a word stands beside it. */
export const Icon = ({
  is,
  of,
  size = 16,
}: {
  is: Sign;
  of?: Family | undefined;
  size?: 12 | 16 | 20;
}): JSX.Element => (
  <svg class={`i ${size === 16 ? "" : `i${size}`} ${of ?? ""}`} viewBox="0 0 16 16" aria-hidden="true">
    {SIGNS[is]}
  </svg>
);

export const Brand = (): JSX.Element => (
  <svg class="i i20" viewBox="0 0 16 16" aria-hidden="true">
    <rect width="16" height="16" rx="4" fill="var(--ink)" />
    <path
      d="M8 2.6v10.4M8 6.2c0 3.2-1.7 5.2-4.6 6.2M8 6.2c0 3.2 1.7 5.2 4.6 6.2"
      fill="none"
      stroke="var(--on-ink)"
      stroke-width="1.5"
      stroke-linecap="round"
    />
  </svg>
);

export const STATUSES = [
  "running",
  "queued",
  "blocked",
  "paused",
  "stuck",
  "completed",
  "failed",
  "aborted",
] as const;
const FAMILY: Record<string, Family> = {
  blocked: "idle",
  queued: "idle",
  running: "work",
  paused: "hold",
  stuck: "warn",
  completed: "good",
  failed: "bad",
  aborted: "off",
};
export const familyOf = (status: string): Family => FAMILY[status] ?? "idle";

/** The mark of a status with its word. */
export const Status = ({
  is,
  word = is,
  size = 16,
}: {
  is: string;
  word?: string;
  size?: 12 | 16 | 20;
}): JSX.Element => (
  <span class="st">
    <Icon is={is in FAMILY ? (is as Sign) : "queued"} of={familyOf(is)} size={size} />
    <span>{word}</span>
  </span>
);
