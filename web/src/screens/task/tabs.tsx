// What a task did: attempts, events, versions, output.
import type { JSX } from "preact";
import { type Page, get } from "../../lib/api";
import { bytes, clean, dur, num, person, serverNow } from "../../lib/format";
import { type Run, runs } from "../../lib/history";
import { nodeName, nodePath } from "../../lib/hosts";
import { useLoad } from "../../lib/load";
import { param, setParams, url } from "../../lib/place";
import type { Checkpoint, Event, Intervention, Task as TaskView } from "../../lib/types";
import { Icon, Status } from "../../ui/marks";
import { Empty, Json, Text, Time, scrollable } from "../../ui/parts";
import { Streams } from "./output";

type Tab = "attempts" | "output" | "checkpoints" | "interventions" | "result";

export function Tabs({ task, events }: { task: TaskView; events: Event[] }): JSX.Element {
  const all = runs(events);
  const tab = (param("tab") || "attempts") as Tab;
  const points =
    useLoad(
      (signal) => get<Page<Checkpoint>>(`/tasks/${task.id}/checkpoints`, signal),
      `points ${task.id}`,
      2_000,
    ).data?.items ?? [];
  const acts =
    useLoad(
      (signal) => get<Page<Intervention>>(`/tasks/${task.id}/interventions`, signal),
      `acts ${task.id}`,
      2_000,
    ).data?.items ?? [];
  const options: [Tab, string, string][] = [
    ["attempts", "Attempts", num(all.length)],
    ["output", "Output", ""],
    ["checkpoints", "Checkpoints", num(points.length)],
    ["interventions", "Interventions", num(acts.length)],
    ["result", "Result", task.result_bytes ? bytes(task.result_bytes) : ""],
  ];
  return (
    <section>
      <div class="tabs" role="tablist">
        {options.map(([value, name, n]) => (
          <button
            type="button"
            role="tab"
            aria-selected={tab === value}
            onClick={() => setParams({ tab: value === "attempts" ? null : value })}
          >
            {name} <span class="c">{n === "0" ? "" : n}</span>
          </button>
        ))}
      </div>
      {tab === "attempts" &&
        (all.length === 0 ? (
          <Empty sign="queued" title="No attempt yet">
            It starts when a node claims it.
          </Empty>
        ) : (
          <div class="scroll" ref={scrollable}>
            <table class="t att">
              <thead>
                <tr>
                  <th class="n">Try</th>
                  <th>Outcome</th>
                  <th>Node</th>
                  <th class="n">Fence</th>
                  <th>Started</th>
                  <th class="n">Took</th>
                  <th>Detail</th>
                </tr>
              </thead>
              <tbody>
                {[...all].reverse().map((run) => (
                  <tr>
                    <td class="n">{run.attempt}</td>
                    <td>
                      <Outcome run={run} />
                    </td>
                    <td>
                      <a href={url(nodePath(run.node))}>
                        <Text>{nodeName(run.node)}</Text>
                      </a>
                    </td>
                    <td class="n m">{run.fence}</td>
                    <td>
                      <Time at={run.from} />
                    </td>
                    <td class="n">
                      {dur(((run.to ? Date.parse(run.to) : serverNow()) - Date.parse(run.from)) / 1000)}
                    </td>
                    <td class={`whyc ${run.outcome === "failed" ? "bad m" : ""}`} title={clean(run.note)}>
                      <Text>{run.note}</Text>
                      {run.late && <span class="doubt"> · a late write was refused</span>}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
            {(all[0]?.attempt ?? 1) > 1 && (
              <p class="sm sub pad">Earlier attempts have left the history of this task.</p>
            )}
            {task.failure?.traceback && (
              <pre class="well tb" ref={scrollable}>
                {clean(task.failure.traceback, true)}
              </pre>
            )}
          </div>
        ))}
      {tab === "output" && <Streams task={task} fences={all.map((run) => run.fence)} />}
      {tab === "checkpoints" &&
        (points.length === 0 ? (
          <Empty sign="queued" title="No checkpoint">
            A handler keeps one with <code>ctx.checkpoint(name, value)</code>.
          </Empty>
        ) : (
          <div class="stack pad">
            {[...points].reverse().map((point) => (
              <div>
                <p class="row">
                  <b class="strong">
                    <Text>{point.type || "checkpoint"}</Text>
                  </b>
                  <span class="sub">
                    <Text>{point.note}</Text>
                  </span>
                  <span class="sp" />
                  <span class="sm dim">
                    fence {point.fence} · <Time at={point.created_at} />
                  </span>
                </p>
                {point.data !== null && <Json value={point.data} />}
              </div>
            ))}
          </div>
        ))}
      {tab === "interventions" &&
        (acts.length === 0 ? (
          <Empty sign="decision" title="No interventions">
            Pause, abort and the other acts are kept here with their reason.
          </Empty>
        ) : (
          <div class="scroll" ref={scrollable}>
            <table class="t">
              <thead>
                <tr>
                  <th>Act</th>
                  <th>By</th>
                  <th>Effect</th>
                  <th>Runner</th>
                  <th>When</th>
                  <th>Reason</th>
                </tr>
              </thead>
              <tbody>
                {acts.map((one) => (
                  <tr>
                    <td>
                      <span class="st">
                        <Icon is="decision" of="person" size={12} />
                        <span>{one.type}</span>
                      </span>
                    </td>
                    <td>{person(one.actor)}</td>
                    <td>{one.effect ? `${one.effect.from} → ${one.effect.to}` : "none"}</td>
                    <td>
                      {one.target_node ? (
                        <>
                          <Text>{nodeName(one.target_node)}</Text> <span class="dim">{one.state}</span>
                        </>
                      ) : (
                        <span class="dim">{one.state}</span>
                      )}
                    </td>
                    <td>
                      <Time at={one.issued_at} />
                    </td>
                    <td class="whyc">
                      <Text>{one.reason}</Text>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ))}
      {tab === "result" &&
        (task.status === "completed" ? (
          <div class="pad">
            <Json value={task.result} size={task.result_bytes} />
          </div>
        ) : (
          <Empty sign="completed" title="No result yet">
            It is here when the task has completed.
          </Empty>
        ))}
    </section>
  );
}

function Outcome({ run }: { run: Run }): JSX.Element {
  const known = ["running", "stuck", "completed", "failed", "paused", "aborted"].includes(run.outcome);
  return known ? (
    <Status is={run.outcome} />
  ) : (
    <span class="st">
      <Icon is={run.outcome === "lost" ? "late" : "queued"} of={run.outcome === "lost" ? "warn" : "idle"} />
      <span>{run.outcome}</span>
    </span>
  );
}
