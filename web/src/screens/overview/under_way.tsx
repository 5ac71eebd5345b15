// Jobs and operations that go on.
import type { JSX } from "preact";
import {
  type JobRow,
  endedBar,
  isOver,
  jobMark,
  jobPath,
  jobWhy,
  nameOf,
  waitsForVotes,
} from "../../lib/fleet";
import { num, person, plural } from "../../lib/format";
import { url } from "../../lib/place";
import type { Operation } from "../../lib/types";
import { Icon } from "../../ui/marks";
import { Meter, Text } from "../../ui/parts";

export function UnderWay({ runs, jobs }: { runs: Operation[]; jobs: JobRow[] }): JSX.Element {
  const rolling = jobs.filter((job) => !isOver(job) && !waitsForVotes(job)).slice(0, 5);
  const now = runs.filter((run) => run.state === "running");
  return (
    <>
      <div class="sec">
        <h2>Under way</h2>
        <span class="sp" />
        <a class="sub" href={url("/operations")}>
          All operations
        </a>
      </div>
      {now.length + rolling.length === 0 ? (
        <p class="dim pb">No job or operation is running.</p>
      ) : (
        <ul class="ops">
          {rolling.map((job) => {
            const ended = Object.values(job.ended).reduce((a, b) => a + b, 0);
            const [sign, of] = jobMark(job);
            return (
              <li>
                <p class="row">
                  <Icon is={sign} of={of} />
                  <a class="strong cut" href={url(jobPath(job))}>
                    <Text>{nameOf(job)}</Text>
                  </a>
                  <span class="sp" />
                  <span class="sub nw">
                    {num(ended)} of {num(job.hosts)}
                  </span>
                </p>
                <Meter parts={endedBar(job)} total={job.hosts} />
                <p class="sm sub">
                  <Text>{`Wave ${job.wave} of ${job.waves_total} · ${jobWhy(job)}`}</Text>
                </p>
              </li>
            );
          })}
          {now.map((run) => (
            <li>
              <p class="row">
                <Icon is="running" of="work" />
                <a class="strong" href={url(`/operations/${run.id}`)}>
                  {run.action} {run.q ?? ""}
                </a>
                <span class="sp" />
                <span class="sub">
                  {num(run.done + run.failed)} of {num(run.total)}
                </span>
              </p>
              <Meter
                parts={[
                  [run.done, "good"],
                  [run.failed, "bad"],
                ]}
                total={run.total}
              />
              <p class="sm sub">
                {run.rate_per_second ? `${run.rate_per_second} per second · ` : ""}
                {plural(run.failed, "refused", "refused")} · by {person(run.actor)}
              </p>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
