// Where a job fails: sites, racks and labels by the failures of their hosts.
import type { JSX } from "preact";
import { type Matrix as Cells, LOOKS, type Look } from "../../lib/fleet";
import { num } from "../../lib/format";
import { looksOf } from "../../ui/matrix";
import { Meter, Text } from "../../ui/parts";

/** The labels whose hosts fail most: what they have in common. */
export function WhereItFails({ cells }: { cells: Cells }): JSX.Element | null {
  const looks = looksOf(cells);
  const bad = new Set(
    ["failed", "timeout", "lost", "unreachable"].map((look) => LOOKS.indexOf(look as Look)),
  );
  const rows: { name: string; bad: number; all: number }[] = [];
  for (const [key, values] of Object.entries(cells.labels)) {
    const found = new Map<string, [number, number]>();
    values.forEach((value, nth) => {
      const entry = found.get(value) ?? [0, 0];
      entry[1] += 1;
      if (bad.has(looks[nth] ?? 2)) entry[0] += 1;
      found.set(value, entry);
    });
    for (const [value, [failed, all]] of found)
      if (failed > 0 && value) rows.push({ name: `${key}=${value}`, bad: failed, all });
  }
  const top = rows.sort((a, b) => b.bad / b.all - a.bad / a.all || b.bad - a.bad).slice(0, 5);
  if (top.length === 0) return null;
  return (
    <section>
      <div class="sec">
        <h2>Where it fails</h2>
        <span class="sp" />
        <span class="sm dim">by label</span>
      </div>
      <ul class="bg fails">
        {top.map((row) => (
          <li>
            <code class="cut">
              <Text>{row.name}</Text>
            </code>
            <span>
              <b class="strong">{num(row.bad)}</b> <span class="dim">of {num(row.all)}</span>
            </span>
            <Meter parts={[[row.bad, "bad"]]} total={row.all} />
          </li>
        ))}
      </ul>
    </section>
  );
}

// -- waves, budgets, facts ---------------------------------------------------------------------------
