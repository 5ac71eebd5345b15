// One host of a job.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get } from "../../lib/api";
import {
  type Execution,
  FAMILY_OF,
  type Job as JobView,
  isEnded,
  jobApi,
  lookOf,
  signOf,
} from "../../lib/fleet";
import { dur, short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { setParams, url } from "../../lib/place";
import { Icon } from "../../ui/marks";
import { Command, Copy, Shown, Text, Time } from "../../ui/parts";
import { LIVE_MS, REST_MS } from "./index";
import { LogView } from "./log";

export interface Why {
  reasons: { code: string; text: string }[];
}

export interface Log {
  text?: string;
  data_base64?: string;
  end: number;
  next: number;
  complete: boolean;
  gaps: { start: number; size: number }[];
}

export function Sheet({ job, host }: { job: JobView; host: string }): JSX.Element {
  const close = () => setParams({ host: null, log: null });
  useEffect(() => {
    const key = (event: KeyboardEvent) =>
      event.key === "Escape" && !document.querySelector("dialog[open]") && close();
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  });
  const path = `${jobApi(job)}/executions/${encodeURIComponent(host)}`;
  const [ended, setEnded] = useState(false);
  const loaded = useLoad(
    async (signal) => {
      const [execution, why] = await Promise.all([
        get<Execution>(path, signal),
        get<Why>(`${path}/why`, signal),
      ]);
      return { execution, why };
    },
    `execution ${path}`,
    ended ? REST_MS : LIVE_MS,
  );
  useEffect(
    () => void (loaded.data && setEnded(isEnded(loaded.data.execution.kind))),
    [loaded.data?.execution.kind],
  );
  return (
    <aside class="drawer" aria-label={`Host ${host}`}>
      <div class="dh">
        <h2 class="cut m">
          <Text>{host}</Text>
        </h2>
        <span class="sp" />
        <a class="btn sm" href={url(`/fleet/hosts/${encodeURIComponent(host)}`)}>
          Open host
        </a>
        <button type="button" class="x" aria-label="Close" onClick={close}>
          <Icon is="close" />
        </button>
      </div>
      <div class="db">
        <Shown of={loaded}>
          {({ execution, why }) => {
            const look = lookOf(execution.kind);
            return (
              <>
                <div class="why">
                  <Icon is={signOf(look)} of={FAMILY_OF[look]} size={20} />
                  <div>
                    <p class="strong">
                      {execution.kind.replace(/_/g, " ")}
                      {execution.exit_code !== null ? `, exit ${execution.exit_code}` : ""}
                      {execution.signal ? `, signal ${execution.signal}` : ""}
                    </p>
                    {why.reasons.map((reason) => (
                      <p class="wrapt">
                        <Text>{reason.text}</Text>
                      </p>
                    ))}
                  </div>
                </div>
                {execution.late != null && (
                  <p class="banner warn">
                    <Icon is="late" of="warn" />
                    <span>
                      <b class="strong">A result came late.</b> The execution had ended otherwise; what the
                      host said is kept beside it.
                    </span>
                  </p>
                )}
                <dl class="kv gap">
                  <dt>attempt</dt>
                  <dd>
                    {execution.attempt} of {execution.max_attempts}
                  </dd>
                  <dt>token</dt>
                  <dd class="m">{execution.token ?? "–"}</dd>
                  <dt>wave</dt>
                  <dd>{execution.wave ?? "not reached"}</dd>
                  <dt>got its go</dt>
                  <dd>
                    <Time at={execution.started_at} />
                  </dd>
                  <dt>ended</dt>
                  <dd>
                    <Time at={execution.finished_at} />
                    {execution.duration_seconds !== null ? `, took ${dur(execution.duration_seconds)}` : ""}
                  </dd>
                  <dt>execution</dt>
                  <dd class="m">
                    {short(execution.id)}
                    <Copy text={execution.id} name="Copy the id" />{" "}
                    <a class="lnk" href={url(`/tasks/${execution.id}`)}>
                      task
                    </a>
                  </dd>
                </dl>
                <LogView path={path} execution={execution} />
                <div class="gap">
                  <Command>{`holdfast job why ${job.external_id ?? job.id} ${host}`}</Command>
                </div>
              </>
            );
          }}
        </Shown>
      </div>
    </aside>
  );
}
