// The outputs of a job, equal ones once.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { type Folded, type Job as JobView, type OutputGroup, isOver } from "../../lib/fleet";
import { bytes, num, plural } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams, url } from "../../lib/place";
import { Icon } from "../../ui/marks";
import { Button, Empty, Meter, Output, Seg, Shown, Text } from "../../ui/parts";

export function Outputs({ job, ended }: { job: JobView; ended: number }): JSX.Element {
  const asked = param("stream");
  const [all, setAll] = useState(20);
  const loaded = useLoad(
    async (signal) => {
      const of = (name: string) => get<Folded>(`/jobs/${job.id}/output?stream=${name}&limit=${all}`, signal);
      const first = await of(asked === "stderr" ? asked : "stdout");
      // A command that is silent when all is well has its errors only: they are shown then, unless asked otherwise.
      const errors = asked === "" && ended > 0 && first.groups.length === 0 ? await of("stderr") : null;
      return errors?.groups.length
        ? { ...errors, stream: "stderr" }
        : { ...first, stream: asked === "stderr" ? asked : "stdout" };
    },
    `output ${job.id} ${asked} ${all} ${isOver(job)}`,
    isOver(job) ? 30_000 : 3_000,
  );
  const found = loaded.data;
  const stream = found?.stream === "stderr" ? "stderr" : "stdout";
  const most = found?.groups[0];
  return (
    <section class="gapl">
      <div class="sec wrapf">
        <h2>Output</h2>
        <span class="sub">
          {found && most
            ? found.differing
              ? `${num(most.count)} the same, ${num(found.differing)} differ`
              : `${num(most.count)} the same`
            : ""}
        </span>
        <span class="sp" />
        <Seg
          label="Stream"
          value={stream}
          options={[
            ["stdout", "Output"],
            ["stderr", "Errors"],
          ]}
          onPick={(value) => setParams({ stream: value })}
        />
      </div>
      <div class="wrap">
        <Shown of={loaded} rows={3}>
          {(folded) =>
            folded.groups.length === 0 ? (
              <Empty sign="command" title={ended ? `Nothing was written to ${stream}` : "No output yet"}>
                {ended
                  ? asked === ""
                    ? "Its hosts were silent on both streams."
                    : "The other stream may have some."
                  : "The output of each host comes here when it has ended, equal outputs once."}
              </Empty>
            ) : (
              <ul class="fold">
                {folded.groups.map((group, n) => (
                  <Group key={group.sha256} group={group} most={folded.groups[0]} n={n} total={job.hosts} />
                ))}
                {folded.more_groups > 0 && (
                  <li>
                    <b class="sub">{plural(folded.more_groups, "group")}</b>
                    <span />
                    <Button small onClick={() => setAll((limit) => Math.min(1000, limit * 5))}>
                      Show more
                    </Button>
                  </li>
                )}
                {folded.missing_count > 0 && (
                  <li>
                    <b class="dim">{plural(folded.missing_count, "host")}</b>
                    <span class="dim cut">
                      {`no ${stream === "stdout" ? "output" : "errors"}${ended < job.hosts ? " so far" : ""}`}{" "}
                      ·{" "}
                      <span class="m">
                        <Text>{folded.missing}</Text>
                      </span>
                    </span>
                  </li>
                )}
              </ul>
            )
          }
        </Shown>
      </div>
    </section>
  );
}

const DIFF_LINES = 12;

export function Group({
  group,
  most,
  n,
  total,
}: {
  group: OutputGroup;
  most: OutputGroup | undefined;
  n: number;
  total: number;
}): JSX.Element {
  const [open, setOpen] = useState(false);
  const lines = group.sample.split("\n");
  const title = lines.find((line) => line.trim() !== "") ?? "";
  const differs = n > 0 && most !== undefined;
  return (
    <li>
      <div>
        <b class="strong">{plural(group.count, "host")}</b>
        <Meter parts={[[group.count, n === 0 ? "good" : "warn"]]} total={total} />
      </div>
      <div class="min">
        <p class="cut">
          <code>
            <Text>{title.slice(0, 200)}</Text>
            {group.bytes === 0 ? <span class="dim">(empty)</span> : null}
          </code>
        </p>
        <p class="sm dim cut m" title={group.hosts}>
          <Text>{group.hosts}</Text>
        </p>
      </div>
      <div class="row">
        <span class="tag">{bytes(group.bytes)}</span>
        <button
          type="button"
          class="x"
          aria-expanded={open}
          aria-label={open ? "Fold the output" : "Open the output"}
          onClick={() => setOpen(!open)}
        >
          <Icon is={open ? "down" : "right"} />
        </button>
      </div>
      {open && (differs ? <Diff from={most.sample} to={group.sample} /> : <Output text={group.sample} />)}
      {open && (
        <p class="sm sub fx">
          {group.bytes > group.sample.length
            ? `The first ${bytes(group.sample.length)} of ${bytes(group.bytes)}. `
            : ""}
          <a
            class="lnk"
            href={url(`${location.pathname.slice(url("").length)}?host=${encodeURIComponent(group.first)}`)}
          >
            Open {group.first}
          </a>
        </p>
      )}
    </li>
  );
}

/** What a group says that most do not, and the other way round; a common line is quiet. */
function Diff({ from, to }: { from: string; to: string }): JSX.Element {
  const [a, b] = [from.split("\n").slice(0, 200), to.split("\n").slice(0, 200)];
  const [inA, inB] = [new Set(a), new Set(b)];
  const rows: [string, string][] = [
    ...a
      .filter((line) => !inB.has(line))
      .slice(0, DIFF_LINES)
      .map((line) => ["-", line] as [string, string]),
    ...b.slice(0, 60).map((line) => [inA.has(line) ? " " : "+", line] as [string, string]),
  ];
  return (
    <pre class="well out fx">
      {rows.map(([sign, line]) => (
        <span class={sign === "-" ? "del" : sign === "+" ? "add" : ""}>
          {sign} <Text>{line}</Text>
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

// -- one host ----------------------------------------------------------------------------------------
