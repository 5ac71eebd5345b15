// Rates of the answers.
import { num } from "../../lib/format";
import { Flow } from "./board";

/** Per second, over the last whole minute. */
export function rate(flow: Flow | null, name: string): number {
  if (!flow) return 0;
  const buckets = Math.max(1, Math.round(60 / flow.seconds));
  const last = (flow.series[name] ?? []).slice(-buckets - 1, -1).filter((value) => value !== null);
  return last.length ? last.reduce((a, b) => a + b, 0) / (last.length * flow.seconds) : 0;
}

export const sum = (flow: Flow | null, name: string): number =>
  (flow?.series[name] ?? []).reduce<number>((a, b) => a + (b ?? 0), 0);

const perSecond = (value: number): string =>
  value === 0
    ? "0"
    : value >= 100
      ? num(Math.round(value))
      : value >= 1
        ? value.toFixed(1)
        : (value * 60).toFixed(value * 60 < 10 ? 1 : 0);

const unitOf = (value: number, way: string): string =>
  value === 0 || value >= 1 ? `/s ${way}` : `/m ${way}`;

export const shownRate = (value: number): string =>
  value === 0
    ? "0"
    : value >= 100
      ? num(Math.round(value))
      : value >= 10
        ? value.toFixed(0)
        : value.toFixed(1);

export const rateText = (value: number): string => `${perSecond(value)}${unitOf(value, "")}`.trim();
