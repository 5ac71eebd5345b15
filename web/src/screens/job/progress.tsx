// The progress of a job by outcome.
import type { JSX } from "preact";
import { type Counts, FAMILY_OF, LOOKS, MEANING, barOf, signOf } from "../../lib/fleet";
import { capital, num } from "../../lib/format";
import { param, setParams } from "../../lib/place";
import { Icon } from "../../ui/marks";

export function Bar({ counts, total }: { counts: Counts; total: number }): JSX.Element {
  return (
    <div
      class="bigbar"
      role="img"
      aria-label={LOOKS.filter((look) => counts[look])
        .map((look) => `${num(counts[look])} ${look}`)
        .join(", ")}
    >
      {barOf(counts).map(([n, of]) =>
        n > 0 ? <i class={`f-${of}`} style={{ width: `${(100 * n) / Math.max(1, total)}%` }} /> : null,
      )}
    </div>
  );
}

/** Counts with the shapes of the picture; each is a filter of hosts. */
export function Legend({ counts }: { counts: Counts }): JSX.Element {
  const only = param("look");
  return (
    <div class="leg" role="group" aria-label="Show only">
      {LOOKS.filter((look) => counts[look] > 0 || look === only).map((look) => (
        <button
          type="button"
          title={capital(MEANING[look])}
          aria-pressed={only === look}
          onClick={() => setParams({ look: only === look ? null : look })}
        >
          <Icon is={signOf(look)} of={FAMILY_OF[look]} />
          <b>{num(counts[look])}</b>
          {look}
        </button>
      ))}
    </div>
  );
}

// -- hosts -------------------------------------------------------------------------------------------
