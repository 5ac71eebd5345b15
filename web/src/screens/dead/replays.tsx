// The replays of many tasks, as operations.
import type { JSX } from "preact";
import { causeOf, num, person, plural, time } from "../../lib/format";
import { url } from "../../lib/place";
import type { Operation } from "../../lib/types";
import { Icon } from "../../ui/marks";
import { Meter, Text } from "../../ui/parts";

export function Replay({ run }: { run: Operation }): JSX.Element {
  const left = run.total - run.done - run.failed;
  return (
    <li class="oprow">
      <Icon
        is={run.state === "running" ? "running" : run.state === "done" ? "completed" : "paused"}
        of={run.state === "running" ? "work" : run.state === "done" ? "good" : "hold"}
      />
      <div class="min">
        <p class="cut">
          <a class="strong" href={url(`/operations/${run.id}`)}>
            <Text>{causeOf(run) ?? plural(run.total, "task")}</Text>
          </a>
        </p>
        <p class="sm sub">
          by {person(run.actor)}, {time(run.created_at)} ·{" "}
          <Text>
            {run.detail ||
              (run.state === "running"
                ? `${run.rate_per_second ? `${run.rate_per_second} per second` : "as fast as it goes"}${run.stop_on_fail_share ? `, stops at ${Math.round(run.stop_on_fail_share * 100)} % failed again` : ""}`
                : left
                  ? `${left} were not touched`
                  : "Done")}
          </Text>
        </p>
      </div>
      <Meter
        parts={[
          [run.done, "good"],
          [run.failed, "bad"],
        ]}
        total={run.total}
      />
      <span class="n sub">
        {num(run.done + run.failed)} of {num(run.total)}
      </span>
    </li>
  );
}
