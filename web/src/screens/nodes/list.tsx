// All nodes: one row a node, with its heartbeats and what it holds.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, q, type Page } from "../../lib/api";
import { dur, num, plural } from "../../lib/format";
import { second } from "../../lib/live";
import { useLoad } from "../../lib/load";
import { go, param, setParams, url } from "../../lib/place";
import type { Node as NodeView } from "../../lib/types";
import { Icon } from "../../ui/marks";
import { Button, Empty, Meter, Seg, Shown, Text, Title, scrollable } from "../../ui/parts";
import { N } from "../queues";
import { Skew, Strip } from "./beats";
import { Join } from "./join";
import { kindOf, labelsOf, nameOfNode, nodeState } from "./state";

const RANK: Record<string, number> = { warn: 0, doubt: 1, hold: 2, off: 3, good: 4, idle: 5 };

type Which = "live" | "all" | "off" | "agents";
const SHOWN_MAX = 200;
/** Heartbeats are no events of the feed: the list is read again by itself, unless it is long. */
const READ_MS = 2_000;
const MOVING_MAX = 200;
const AGENT = "agent";

export function Nodes(): JSX.Element {
  const which = (param("show") || "live") as Which;
  const loaded = useLoad(
    async (signal) => ({
      items: (await get<Page<NodeView>>("/nodes?live=false", signal)).items,
      readAt: Date.now(),
    }),
    "nodes",
    READ_MS,
    ({ items }) => items.length <= MOVING_MAX,
  );
  const [joining, setJoining] = useState(false);
  const every = loaded.data?.items ?? [];
  const agents = every.filter((node) => node.kind === AGENT);
  const agentsLive = agents.filter((node) => nodeState(node)[2] === "good").length;
  const all = every
    .filter((node) => node.kind !== AGENT)
    .sort((a, b) => (RANK[nodeState(a)[2]] ?? 9) - (RANK[nodeState(b)[2]] ?? 9) || a.id.localeCompare(b.id));
  const good = all.filter((node) => nodeState(node)[2] === "good");
  const odd = all.filter((node) => ["warn", "doubt"].includes(nodeState(node)[2]));
  const chosen =
    which === "agents"
      ? agents
      : which === "all"
        ? all
        : which === "off"
          ? all.filter((node) => nodeState(node)[0] !== "live" && node.live)
          : all.filter((node) => node.live);
  const shown = chosen.slice(0, SHOWN_MAX);
  const since = loaded.data ? (second.value - loaded.data.readAt) / 1000 : 0;
  return (
    <div class="page">
      <Title
        acts={
          <Button right="tokens.manage" name="Join token" onClick={() => setJoining(true)}>
            Join token…
          </Button>
        }
        sub={
          odd[0] ? (
            <>
              <Text>{odd[0].id}</Text> is {nodeState(odd[0])[0]}
              {odd[0].seen_seconds_ago
                ? `, last heard ${dur(odd[0].seen_seconds_ago + since, true)} ago`
                : ""}
              .
            </>
          ) : all.length ? (
            `${plural(
              all.reduce((n, node) => n + node.busy, 0),
              "slot",
            )} of ${num(all.reduce((n, node) => n + node.workers, 0))} busy.`
          ) : undefined
        }
      >
        {!loaded.data
          ? "Nodes"
          : every.length === 0
            ? "No nodes"
            : `${num(good.length)} of ${plural(all.filter((node) => node.live).length, "node")} on time${agents.length ? `, ${num(agentsLive)} of ${plural(agents.length, "agent")}` : ""}`}
      </Title>
      <Shown of={loaded}>
        {() =>
          every.length === 0 ? (
            <div class="wrap">
              <Empty sign="nodes" title="No nodes" command="holdfast worker MODULE:QUEUE">
                A process that runs tasks is a node while it lives.
              </Empty>
            </div>
          ) : (
            <>
              <div class="row">
                <Seg
                  label="Which nodes"
                  value={which}
                  onPick={(value) => setParams({ show: value === "live" ? null : value })}
                  options={[
                    ["live", `Live ${all.filter((node) => node.live).length}`],
                    ["off", "Needs a look"],
                    ["all", `All ${num(all.length)}`],
                    ...(agents.length ? [["agents", `Agents ${num(agents.length)}`] as [Which, string]] : []),
                  ]}
                />
              </div>
              <div class="wrap gap scroll" ref={scrollable}>
                <table class="t">
                  <thead>
                    <tr>
                      <th>Node</th>
                      <th>State</th>
                      <th class="c2">Heartbeats</th>
                      <th class="n">Heard</th>
                      <th class="c2">Slots</th>
                      <th class="n c2">Leases</th>
                      <th class="n c2">Behind</th>
                      <th class="n c3">Skew</th>
                      <th class="n c3">Starts</th>
                      <th class="whyc c2">Serves</th>
                      <th class="n c2">Errors</th>
                    </tr>
                  </thead>
                  <tbody>
                    {shown.map((node) => (
                      <Row key={node.id} node={node} since={since} />
                    ))}
                  </tbody>
                </table>
                {shown.length === 0 && (
                  <Empty sign="nodes" title="None here">
                    All live nodes are on time and take work.
                  </Empty>
                )}
                {which === "agents" ? (
                  <p class="tfoot">
                    <span>
                      {num(shown.length)} of {num(agents.length)}. Each agent serves one host.
                    </span>
                    <span class="sp" />
                    <a class="btn sm" href={url("/fleet/hosts")}>
                      Find a host
                    </a>
                  </p>
                ) : (
                  agents.length > 0 && (
                    <p class="tfoot">
                      <span>
                        {plural(agents.length, "agent")} of the fleet {agents.length === 1 ? "is" : "are"} not
                        in this list
                      </span>
                      <span class="sp" />
                      <a class="btn sm" href={url("/nodes?show=agents")}>
                        Show agents
                      </a>
                    </p>
                  )
                )}
              </div>
            </>
          )
        }
      </Shown>
      {joining && <Join onClose={() => setJoining(false)} />}
    </div>
  );
}

