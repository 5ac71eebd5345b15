// The output of one host.
import type { JSX } from "preact";
import { ask } from "../../lib/api";
import { type Execution, isEnded } from "../../lib/fleet";
import { bytes, percent } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams } from "../../lib/place";
import { Output, Seg, Shown } from "../../ui/parts";
import { LIVE_MS } from "./index";
import { Log } from "./sheet";

export function LogView({ path, execution }: { path: string; execution: Execution }): JSX.Element {
  const stream =
    param("log") === "stderr" ||
    (param("log") === "" && execution.exit_code !== 0 && (execution.output.stderr?.bytes ?? 0) > 0)
      ? "stderr"
      : "stdout";
  const loaded = useLoad(
    async (signal) => (await ask<Log>("GET", `/api/v1${path}/logs?stream=${stream}`, undefined, signal)).body,
    `log ${path} ${stream} ${execution.attempt} ${execution.finished_at ?? ""}`,
    isEnded(execution.kind) ? 60_000 : LIVE_MS,
  );
  return (
    <section class="gap">
      <div class="sec">
        <h2>Output</h2>
        <span class="sp" />
        <Seg
          label="Stream of this host"
          value={stream}
          options={[
            ["stdout", `Output ${execution.output.stdout ? bytes(execution.output.stdout.bytes) : ""}`],
            ["stderr", `Errors ${execution.output.stderr ? bytes(execution.output.stderr.bytes) : ""}`],
          ]}
          onPick={(value) => setParams({ log: value })}
        />
      </div>
      <Shown of={loaded} rows={3}>
        {(log) =>
          log.end === 0 ? (
            <p class="dim">
              {isEnded(execution.kind) ? `Nothing was written to ${stream}.` : "Nothing was written yet."}
            </p>
          ) : (
            <>
              <Output text={textOf(log)} />
              {(log.next < log.end || log.gaps.length > 0) && (
                <p class="sm sub">
                  {log.next < log.end ? `The first ${bytes(log.next)} of ${bytes(log.end)}. ` : ""}
                  {log.gaps.length
                    ? `${percent(log.gaps.reduce((n, gap) => n + gap.size, 0) / log.end)} of it was not kept.`
                    : ""}
                </p>
              )}
            </>
          )
        }
      </Shown>
    </section>
  );
}

const textOf = (log: Log): string =>
  log.text ?? new TextDecoder().decode(Uint8Array.from(atob(log.data_base64 ?? ""), (c) => c.charCodeAt(0)));
