// Queues: what waits where, since when, and which one a person has paused.
import type { JSX } from "preact";
import { get, type Page } from "../lib/api";
import { age, dur, initials, num, person, plural, time } from "../lib/format";
import { useLoad } from "../lib/load";
import { url, withParams } from "../lib/place";
import { EXTERNAL, FLEET_QUEUE } from "../lib/rules";
import type { Node, Queue } from "../lib/types";
import { confirm } from "../ui/confirm";
import { Icon } from "../ui/marks";
import { Button, Empty, Meter, Shown, Text, Title, scrollable } from "../ui/parts";
import { quoted } from "../ui/query";

const BEHIND_SECONDS = 30;

export function Queues(): JSX.Element {
  const loaded = useLoad(async (signal) => {
    const [queues, nodes] = await Promise.all([
      get<Page<Queue>>("/queues", signal),
      get<Page<Node>>("/nodes?agents=false", signal).catch(() => ({ items: [] as Node[] })),
    ]);
    return { queues: queues.items, nodes: nodes.items };
  }, "queues");
  return (
    <div class="page">
      <Shown of={loaded}>{({ queues, nodes }) => <Body queues={queues} nodes={nodes} />}</Shown>
    </div>
  );
}

function Body({ queues, nodes }: { queues: Queue[]; nodes: Node[] }): JSX.Element {
  const held = queues.filter((queue) => queue.paused_at);
  const behind = queues.filter(
    (queue) =>
      !queue.paused_at && queue.name !== EXTERNAL && (queue.oldest_due_seconds ?? 0) > BEHIND_SECONDS,
  );
  const worst = [...behind].sort((a, b) => (b.oldest_due_seconds ?? 0) - (a.oldest_due_seconds ?? 0))[0];
  if (queues.length === 0)
    return (
      <>
        <Title>No queues yet</Title>
        <div class="wrap">
          <Empty sign="queues" title="No queues yet" command="holdfast enqueue TYPE key=value">
            A queue is there with its first task, or with a worker that serves it.
          </Empty>
        </div>
      </>
    );
  return (
    <>
      <Title
        sub={
          worst ? (
            <>
              The oldest due task waits {dur(worst.oldest_due_seconds, true)}, in <Text>{worst.name}</Text>.
            </>
          ) : (
            "No due task waits outside a paused queue."
          )
        }
      >
        {plural(queues.length, "queue")}
        {held.length ? `, ${held.length} paused` : ""}
        {behind.length ? `, ${behind.length} ${behind.length === 1 ? "falls" : "fall"} behind` : ""}
      </Title>
      <div class="wrap scroll" ref={scrollable}>
        <table class="t qt">
          <thead>
            <tr>
              <th>Queue</th>
              <th>State</th>
              <th class="n">Waits</th>
              <th class="n c2">Blocked</th>
              <th class="n c2">Runs</th>
              <th class="n c2">Paused</th>
              <th class="n c2">Failed</th>
              <th class="n">Oldest</th>
              <th class="c2">Served by</th>
              <th class="n" />
            </tr>
          </thead>
          <tbody>
            {queues.map((queue) => (
              <Row queue={queue} nodes={nodes} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Row({ queue, nodes }: { queue: Queue; nodes: Node[] }): JSX.Element {
  const n = (status: string) => <N value={queue.counts[status] ?? 0} />;
  const oldest = queue.oldest_due_seconds;
  const late = !queue.paused_at && queue.name !== EXTERNAL && (oldest ?? 0) > BEHIND_SECONDS;
  const serving = nodes.filter((node) => node.queues.includes(queue.name));
  const [busy, slots] = [
    serving.reduce((sum, node) => sum + node.busy, 0),
    serving.reduce((sum, node) => sum + node.workers, 0),
  ];
  const active = (queue.counts.queued ?? 0) + (queue.counts.running ?? 0) > 0;
  return (
    <>
      <tr data-row>
        <td>
          <a class="strong" href={url(withParams("/tasks", { q: `queue:${quoted(queue.name)}` }))}>
            <Text>{queue.name}</Text>
          </a>
        </td>
        <td>
          {queue.paused_at ? (
            <span class="st">
              <Icon is="paused" of="hold" />
              <span>paused</span>
            </span>
          ) : late ? (
            <span class="st">
              <Icon is="stuck" of="warn" />
              <span>falls behind</span>
            </span>
          ) : queue.name === EXTERNAL && !queue.counts.running ? (
            <span class="st">
              <Icon is="queued" of="idle" />
              <span>{queue.counts.queued ? "waits for nodes" : "idle"}</span>
            </span>
          ) : active ? (
            <span class="st">
              <Icon is="running" of="work" />
              <span>flows</span>
            </span>
          ) : (
            <span class="st">
              <Icon is="queued" of="idle" />
              <span>idle</span>
            </span>
          )}
        </td>
        <td class="n">{n("queued")}</td>
        <td class="n c2">{n("blocked")}</td>
        <td class="n c2">{n("running")}</td>
        <td class="n c2">{n("paused")}</td>
        <td class="n c2">
          <a href={url(withParams("/dead-letters", { q: `queue:${quoted(queue.name)}` }))}>{n("failed")}</a>
        </td>
        <td class={`n ${late ? "warn" : ""}`}>{dur(oldest, true)}</td>
        <td class="c2">
          {serving.length ? (
            <span class="lease">
              <Meter parts={[[busy, "work"]]} total={Math.max(slots, 1)} />
              <span>{plural(serving.length, "node")}</span>
            </span>
          ) : queue.name === EXTERNAL ? (
            <span class="dim">offline nodes</span>
          ) : queue.name === FLEET_QUEUE ? (
            <span class="dim">agents</span>
          ) : (
            <span class="warn">no node</span>
          )}
        </td>
        <td class="n">
          {queue.paused_at ? (
            <Button
              small
              right="queues.pause"
              name="Resume"
              onClick={() =>
                confirm({
                  title: `Resume ${queue.name}?`,
                  says: `${plural(queue.counts.queued ?? 0, "task")} may start again.`,
                  verb: "Resume the queue",
                  keep: "Keep it paused",
                  path: `/queues/${encodeURIComponent(queue.name)}/resume`,
                  body: { expected_version: queue.version },
                  right: "queues.pause",
                  done: `Queue ${queue.name} flows again.`,
                  command: `holdfast queue resume ${queue.name}`,
                })
              }
            >
              Resume…
            </Button>
          ) : (
            <Button
              small
              rank="gho"
              right="queues.pause"
              name="Pause"
              onClick={() =>
                confirm({
                  title: `Pause ${queue.name}?`,
                  says: "Nothing of it starts until it is resumed. What runs goes on, and new tasks are accepted.",
                  verb: "Pause the queue",
                  keep: "Keep it running",
                  path: `/queues/${encodeURIComponent(queue.name)}/pause`,
                  body: { expected_version: queue.version },
                  needsReason: true,
                  right: "queues.pause",
                  done: `Queue ${queue.name} is paused.`,
                  command: `holdfast queue pause ${queue.name}`,
                })
              }
            >
              Pause…
            </Button>
          )}
        </td>
      </tr>
      {queue.paused_at && (
        <tr class="note">
          <td colSpan={10}>
            <div class="row">
              <span class="who" aria-hidden="true">
                {initials(queue.paused_by ?? "?")}
              </span>
              <span>
                <b class="strong">
                  <Text>{person(queue.paused_by)}</Text>
                </b>{" "}
                paused it at {time(queue.paused_at)}, {dur(age(queue.paused_at), true)} ago
                {queue.reason ? (
                  <>
                    : “<Text>{queue.reason}</Text>”
                  </>
                ) : (
                  ""
                )}
                . Nothing in it is lost, nothing starts.
              </span>
              <span class="sp" />
              <span class="dim m c2">holdfast queue resume {queue.name}</span>
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

export const N = ({ value }: { value: number | null | undefined }): JSX.Element =>
  value == null ? <span class="dim">–</span> : value === 0 ? <span class="dim">0</span> : <>{num(value)}</>;