function Row({ node, since }: { node: NodeView; since: number }): JSX.Element {
  const [word, sign, of] = nodeState(node);
  return (
    <tr
      data-row
      onClick={(event) => !(event.target as HTMLElement).closest("a") && go(`/nodes/${q(node.id)}`)}
    >
      <td>
        <a class="strong" href={url(`/nodes/${q(node.id)}`)}>
          <Text>{nameOfNode(node)}</Text>
        </a>{" "}
        <span class="sub sm">{kindOf(node)}</span>
      </td>
      <td>
        <span class="st">
          <Icon is={sign} of={of} />
          <span>{word}</span>
        </span>
      </td>
      <td class="c2">
        <Strip node={node} since={since} />
      </td>
      <td class={`n ${of === "warn" ? "warn" : ""}`}>
        {node.seen_seconds_ago === null ? "–" : dur(node.seen_seconds_ago + since, true)}
      </td>
      <td class="c2">
        {node.workers ? (
          <span class="lease">
            <Meter parts={[[node.busy, "work"]]} total={node.workers} />
            <span>
              {node.busy} of {node.workers}
            </span>
          </span>
        ) : (
          <span class="dim">–</span>
        )}
      </td>
      <td class="n c2">
        <N value={node.running ?? node.busy} />
      </td>
      <td class="n c2">
        <N value={node.lag_events} />
      </td>
      <td class="n c3">
        <Skew of={node.skew_seconds} />
      </td>
      <td class="n c3">
        <N value={node.incarnation} />
      </td>
      <td class="whyc c2 sub">
        <Text>{node.queues.join(", ") || labelsOf(node)}</Text>
      </td>
      <td class={`n c2 ${node.troubles ? "warn" : ""}`}>
        <N value={node.troubles} />
      </td>
    </tr>
  );
}
