// The facts of a task beside its page.
import type { JSX } from "preact";
import { json } from "../../lib/exact";
import { jobOf } from "../../lib/fleet";
import { age, bytes, dur, person, short, until } from "../../lib/format";
import { nodeName, nodePath } from "../../lib/hosts";
import { second } from "../../lib/live";
import { url } from "../../lib/place";
import type { Task as TaskView } from "../../lib/types";
import { act } from "../../ui/act";
import { Button, Command, Copy, Json, Text, Time } from "../../ui/parts";
import { quoted } from "../../ui/query";
import { Near } from "./near";

export function Side({ task, readAt }: { task: TaskView; readAt: number }): JSX.Element {
  const left =
    task.lease_remaining_seconds === null
      ? null
      : Math.max(0, task.lease_remaining_seconds - (second.value - readAt) / 1000);
  const whole = Math.max(15, task.lease_remaining_seconds ?? 15);
  const ring = 2 * Math.PI * 22;
  const rows: [string, JSX.Element | string | null][] = [
    [
      "queue",
      <a href={url(`/tasks?q=queue:${task.queue}`)}>
        <Text>{task.queue}</Text>
      </a>,
    ],
    ["project", task.project],
    ["priority", task.priority],
    [
      "key",
      task.idempotency_key ? (
        <code>
          <Text>{task.idempotency_key}</Text>
        </code>
      ) : null,
    ],
    ["version", <>{task.version}</>],
    [
      "attempts",
      <>
        {task.attempts} of {task.max_attempts}
        {task.deaths ? <span class="dim"> · deaths {task.deaths}</span> : null}
      </>,
    ],
    [
      "tags",
      task.tags.length ? (
        <span class="tags">
          {task.tags.map((tag) => (
            <a class="tag" href={url(`/tasks?q=${encodeURIComponent(`tag:${quoted(tag)}`)}`)}>
              <Text>{tag}</Text>
            </a>
          ))}
        </span>
      ) : null,
    ],
    ["timeout", task.options.timeout != null ? dur(Number(task.options.timeout)) : null],
    [
      "created",
      <>
        <Time at={task.created_at} /> <span class="dim">· {dur(age(task.created_at), true)} ago</span>
      </>,
    ],
    [
      "due",
      task.status === "queued" && until(task.due_at) > 0 ? <>in {dur(until(task.due_at), true)}</> : null,
    ],
    ["ended", task.finished_at ? <Time at={task.finished_at} /> : null],
    ["held by", task.held_by ? <Text>{person(task.held_by)}</Text> : null],
    [
      "limits",
      task.limits.length ? (
        <code>
          <Text>{task.limits.join(", ")}</Text>
        </code>
      ) : null,
    ],
    [
      "job",
      jobOf(task) ? (
        <a class="lnk" href={url(`/fleet/jobs/${jobOf(task)}`)}>
          {short(jobOf(task) ?? "")}
        </a>
      ) : null,
    ],
  ];
  return (
    <>
      {left !== null && task.node && (
        <section>
          <div class="sec">
            <h2>Lease</h2>
            <span class="sp" />
            <Button right="tasks.intervene" name="Release" onClick={() => act("release", { task })}>
              Release…
            </Button>
          </div>
          <div class="ring">
            <svg
              width="56"
              height="56"
              viewBox="0 0 56 56"
              role="img"
              aria-label={`${Math.round(left)} seconds left`}
            >
              <circle cx="28" cy="28" r="22" fill="none" stroke="var(--line)" stroke-width="5" />
              <circle
                class={left < whole / 3 ? "warn" : "work"}
                cx="28"
                cy="28"
                r="22"
                fill="none"
                stroke="currentColor"
                stroke-width="5"
                stroke-linecap="round"
                stroke-dasharray={`${(ring * Math.min(1, left / whole)).toFixed(1)} ${ring}`}
                transform="rotate(-90 28 28)"
              />
              <text x="28" y="32" text-anchor="middle" class="ringt">
                {dur(Math.round(left), true)}
              </text>
            </svg>
            <dl class="kv">
              <dt>holder</dt>
              <dd class="cut">
                <a class="strong" href={url(nodePath(task.node))}>
                  <Text>{nodeName(task.node)}</Text>
                </a>
              </dd>
              <dt>fence</dt>
              <dd class="m">{task.fence}</dd>
            </dl>
          </div>
          <p class="sm sub">
            If it ends, the task is queued again and runs with fence {task.fence + 1}. What the holder writes
            after that is refused.
          </p>
        </section>
      )}
      <section>
        <h2>Facts</h2>
        <dl class="kv">
          {rows
            .filter(([, value]) => value !== null)
            .map(([name, value]) => (
              <>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </>
            ))}
        </dl>
      </section>
      {task.depends_on.length > 0 && (
        <section>
          <h2>
            Depends on <span class="dim">{task.depends_on.length}</span>
          </h2>
          <Near
            ids={task.depends_on.map((one) => one.id)}
            known={Object.fromEntries(task.depends_on.map((one) => [one.id, one.status]))}
          />
        </section>
      )}
      {task.dependents.length > 0 && (
        <section>
          <h2>
            Dependents <span class="dim">{task.dependents.length}</span>
          </h2>
          <Near ids={task.dependents} />
        </section>
      )}
      <section>
        <div class="sec">
          <h2>
            Payload <span class="dim">{bytes(task.payload_bytes)}</span>
          </h2>
          <span class="sp" />
          <Copy text={json(task.payload)} name="Copy the payload" />
        </div>
        <Json value={task.payload} size={task.payload_bytes} />
      </section>
      {Object.keys(task.metadata).length > 0 && (
        <section>
          <h2>Metadata</h2>
          <Json value={task.metadata} />
        </section>
      )}
      {Object.keys(task.metrics).length > 0 && (
        <section>
          <h2>Metrics</h2>
          <Json value={task.metrics} />
        </section>
      )}
      <section>
        <Command>{`holdfast task show ${task.id}`}</Command>
      </section>
    </>
  );
}
