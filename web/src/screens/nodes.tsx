// Nodes: one row a node, with what it holds and when it was last heard; and one node alone.
import type { JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { get, post, q, type Page, type Problem } from "../lib/api";
import { dur, num, plural, short, spanText } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { second } from "../lib/live";
import { useLoad } from "../lib/load";
import { go, nameHere, param, setParams, url } from "../lib/place";
import type { Event, Node as NodeView, TaskRow } from "../lib/types";
import { line } from "../lib/why";
import { about, markOf } from "../lib/history";
import { confirm } from "../ui/confirm";
import { Icon, Status, type Family, type Sign } from "../ui/marks";
import { Button, Command, Copy, Dialog, Empty, Field, Lease, Meter, Seg, Shown, Text, Time, Title, scrollable } from "../ui/parts";
import { N } from "./queues";

/** The state of a node: word, mark, family. */
export function nodeState(node: NodeView): [string, Sign, Family] {
  if (node.state === "quarantined") return ["quarantined", "stuck", "doubt"];
  if (node.state === "revoked") return ["revoked", "aborted", "off"];
  if (!node.live) return ["gone", "late", "idle"];
  const beats = node.lease_seconds ?? 20;
  if ((node.seen_seconds_ago ?? 0) > beats * 1.5) return ["late", "late", "warn"];
  if (node.state === "draining") return ["draining", "paused", "hold"];
  if (node.state === "cordoned") return ["cordoned", "aborted", "off"];
  return ["live", "completed", "good"];
}
/** What a node is. A process of the store that serves no queue takes no task: a gateway. */
const kindOf = (node: NodeView): string => node.kind ?? (node.queues.length === 0 && node.types.length === 0 ? "gateway" : "worker");
/** The name that people know a node by: an agent is known by its host. */
export const nameOfNode = (node: NodeView): string => (typeof node.labels?.host === "string" ? node.labels.host : nodeName(node.id));
const RANK: Record<string, number> = { warn: 0, doubt: 1, hold: 2, off: 3, good: 4, idle: 5 };

type Which = "live" | "all" | "off" | "agents";
const SHOWN_MAX = 200;
const AGENT = "agent";
export function Nodes(): JSX.Element {
  const which = (param("show") || "live") as Which;
  const loaded = useLoad(async (signal) => ({ items: (await get<Page<NodeView>>("/nodes?live=false", signal)).items, readAt: Date.now() }), "nodes", 1_000);
  const [joining, setJoining] = useState(false);
  const every = loaded.data?.items ?? [];
  const agents = every.filter((node) => node.kind === AGENT);
  const agentsLive = agents.filter((node) => nodeState(node)[2] === "good").length;
  const all = every.filter((node) => node.kind !== AGENT).sort((a, b) => (RANK[nodeState(a)[2]] ?? 9) - (RANK[nodeState(b)[2]] ?? 9) || a.id.localeCompare(b.id));
  const good = all.filter((node) => nodeState(node)[2] === "good");
  const odd = all.filter((node) => ["warn", "doubt"].includes(nodeState(node)[2]));
  const chosen = which === "agents" ? agents : which === "all" ? all : which === "off" ? all.filter((node) => nodeState(node)[0] !== "live" && node.live) : all.filter((node) => node.live);
  const shown = chosen.slice(0, SHOWN_MAX);
  const since = loaded.data ? (second.value - loaded.data.readAt) / 1000 : 0;
  return (
    <div class="page">
      <Title acts={<Button right="tokens.manage" name="Join token" onClick={() => setJoining(true)}>Join token…</Button>}
        sub={odd[0] ? <><Text>{odd[0].id}</Text> is {nodeState(odd[0])[0]}{odd[0].seen_seconds_ago ? `, last heard ${dur(odd[0].seen_seconds_ago + since, true)} ago` : ""}.</> : all.length ? `${plural(all.reduce((n, node) => n + node.busy, 0), "slot")} of ${num(all.reduce((n, node) => n + node.workers, 0))} busy.` : undefined}>
        {!loaded.data ? "Nodes" : every.length === 0 ? "No nodes" : `${num(good.length)} of ${plural(all.filter((node) => node.live).length, "node")} on time${agents.length ? `, ${num(agentsLive)} of ${plural(agents.length, "agent")}` : ""}`}</Title>
      <Shown of={loaded}>{() => every.length === 0 ? <div class="wrap"><Empty sign="nodes" title="No nodes" command="holdfast worker MODULE:QUEUE">A process that runs tasks is a node while it lives.</Empty></div> : (
        <><div class="row"><Seg label="Which nodes" value={which} onPick={(value) => setParams({ show: value === "live" ? null : value })} options={[["live", `Live ${all.filter((node) => node.live).length}`], ["off", "Needs a look"], ["all", `All ${num(all.length)}`], ...(agents.length ? [["agents", `Agents ${num(agents.length)}`] as [Which, string]] : [])]} /></div>
          <div class="wrap gap scroll" ref={scrollable}><table class="t"><thead><tr><th>Node</th><th>State</th><th class="n">Heard</th><th class="c2">Slots</th><th class="n c2">Leases</th><th class="n c2">Behind</th><th class="n c3">Starts</th><th class="whyc c2">Serves</th><th class="n c2">Errors</th></tr></thead><tbody>
            {shown.map((node) => {
              const [word, sign, of] = nodeState(node);
              return (
                <tr data-row key={node.id} onClick={(event) => !(event.target as HTMLElement).closest("a") && go(`/nodes/${q(node.id)}`)}><td><a class="strong" href={url(`/nodes/${q(node.id)}`)}><Text>{nameOfNode(node)}</Text></a> <span class="sub sm">{kindOf(node)}</span></td>
                  <td><span class="st"><Icon is={sign} of={of} /><span>{word}</span></span></td><td class={`n ${of === "warn" ? "warn" : ""}`}>{node.seen_seconds_ago === null ? "–" : dur(node.seen_seconds_ago + since, true)}</td>
                  <td class="c2">{node.workers ? <span class="lease"><Meter parts={[[node.busy, "work"]]} total={node.workers} /><span>{node.busy} of {node.workers}</span></span> : <span class="dim">–</span>}</td>
                  <td class="n c2"><N value={node.running ?? node.busy} /></td><td class="n c2"><N value={node.lag_events} /></td><td class="n c3"><N value={node.incarnation} /></td><td class="whyc c2 sub"><Text>{node.queues.join(", ") || labels(node)}</Text></td><td class={`n c2 ${node.troubles ? "warn" : ""}`}><N value={node.troubles} /></td></tr>
              );
            })}</tbody></table>
            {shown.length === 0 && <Empty sign="nodes" title="None here">All live nodes are on time and take work.</Empty>}
            {which === "agents" ? <p class="tfoot"><span>{num(shown.length)} of {num(agents.length)}. Each agent serves one host.</span><span class="sp" /><a class="btn sm" href={url("/fleet/hosts")}>Find a host</a></p>
              : agents.length > 0 && <p class="tfoot"><span>{plural(agents.length, "agent")} of the fleet {agents.length === 1 ? "is" : "are"} not in this list</span><span class="sp" /><a class="btn sm" href={url("/nodes?show=agents")}>Show agents</a></p>}</div></>
      )}</Shown>
      {joining && <Join onClose={() => setJoining(false)} />}
    </div>
  );
}

const labels = (node: NodeView): string => Object.entries(node.labels ?? {}).map(([name, value]) => `${name}=${String(value)}`).join(" ");

interface One {
  node: NodeView;
  tasks: TaskRow[];
  events: Event[];
  readAt: number;
}
const EVENTS_BACK = 400;

export function Node({ id }: { id: string }): JSX.Element {
  const loaded = useLoad<One>(async (signal) => {
    const node = await get<NodeView>(`/nodes/${q(id)}`, signal);
    const [tasks, stats] = await Promise.all([get<Page<TaskRow>>(`/tasks?limit=100&q=${q(`status:running,stuck node:${JSON.stringify(id)}`)}`, signal), get<{ feed_head: string }>("/stats", signal)]);
    const [epoch, offset] = stats.feed_head.split(":");
    const page = await get<Page<Event>>(`/events?limit=${EVENTS_BACK}&after=${epoch}:${Math.max(0, Number(offset) - EVENTS_BACK)}`, signal).catch(() => ({ items: [] as Event[] }));
    return { node, tasks: tasks.items, events: page.items.filter((event) => event.data.node === id).reverse().slice(0, 20), readAt: Date.now() };
  }, `node ${id}`, 1_000);
  return <div class="page"><Shown of={loaded}>{(one) => <Whole {...one} />}</Shown></div>;
}

const ACTS: [string, string, string, string, boolean][] = [
  ["cordon", "Cordon", "It gets no new tasks; what runs goes on.", "Cordon", false],
  ["drain", "Drain", "It ends its runs and gets no new tasks.", "Drain", false],
  ["uncordon", "Admit", "It gets tasks again.", "Admit", false],
  ["quarantine", "Quarantine", "Everything that it sends is refused. Its leases run out.", "Quarantine", true],
  ["revoke", "Revoke", "Its runs and its credential end now. It has to register again.", "Revoke the node", true],
];

function Whole({ node, tasks, events, readAt }: One): JSX.Element {
  const [word, sign, of] = nodeState(node);
  useLayoutEffect(() => nameHere(nameOfNode(node)), [node.id]);
  const since = (second.value - readAt) / 1000;
  const heard = (node.seen_seconds_ago ?? 0) + since;
  const registered = node.kind !== null;
  const acts = ACTS.filter(([verb]) => (verb === "uncordon" ? ["cordoned", "draining", "quarantined"].includes(node.state ?? "") : verb === "cordon" ? node.state === "live" : verb === "drain" ? ["live", "cordoned"].includes(node.state ?? "") : node.state !== "revoked"));
  const question = ([verb, name, says, button, danger]: (typeof ACTS)[number]) => ({ title: `${name} ${node.id}?`, says, verb: button, keep: "Leave it", path: `/nodes/${q(node.id)}/${verb}`, needsReason: true, danger, right: "nodes.manage", done: `${node.id}: ${verb} was written.`, command: `holdfast node ${verb} ${node.id}`,
    more: <ul class="dry"><li><Icon is="running" of="work" /><span>leases that it holds</span><b>{tasks.length}</b><small>{tasks.length ? `${verb === "revoke" ? "They end now, with a higher fence" : verb === "drain" ? "They may end" : "They go on, or end after"} ${verb === "revoke" ? "" : "their lease"}.` : "Nothing runs there."}</small></li>{!node.live && <li><Icon is="late" of="warn" /><span>the node is silent</span><b>{dur(heard, true)}</b><small>It hears this when it comes back.</small></li>}</ul> });
  return (
    <>
      <div class="ttl"><div class="min"><h1 class="row"><Icon is={sign} of={of} size={20} /><Text>{nameOfNode(node)}</Text></h1><p class="ids sub">{nameOfNode(node) !== node.id && <span class="m dim">{node.id}</span>}{kindOf(node)}{node.project ? ` · project ${node.project}` : ""}<Copy text={node.id} name="Copy the id" /></p></div><span class="sp" />
        <div class="row wrapf">{registered ? acts.map((one) => <Button rank={one[4] ? "dan" : ""} right="nodes.manage" name={one[1]} onClick={() => confirm(question(one))}>{one[1]}…</Button>) : <span class="sub sm">This worker uses the store directly: stop its process to drain it.</span>}</div></div>
      <div class="why"><Icon is={sign} of={of} /><div><p class="strong">It is {word}{node.live ? `, heard ${dur(heard, true)} ago` : ""}{tasks.length ? `, and holds ${plural(tasks.length, "lease")}` : ", and holds no lease"}.</p>
        <p>{word === "late" ? "Its tasks run elsewhere when their leases end; a write after that is refused by its fence." : word === "gone" ? "Its leases have ended." : `Heartbeat every ${spanText(node.lease_seconds ?? 20)}. After three missed ones the node counts as gone.`}</p></div></div>
      <div class="lay side-r"><div class="col">
        <section><div class="sec"><h2>Held leases</h2><span class="sub">{num(tasks.length)}</span></div>
          {tasks.length === 0 ? <div class="wrap"><Empty sign="running" title="Nothing runs here" /></div> : <div class="wrap scroll" ref={scrollable}><table class="t"><thead><tr><th>Status</th><th>Task</th><th class="n">Fence</th><th>Lease</th><th class="whyc">What it does</th></tr></thead><tbody>
            {tasks.map((task) => <tr data-row><td><Status is={task.status} /></td><td><a class="strong" href={url(`/tasks/${task.id}`)}><Text>{task.type}</Text></a> <span class="m dim">{short(task.id)}</span></td><td class="n m">{task.fence}</td><td>{task.lease_remaining_seconds !== null && <Lease left={task.lease_remaining_seconds - since} whole={Math.max(15, task.lease_remaining_seconds)} />}</td><td class="whyc"><Text>{line(task)}</Text></td></tr>)}</tbody></table></div>}</section>
        <section><div class="sec"><h2>Latest events</h2><span class="sub">among the last {EVENTS_BACK} of the feed</span></div>
          {events.length === 0 ? <p class="dim">Nothing lately.</p> : <ul class="ev">{events.map((event) => { const [s, f] = markOf(event.kind); return <li><span class="m dim">{num(Number(event.position.split(":")[1]))}</span><span class="m dim"><Time at={event.at} /></span><Icon is={s as Sign} of={f} /><span class="cut"><b class="strong">{event.kind.replace(/^task\./, "")}</b> <span class="sub"><Text>{about(event)}</Text></span></span><span class="sub">{event.task_id ? <a href={url(`/tasks/${event.task_id}`)}>{event.type} {short(event.task_id)}</a> : ""}</span></li>; })}</ul>}</section>
      </div><aside class="side">
        <section><h2>Facts</h2><dl class="kv"><dt>slots</dt><dd>{node.workers ? `${node.busy} of ${node.workers} busy` : "–"}</dd><dt>started</dt><dd><Time at={node.started_at} /></dd>{registered && <><dt>registered</dt><dd><Time at={node.registered_at} /></dd><dt>starts</dt><dd>{node.incarnation ?? "–"}</dd><dt>behind</dt><dd>{node.lag_events === null ? "–" : plural(node.lag_events, "event")}</dd></>}{node.capabilities?.length ? <><dt>can</dt><dd>{node.capabilities.join(", ")}</dd></> : null}{labels(node) && <><dt>labels</dt><dd><Text>{labels(node)}</Text></dd></>}<dt>errors</dt><dd class={node.troubles ? "warn" : ""}>{num(node.troubles)}</dd>{node.deaf_handlers > 0 && <><dt>deaf handlers</dt><dd class="warn">{node.deaf_handlers} ignore their cancellation</dd></>}</dl></section>
        {node.queues.length > 0 && <section><h2>Queues</h2><p class="tags">{node.queues.map((name) => <a class="tag line" href={url(`/tasks?q=queue:${q(name)}`)}><Text>{name}</Text></a>)}</p></section>}
        {node.types.length > 0 && <section><h2>Types</h2><p class="tags">{node.types.map((name) => <a class="tag line" href={url(`/tasks?q=type:${q(name)}`)}><Text>{name}</Text></a>)}</p></section>}
        {Object.keys(node.skipped).length > 0 && <section><h2>Schedules that it cannot fire</h2>{Object.entries(node.skipped).map(([name, why]) => <p class="sm"><b class="strong"><Text>{name}</Text></b> <Text>{why}</Text></p>)}</section>}
        <section><Command>{`holdfast node show ${node.id}`}</Command></section>
      </aside></div>
    </>
  );
}

function Join({ onClose }: { onClose: () => void }): JSX.Element {
  const [uses, setUses] = useState("1");
  const [made, setMade] = useState<string | null>(null);
  const [wrong, setWrong] = useState("");
  const send = async (event: { preventDefault: () => void }) => {
    event.preventDefault();
    try {
      const answer = await post<{ token: string }>("/join-tokens", { uses: Number(uses) || 1 });
      setMade(answer.token);
    } catch (error) {
      setWrong((error as Problem).message);
    }
  };
  return (
    <Dialog label="Join token" onClose={onClose}><form class="stack" onSubmit={(event) => void send(event)}><div><h2 class="big">Join token</h2><p class="sub">Nodes register with it within a day. It is shown once.</p></div>
      {made ? <><code class="well one">{made}<Copy text={made} /></code><Command>{`holdfast worker MODULE:QUEUE --token ${made.slice(0, 12)}…`}</Command></> : <Field label="How many nodes" error={wrong || undefined}><input class="inp" inputMode="numeric" value={uses} onInput={(event) => setUses(event.currentTarget.value)} /></Field>}
      <div class="row acts"><span class="sp" /><Button onClick={onClose}>{made ? "Close" : "Cancel"}</Button>{!made && <Button rank="pri" type="submit" right="tokens.manage" name="Make the token">Make the token</Button>}</div></form></Dialog>
  );
}
