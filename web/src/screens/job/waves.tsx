// The waves of a job.
import type { ComponentChildren, JSX } from "preact";
import { type Counts, type Job as JobView, type Wave, amount, isOver } from "../../lib/fleet";
import { num, plural, spanText } from "../../lib/format";
import { actOnJob } from "../../ui/job_act";
import { type Family, Icon } from "../../ui/marks";
import { Button, Meter } from "../../ui/parts";

const BUCKETS: [string, Family, string][] = [
  ["success", "good", "succeeded"],
  ["failed", "bad", "failed"],
  ["timeout", "warn", "timed out"],
  ["lost", "doubt", "lost"],
  ["unreachable", "idle", "out of reach"],
  ["blocked", "idle", "blocked"],
  ["cancelled", "idle", "cancelled"],
];

function waveLine(wave: Wave, job: JobView): ComponentChildren {
  const done = Object.values(wave.counts).reduce((a, b) => a + b, 0);
  const parts = BUCKETS.filter(([key]) => wave.counts[key]).map(
    ([key, , word]) => `${num(wave.counts[key] ?? 0)} ${word}`,
  );
  const bake = job.rollout.bake_seconds;
  if (wave.state === "closed")
    return `${done === wave.counts.success ? "All succeeded" : parts.join(", ")}${bake ? ` · then ${spanText(bake)} of rest` : ""}`;
  if (wave.state === "open")
    return `${num(done)} of ${num(wave.size)} done${parts.length > 1 ? ` · ${parts.slice(1).join(", ")}` : ""}`;
  if (wave.state === "asked") return <span class="person">Waits for a person to open it</span>;
  if (isOver(job) || job.halt) return "Not reached";
  return job.rollout.gate === "ask" && wave.n > 1
    ? `Asks a person when wave ${wave.n - 1} has ended`
    : bake && wave.n > 1
      ? `Starts ${spanText(bake)} after the wave before`
      : "Waits";
}

export function Waves({
  job,
  asks,
  counts,
}: {
  job: JobView;
  asks: Wave | undefined;
  counts: Counts;
}): JSX.Element {
  return (
    <section>
      <div class="sec">
        <h2>Waves</h2>
        <span class="sp" />
        <span class="sm dim">{job.rollout.waves.map(amount).join(", ") || "all at once"}</span>
      </div>
      <ol class="wv">
        {job.waves.map((wave) => (
          <li>
            <Icon
              is={
                wave.state === "closed"
                  ? "completed"
                  : wave.state === "open"
                    ? "running"
                    : wave.state === "asked"
                      ? "decision"
                      : "blocked"
              }
              of={
                wave.state === "closed"
                  ? "good"
                  : wave.state === "open"
                    ? "work"
                    : wave.state === "asked"
                      ? "person"
                      : "idle"
              }
            />
            <span class="strong">
              {wave.n}
              {wave.n === 1 && job.waves.length > 1
                ? " Canary"
                : wave.n === job.waves.length && wave.n > 1
                  ? " Rest"
                  : ""}
            </span>
            <span class="sub">{plural(wave.size, "host")}</span>
            {wave.state === "open" && (
              <Meter
                parts={[
                  ...BUCKETS.map(([key, of]) => [wave.counts[key] ?? 0, of] as [number, Family]),
                  [Math.min(counts.running, wave.size), "work"],
                ]}
                total={wave.size}
              />
            )}
            <small>
              {waveLine(wave, job)}
              {wave.state === "open" && counts.running > 0
                ? ` · ${num(counts.running)} in flight of ${amount(job.rollout.max_in_flight)}`
                : ""}
            </small>
          </li>
        ))}
      </ol>
      {asks && !job.halt && (
        <p class="row gap">
          <Button
            rank="per"
            right="jobs.control"
            name={`Review wave ${asks.n}`}
            onClick={() => actOnJob("promote", job)}
          >
            Review wave {asks.n}
          </Button>
        </p>
      )}
    </section>
  );
}
