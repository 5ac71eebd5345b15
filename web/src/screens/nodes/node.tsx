// One node: why it is as it is, its heartbeats, what it holds, its latest events.
import type { JSX } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { get, q, type Page } from "../../lib/api";
import { dur, plural, spanText } from "../../lib/format";
import { second } from "../../lib/live";
import { useLoad } from "../../lib/load";
import { nameHere } from "../../lib/place";
import type { Event, Node as NodeView, TaskRow } from "../../lib/types";
import { Icon } from "../../ui/marks";
import { Copy, Shown, Text } from "../../ui/parts";
import { NodeActs } from "./acts";
import { Beats } from "./beats";
import { Facts } from "./facts";
import { EVENTS_BACK, Latest, Leases } from "./held";
import { kindOf, nameOfNode, nodeState } from "./state";

interface One {
  node: NodeView;
  tasks: TaskRow[];
  events: Event[];
  readAt: number;
}
/** Heartbeats are no events of the feed: the page of a live node is read again by itself. */
const READ_MS = 2_000;

export function Node({ id }: { id: string }): JSX.Element {
  const loaded = useLoad<One>(
    async (signal) => {
      const node = await get<NodeView>(`/nodes/${q(id)}`, signal);
      const [tasks, stats] = await Promise.all([
        get<Page<TaskRow>>(
          `/tasks?limit=100&q=${q(`status:running,stuck node:${JSON.stringify(id)}`)}`,
          signal,
        ),
        get<{ feed_head: string }>("/stats", signal),
      ]);
      const [epoch, offset] = stats.feed_head.split(":");
      const page = await get<Page<Event>>(
        `/events?limit=${EVENTS_BACK}&after=${epoch}:${Math.max(0, Number(offset) - EVENTS_BACK)}`,
        signal,
      ).catch(() => ({ items: [] as Event[] }));
      return {
        node,
        tasks: tasks.items,
        events: page.items
          .filter((event) => event.data.node === id)
          .reverse()
          .slice(0, 20),
        readAt: Date.now(),
      };
    },
    `node ${id}`,
    READ_MS,
    ({ node }) => node.live,
  );
  return (
    <div class="page">
      <Shown of={loaded} isWhole>
        {(one) => <Whole {...one} />}
      </Shown>
    </div>
  );
}

function Whole({ node, tasks, events, readAt }: One): JSX.Element {
  const [word, sign, of] = nodeState(node);
  useLayoutEffect(() => nameHere(nameOfNode(node)), [node.id]);
  const since = (second.value - readAt) / 1000;
  const heard = (node.seen_seconds_ago ?? 0) + since;
  return (
    <>
      <div class="ttl">
        <div class="min">
          <h1 class="row">
            <Icon is={sign} of={of} size={20} />
            <Text>{nameOfNode(node)}</Text>
          </h1>
          <p class="ids sub">
            {nameOfNode(node) !== node.id && <span class="m dim">{node.id}</span>}
            {kindOf(node)}
            {node.project ? ` · project ${node.project}` : ""}
            <Copy text={node.id} name="Copy the id" />
          </p>
        </div>
        <span class="sp" />
        <div class="row wrapf">
          <NodeActs node={node} leases={tasks.length} heard={heard} />
        </div>
      </div>
      <div class="why">
        <Icon is={sign} of={of} />
        <div>
          <p class="strong">
            It is {word}
            {node.live ? `, heard ${dur(heard, true)} ago` : ""}
            {tasks.length ? `, and holds ${plural(tasks.length, "lease")}` : ", and holds no lease"}.
          </p>
          <p>
            {word === "late"
              ? "Its tasks run elsewhere when their leases end; a write after that is refused by its fence."
              : word === "gone"
                ? "Its leases have ended."
                : `Heartbeat every ${spanText(node.heartbeat_seconds ?? 20)}. After three missed ones the node counts as gone.`}
          </p>
        </div>
      </div>
      <div class="lay side-r">
        <div class="col">
          <Beats node={node} since={since} />
          <Leases tasks={tasks} since={since} />
          <Latest events={events} />
        </div>
        <Facts node={node} />
      </div>
    </>
  );
}
