// The budgets of a job.
import type { JSX } from "preact";
import { type Job as JobView, isOver } from "../../lib/fleet";
import { num } from "../../lib/format";
import { type Family, Icon } from "../../ui/marks";
import { Meter } from "../../ui/parts";

const BUDGET_WORDS: Record<string, [string, Family]> = {
  canary: ["Failed in the canary", "bad"],
  failed: ["Failed", "bad"],
  timeout: ["Timed out after start", "warn"],
  lost: ["Lost or unknown", "doubt"],
  unreachable: ["Unreachable before start", "idle"],
};

const BREACH: Record<string, string> = {
  pause: "pauses the job",
  drain: "stops it, running hosts finish",
  abort: "stops it and ends running hosts",
};

export function Budgets({ job }: { job: JobView }): JSX.Element {
  const rows = Object.entries(job.budget);
  const near =
    isOver(job) || job.halt ? [] : rows.filter(([, use]) => use.used > 0 && use.used === use.limit);
  return (
    <section>
      <div class="sec">
        <h2>Budgets</h2>
        <span class="sp" />
        <span class="sm dim">
          {rows.length ? `one more ${BREACH[job.rollout.on_breach] ?? "halts"}` : ""}
        </span>
      </div>
      {rows.length === 0 ? (
        <p class="sub">No limits: every host is run, whatever happens to the others.</p>
      ) : (
        <ul class="bg">
          {rows.map(([name, use]) => {
            const [word, of] = BUDGET_WORDS[name] ?? [name, "idle"];
            return (
              <li>
                <span>{word}</span>
                <span>
                  <b class={`strong ${use.used > use.limit ? "bad" : ""}`}>{num(use.used)}</b>{" "}
                  <span class="dim">of {num(use.limit)}</span>
                </span>
                <Meter
                  parts={[[use.used, use.used > use.limit ? "bad" : of]]}
                  total={Math.max(use.limit, use.used, 1)}
                />
              </li>
            );
          })}
        </ul>
      )}
      {near.map(([name]) => (
        <div class="why slim">
          <Icon is="stuck" of="warn" />
          <div class="sm">
            <p class="strong">
              One more {(BUDGET_WORDS[name]?.[0] ?? name).toLowerCase().split(" ")[0]} host{" "}
              {BREACH[job.rollout.on_breach] ?? "halts the job"}.
            </p>
          </div>
        </div>
      ))}
    </section>
  );
}
