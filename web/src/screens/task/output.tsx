// The output of a task.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "../../lib/api";
import { bytes, short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import type { Task as TaskView } from "../../lib/types";
import { Download, Empty, Output, Seg, Shown } from "../../ui/parts";

interface OutputPage {
  text?: string;
  data_base64?: string;
  next: number;
  end: number;
  complete: boolean;
  gaps: { start: number; size: number }[];
}

const TAIL_BYTES = 64_000;

export function Streams({ task, fences }: { task: TaskView; fences: number[] }): JSX.Element {
  const [stream, setStream] = useState<"stdout" | "stderr" | "log">("stdout");
  const [fence, setFence] = useState<string>("");
  const loaded = useLoad(async (signal) => {
    const of = `/tasks/${task.id}/output?stream=${stream}${fence ? `&fence=${fence}` : ""}`;
    const head = await get<OutputPage>(`${of}&limit_bytes=1`, signal);
    const start = Math.max(0, head.end - TAIL_BYTES);
    return head.end === 0
      ? { page: head, start }
      : { page: await get<OutputPage>(`${of}&start=${start}&limit_bytes=${TAIL_BYTES}`, signal), start };
  }, `output ${task.id} ${stream} ${fence}`);
  return (
    <div class="stack pad">
      <div class="row wrapf">
        <Seg
          label="Stream"
          value={stream}
          onPick={setStream}
          options={[
            ["stdout", "stdout"],
            ["stderr", "stderr"],
            ["log", "log"],
          ]}
        />
        {fences.length > 1 && (
          <select
            class="inp auto"
            aria-label="Run"
            value={fence}
            onChange={(event) => setFence(event.currentTarget.value)}
          >
            <option value="">latest run</option>
            {[...new Set(fences)].reverse().map((one) => (
              <option value={one}>fence {one}</option>
            ))}
          </select>
        )}
      </div>
      <Shown of={loaded} rows={3}>
        {({ page, start }) =>
          page.end === 0 ? (
            <Empty sign="command" title={`Nothing on ${stream}`}>
              A handler writes it with <code>ctx.output(text)</code>.
            </Empty>
          ) : (
            <>
              {(start > 0 || page.gaps.length > 0) && (
                <p class="row sm sub">
                  <span>
                    {bytes(page.end)} in all; the last {bytes(page.end - start)} are shown
                    {page.gaps.length ? ", the middle is folded" : ""}.
                  </span>
                </p>
              )}
              {page.text !== undefined ? (
                <>
                  <Output text={page.text} />
                  <p class="row">
                    <span class="sp" />
                    <Download text={page.text} name={`${short(task.id)}-${stream}.txt`} />
                  </p>
                </>
              ) : (
                <p class="sub">Bytes that are no text: {bytes(page.end)}.</p>
              )}
            </>
          )
        }
      </Shown>
    </div>
  );
}
