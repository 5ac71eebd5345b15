// Times, rates and counts of a job.
import { type Matrix as Cells, type Counts, type Job as JobView, countLooks } from "../../lib/fleet";
import { num } from "../../lib/format";

export const span = (job: JobView): number =>
  job.finished_at && (job.started_at ?? job.created_at)
    ? (Date.parse(job.finished_at) - Date.parse(job.started_at ?? job.created_at)) / 1000
    : NaN;

export const rate = (n: number, seconds: number): string => {
  const per = n / Math.max(1, seconds);
  return per >= 10 ? num(Math.round(per)) : per.toFixed(1);
};

export function countCells(cells: Cells): Counts {
  const found: Record<string, number> = {};
  for (const letter of cells.cells) found[letter] = (found[letter] ?? 0) + 1;
  const kinds: Record<string, number> = {};
  for (const [letter, n] of Object.entries(found))
    kinds[cells.kinds[letter] ?? "unknown"] = (kinds[cells.kinds[letter] ?? "unknown"] ?? 0) + n;
  return countLooks(kinds);
}
