// Numbers, durations, times and texts as the design says (section 11).
import { unmarked } from "./exact";
import { signal } from "@preact/signals";
import { second } from "./live";
import { zone } from "./prefs";

export const num = (n: number | null | undefined): string => (n == null ? "–" : n.toLocaleString("en-US"));
/** For tight places: three digits and a unit from 100,000 on. */
export function tight(n: number): string {
  if (n < 100_000) return num(n);
  if (n < 1_000_000) return `${(n / 1_000).toFixed(0)} k`;
  return `${(n / 1_000_000).toFixed(n < 10_000_000 ? 2 : n < 100_000_000 ? 1 : 0)} M`;
}
export const plural = (n: number, one: string, many = `${one}s`): string =>
  `${num(n)} ${n === 1 ? one : many}`;

const UNITS: [string, number][] = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
];
/** A duration in seconds: two units at most; `short` has one from 10 of it on. */
export function dur(seconds: number | null | undefined, short = false): string {
  if (seconds == null || Number.isNaN(seconds)) return "–";
  const all = Math.abs(seconds);
  const sign = seconds < 0 ? "−" : "";
  if (all < 1) return `${sign}${Math.round(all * 1000)} ms`;
  if (all < 10) return `${sign}${all.toFixed(1)} s`;
  const at = UNITS.findIndex(([, size]) => all >= size);
  const [unit, size] = UNITS[at] ?? ["s", 1];
  const whole = Math.floor(all / size);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((all - whole * size) / next[1]) : 0;
  if (!next || (short && whole >= 10) || rest === 0) return `${sign}${whole} ${unit}`;
  return `${sign}${whole} ${unit} ${rest} ${next[0]}`;
}

/** A duration from a setting: whole seconds stay whole. */
export const spanText = (seconds: number): string =>
  seconds >= 1 && seconds < 10 && Number.isInteger(seconds) ? `${seconds} s` : dur(seconds);

/** How far the server's clock is ahead of this machine's, in milliseconds. */
export const skew = signal(0);
export const serverNow = (): number => second.value + skew.value;
/** Seconds since a time of the server. */
export const age = (at: string | null | undefined): number =>
  at ? Math.max(0, (serverNow() - Date.parse(at)) / 1000) : NaN;
export const until = (at: string | null | undefined): number =>
  at ? (Date.parse(at) - serverNow()) / 1000 : NaN;

const two = (n: number): string => String(n).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
function parts(at: number): { y: number; mo: number; d: number; h: number; mi: number; s: number } {
  const t = new Date(at);
  return zone.value === "utc"
    ? {
        y: t.getUTCFullYear(),
        mo: t.getUTCMonth(),
        d: t.getUTCDate(),
        h: t.getUTCHours(),
        mi: t.getUTCMinutes(),
        s: t.getUTCSeconds(),
      }
    : {
        y: t.getFullYear(),
        mo: t.getMonth(),
        d: t.getDate(),
        h: t.getHours(),
        mi: t.getMinutes(),
        s: t.getSeconds(),
      };
}
export function clock(at: number): string {
  const p = parts(at);
  return `${two(p.h)}:${two(p.mi)}:${two(p.s)}`;
}
export const minute = (at: number): string => clock(at).slice(0, 5);
/** Today 14:32:08; this year 2 Oct 14:32; else 2 Oct 2025. */
export function time(at: string | null | undefined): string {
  if (!at) return "–";
  const then = Date.parse(at);
  const [p, now] = [parts(then), parts(serverNow())];
  if (p.y === now.y && p.mo === now.mo && p.d === now.d) return clock(then);
  const day = `${p.d} ${MONTHS[p.mo]}`;
  return p.y === now.y ? `${day} ${two(p.h)}:${two(p.mi)}` : `${day} ${p.y}`;
}
export const zoneName = (): string =>
  zone.value === "utc"
    ? "UTC"
    : (new Date().toLocaleTimeString("en", { timeZoneName: "short" }).split(" ").pop() ?? "local");

export function bytes(n: number | null | undefined): string {
  if (n == null) return "–";
  if (n < 1_000) return `${n} B`;
  if (n < 1_000_000) return `${(n / 1_000).toFixed(n < 10_000 ? 1 : 0)} kB`;
  return `${(n / 1_000_000).toFixed(1)} MB`;
}
export const percent = (share: number): string => {
  const p = share * 100;
  return `${p >= 10 || p === 0 ? p.toFixed(0) : p >= 1 ? p.toFixed(1) : p.toFixed(2)} %`;
};

export const short = (id: string): string => id.slice(-8);
export const person = (actor: string | null | undefined): string =>
  (actor ?? "").replace(/^user:/, "").replace(/^block:.*/, "a block");
export const initials = (name: string): string => {
  const words = person(name)
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean);
  return ((words[0]?.[0] ?? "?") + (words[1]?.[0] ?? words[0]?.[1] ?? "")).toUpperCase();
};
/** A search in words, if it is that of one cause of dead letters. */
export const causeOf = ({ q, cause }: { q: string | null; cause: string }): string | null => {
  const found = /^status:failed fingerprint:([0-9a-f]+)$/.exec(q ?? "");
  return cause ? `dead letters of “${cause}”` : found ? `dead letters of cause ${found[1]?.slice(0, 8)}` : q;
};
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const PICTURES = 0x2400;
/** Text of a machine: control characters and those that turn the direction are shown, not obeyed. */
export function clean(text: string, keepLines = false): string {
  return unmarked(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g,
    (c) => {
      const code = c.charCodeAt(0);
      if (keepLines && (code === 10 || code === 9)) return c;
      if (code < 0x20) return String.fromCharCode(PICTURES + code);
      if (code === 0x7f) return "\u2421";
      return `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    },
  );
}
