// The plan of a command.
import type { JSX } from "preact";
import { type JobAnswer, gathered } from "../../lib/fleet";
import { clean, num, plural, spanText } from "../../lib/format";
import { LeftOut } from "../../ui/approval";
import { Icon } from "../../ui/marks";
import { Form } from "./form";

export const PLAN_MS = 350;

/** How the hosts spread over the starts of their names. */
export function Spread({ hosts }: { hosts: string[] }): JSX.Element | null {
  const found = new Map<string, number>();
  for (const host of hosts) {
    const name = /^[^-._0-9]*[0-9]*(?=[-._])|^[^0-9]*/.exec(host)?.[0] || host;
    found.set(name, (found.get(name) ?? 0) + 1);
  }
  if (found.size < 2 || found.size > 12) return null;
  return (
    <div class="spread">
      {[...found]
        .sort((a, b) => b[1] - a[1])
        .map(([name, n]) => (
          <div style={{ flexGrow: n }}>
            <i class="f-idle" />
            <span class="cut">
              <b class="strong">{clean(name)}</b> {num(n)}
            </span>
          </div>
        ))}
    </div>
  );
}

export function Planned({
  plan,
  form,
  runs,
  needs,
}: {
  plan: JobAnswer;
  form: Form;
  runs: number;
  needs: boolean;
}): JSX.Element {
  const { waves } = plan;
  let start = 0;
  return (
    <div class="stack gap">
      <p class="big">
        {num(runs)} of {plural(plan.hosts, "host")}, {plural(waves.length, "wave")}
      </p>
      <ol class="wv plans">
        {waves.map((size, n) => {
          const from = start;
          start += size;
          const word =
            n === 0 && waves.length > 1
              ? "Canary"
              : n === waves.length - 1 && n > 0
                ? "Rest"
                : `Wave ${n + 1}`;
          return (
            <li>
              <span class="num1">{n + 1}</span>
              <b class="strong">{word}</b>
              <span>{num(size)}</span>
              <Scale from={from} size={size} of={plan.hosts} />
              <small>
                {n === 0 ? (
                  waves.length > 1 ? (
                    "any failure stops the job"
                  ) : (
                    "all together"
                  )
                ) : form.gate === "ask" ? (
                  <span class="person">asks a person first</span>
                ) : Number(form.rest) ? (
                  `starts ${spanText(Number(form.rest))} after the wave before`
                ) : (
                  "starts after the wave before"
                )}
              </small>
            </li>
          );
        })}
      </ol>
      {plan.excluded.length > 0 && (
        <div>
          <p class="lab">
            Left out{" "}
            <span class="dim">
              {num(plan.excluded.length)}
              {gathered(plan.excluded).length > 8 ? ", the first reasons" : ""}
            </span>
          </p>
          <LeftOut excluded={plan.excluded} />
        </div>
      )}
      <p class={`banner ${needs ? "person" : ""}`}>
        <Icon is={needs ? "decision" : "completed"} of={needs ? "person" : "good"} />
        <span>
          {needs
            ? "It needs the approval of another person before its first wave."
            : "It needs no approval: the first wave starts at once."}
        </span>
      </p>
      {plan.folded && (
        <details class="foldd">
          <summary class="sm sub">The {plural(plan.hosts, "host")}</summary>
          <code class="wrapt sub">{clean(plan.folded)}</code>
        </details>
      )}
    </div>
  );
}

const Scale = ({ from, size, of }: { from: number; size: number; of: number }): JSX.Element => (
  <span class="meter scale">
    <i class="none" style={{ width: `${(100 * from) / Math.max(1, of)}%` }} />
    <i class="f-idle" style={{ width: `${Math.max(0.6, (100 * size) / Math.max(1, of))}%` }} />
  </span>
);
