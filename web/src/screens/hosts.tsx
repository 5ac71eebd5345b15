// Hosts of the fleet: the list, one host in full, groups, and the blocks that keep commands off them.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask, get, may, post, q, type Page, type Problem } from "../lib/api";
import { commandOf, endedBar, endedOf, jobMark, jobPath, nameOf, type Block, type BlockRow, type Host as HostView, type HostGroup, type HostRow, type JobRow, type Selection } from "../lib/fleet";
import { clean, dur, num, person, plural, short, time } from "../lib/format";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { go, param, setParams, url, withParams } from "../lib/place";
import { keepReason } from "../lib/prefs";
import { Refused } from "../ui/act";
import { confirm } from "../ui/confirm";
import { Icon, type Family, type Sign } from "../ui/marks";
import { Button, Command, Copy, Dialog, Empty, Field, Json, Meter, scrollable, Seg, Shown, Text, Time, Title, toast, Wrong } from "../ui/parts";

const LIVE_MS = 1_500;
const PAGE = 100;

/** The state of a host: word, mark, family, and why. */
function hostState(host: HostRow): [string, Sign, Family, string] {
  if (host.state === "gone") return ["removed", "host-skipped", "idle", "It was removed and gets no commands."];
  if (host.state === "cordoned") return ["cordoned", "host-blocked", "hold", "New jobs leave it out."];
  if (host.agent && !host.agent.live) return ["out of reach", "host-unreachable", "warn", `Its agent was last heard ${dur(host.agent.seen_seconds_ago, true)} ago. Commands wait for it.`];
  if (!host.agent && host.driver === "agent") return ["no agent yet", "host-unreachable", "idle", "No agent has enrolled for it. Commands wait until one does."];
  if (host.slot) return ["busy", "host-running", "work", "A command runs; the next one waits for its slot."];
  return ["ready", "host-success", "good", "It takes the next command at once."];
}

const Tabs = ({ at }: { at: "hosts" | "groups" | "blocks" }): JSX.Element => (
  <nav class="views fleetnav" aria-label="Fleet">{([["hosts", "Hosts"], ["groups", "Groups"], ["blocks", "Blocks"]] as const).map(([path, word]) => <a href={url(`/fleet/${path}`)} aria-current={path === at ? "page" : undefined}>{word}</a>)}</nav>
);
const Labels = ({ of }: { of: Record<string, string> }): JSX.Element => <span class="tags">{Object.entries(of).map(([key, value]) => <span class="tag line"><Text>{`${key}=${value}`}</Text></span>)}</span>;

// -- the list ----------------------------------------------------------------------------------------

const STATES: [string, string][] = [["", "All"], ["active", "Active"], ["silent", "Out of reach"], ["cordoned", "Cordoned"], ["gone", "Removed"]];
export function Hosts(): JSX.Element {
  const text = param("q");
  const after = param("after");
  const show = param("show");
  const isSelector = /[=@!&*[\]~,^]/.test(text);
  const loaded = useLoad((signal) => get<Page<HostRow>>(withParams("/hosts", show === "silent" ? { limit: String(PAGE), silent: "true", after } : { limit: String(PAGE), [isSelector ? "selector" : "q"]: text, state: isSelector ? "" : show, after }), signal), `hosts ${text} ${after} ${show}`, LIVE_MS);
  const all = useLoad((signal) => get<Selection>(`/hosts/select?selector=${q(text && isSelector ? text : "*")}`, signal), `count ${isSelector ? text : "*"}`, 10_000).data;
  const [input, setInput] = useState(text);
  useEffect(() => setInput(text), [text]);
  const rows = loaded.data?.items ?? [];
  const silent = (loaded.data?.items ?? []).filter((host) => hostState(host)[0] === "out of reach").length;
  const busy = rows.filter((host) => host.slot).length;
  return (
    <div class="page hosts">
      <Title acts={<>{may("jobs.create") && <a class="btn pri" href={url(withParams("/fleet/new", { selector: isSelector ? text : "" }))}>New command</a>}</>}
        sub={loaded.data && rows.length ? <>{num(busy)} of {num(rows.length)} shown run a command{silent ? <>, <a class="lnk" href={url("/fleet/hosts?show=silent")}>{num(silent)} out of reach</a></> : ""}.</> : "What a command can run on."}>{!all ? "Hosts" : all.count === 0 && !text ? "No hosts" : `${plural(all.count, "host")}${text && isSelector ? " match" : ""}`}</Title>
      <Tabs at="hosts" />
      <form class="row wrapf gap" onSubmit={(event) => { event.preventDefault(); setParams({ q: input.trim(), after: null }, false); }}>
        <div class="q"><Icon is="search" of="dim" /><input data-search value={input} placeholder="part of a name, or a selector: zone=a&role=web" aria-label="Search hosts" spellcheck={false} autocomplete="off" onInput={(event) => setInput(event.currentTarget.value)} />{text && <button type="button" class="x" aria-label="Clear the search" onClick={() => setParams({ q: null, after: null }, false)}><Icon is="close" size={12} /></button>}<kbd class="k">/</kbd></div>
        <Seg label="State" value={show} options={STATES} onPick={(value) => setParams({ show: value, after: null, ...(value === "silent" ? { q: null } : {}) })} /></form>
      {loaded.error && !loaded.data ? <div class="wrap gap"><Wrong error={loaded.error} retry={loaded.reload} /></div> : <Shown of={loaded}>{(page) => rows.length === 0 ? <div class="wrap gap">{text || show ? <Empty sign="search" title={show === "silent" && !text ? "Every host answers" : "No host is so"} act={<a class="btn" href={url("/fleet/hosts")}>All hosts</a>}>{isSelector && show ? "A selector stands alone: the state is left out of it." : undefined}</Empty> : <Empty sign="nodes" title="No hosts" command="holdfast host import hosts.jsonl">Import an inventory, or let agents enrol with a join token. To try it without machines: <code>holdfast server --simulated-hosts 100</code>.</Empty>}</div> : (
        <div class="wrap gap"><div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>State</th><th>Host</th><th class="c2">Labels</th><th class="n">Heard</th><th class="c3">Driver</th><th class="c3">Agent</th><th>Slot</th></tr></thead><tbody>
          {rows.map((host) => { const [word, sign, of, why] = hostState(host); return <tr data-row key={host.id} title={why} onClick={() => go(`/fleet/hosts/${q(host.name)}`)}><td><span class="st"><Icon is={sign} of={of} /><span>{word}</span></span></td><td class="strong"><a href={url(`/fleet/hosts/${q(host.name)}`)}><Text>{host.name}</Text></a></td><td class="lbl c2"><Labels of={host.labels} /></td><td class="n">{host.agent ? dur(host.agent.seen_seconds_ago, true) : <span class="dim">–</span>}</td><td class="c3">{host.driver}</td><td class="m c3"><Text>{host.agent?.version ?? "–"}</Text></td><td class="whyc">{host.slot ? <>runs <span class="m">{short(host.slot.execution_id)}</span> for <Time at={host.slot.since} as="age" /></> : <span class="dim">free</span>}</td></tr>; })}</tbody></table></div>
          <p class="tfoot"><span>{num(rows.length)}{all && !show && !(text && !isSelector) ? ` of ${num(all.count)}` : ""}</span><span>{Math.round(loaded.ms)} ms</span><span class="sp" />{after && <Button small onClick={() => history.back()}>Before</Button>}{page.next && <Button small onClick={() => setParams({ after: page.next }, false)}>Next</Button>}</p></div>
      )}</Shown>}
    </div>
  );
}

// -- one host ----------------------------------------------------------------------------------------

export function Host({ name }: { name: string }): JSX.Element {
  const loaded = useLoad(async (signal) => {
    const host = await get<HostView>(`/hosts/${q(name)}`, signal);
    const [blocks, jobs] = await Promise.all([
      get<Page<BlockRow>>(`/blocks?host=${q(host.id)}`, signal).then((page) => page.items).catch(() => [] as BlockRow[]),
      get<Page<JobRow>>(`/jobs?host=${q(host.id)}&limit=15`, signal).then((page) => page.items).catch(() => [] as JobRow[]),
    ]);
    return { host, blocks, jobs };
  }, `host ${name}`, LIVE_MS);
  return <div class="page host"><Shown of={loaded} rows={8}>{(found) => <HostBody {...found} />}</Shown></div>;
}

function HostBody({ host, blocks, jobs }: { host: HostView; blocks: BlockRow[]; jobs: JobRow[] }): JSX.Element {
  const [word, sign, of, why] = hostState(host);
  const isCordoned = host.state === "cordoned";
  const [blocking, setBlocking] = useState(false);
  const turn = () => confirm({ title: `${isCordoned ? "Admit" : "Cordon"} ${host.name}?`, says: isCordoned ? "Jobs may choose it again." : "New jobs leave it out. What runs goes on.", verb: isCordoned ? "Admit the host" : "Cordon the host", keep: "Leave it", path: `/hosts/${q(host.name)}`, method: "PATCH", body: { state: isCordoned ? "active" : "cordoned", expected_version: host.version }, needsReason: !isCordoned, right: "hosts.write", done: isCordoned ? "Jobs may choose it again." : "New jobs leave it out.", command: `holdfast host edit ${host.name} --state ${isCordoned ? "active" : "cordoned"}` });
  return (
    <>
      <div class="ttl"><div class="min"><h1><Text>{host.name}</Text></h1><p class="cmd"><span class={`tag ${of}`}><Icon is={sign} of={of} size={12} />{word}</span><Labels of={host.labels} /></p></div><span class="sp" />
        <div class="row wrapf acts">{may("jobs.create") && host.state === "active" && <a class="btn" href={url(withParams("/fleet/new", { selector: host.name }))}>Run on it…</a>}<Button right="blocks.write" name="Block" onClick={() => setBlocking(true)}>Block…</Button>{host.state !== "gone" && <Button right="hosts.write" name={isCordoned ? "Admit" : "Cordon"} onClick={turn}>{isCordoned ? "Admit…" : "Cordon…"}</Button>}</div></div>
      <div class="why"><Icon is={sign} of={of} size={20} /><div><p class="strong">{capitalWhy(word)}{blocks.length ? ", but blocked" : ""}</p><p>{blocks.length && word === "ready" ? "Its agent answers; a block keeps commands off it." : why}{host.slot ? <> It runs <a class="lnk m" href={url(`/tasks/${host.slot.execution_id}`)}>{short(host.slot.execution_id)}</a> since <Time at={host.slot.since} />, token {host.slot.token}.</> : null}</p></div></div>
      {blocks.map((block) => <p class="banner hold gap"><Icon is="host-blocked" of="hold" /><span><b class="strong">A block {block.effect === "hold" ? "holds" : "refuses"} {block.command_type === "*" ? "all commands" : <code><Text>{block.command_type}</Text></code>}</b>: <Text>{block.reason}</Text>, by <Text>{person(block.owner)}</Text>{block.remaining_seconds !== null ? `, ${dur(block.remaining_seconds, true)} left` : ""}</span><span class="sp" /><Button small right="blocks.write" name="Lift" onClick={() => lift(block)}>Lift…</Button></p>)}
      <div class="lay side-r"><div class="min">
        <section><div class="sec"><h2>Jobs</h2><span class="sub">the latest that have this host</span></div><div class="wrap">{jobs.length === 0 ? <Empty sign="jobs" title="No job has run here" command={`holdfast run uptime --hosts ${host.name} --plan`} /> : <div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>Job</th><th class="c2">Command</th><th class="n">Hosts</th><th>All hosts</th><th class="n">When</th><th /></tr></thead><tbody>{jobs.map((job) => { const [mark, family, said] = jobMark(job); const here = `${jobPath(job)}?host=${q(host.name)}`; return <tr data-row key={job.id} onClick={() => go(here)}><td><span class="st"><Icon is={mark} of={family} /><a class="strong cut jn" href={url(here)}><Text>{nameOf(job)}</Text></a></span></td><td class="m jc cut c2"><Text>{commandOf(job)}</Text></td><td class="n">{num(job.hosts)}</td><td class="ob"><Meter parts={endedBar(job)} total={job.hosts} label={`${num(endedOf(job))} of ${num(job.hosts)} ended, ${said}`} /></td><td class="n"><Time at={job.created_at} as="age" /></td><td class="n"><a class="lnk sm" href={url(here)}>this host</a></td></tr>; })}</tbody></table></div>}</div></section>
        <section class="gapl"><div class="sec"><h2>Facts</h2><span class="sub">{Object.keys(host.facts).length ? "as its agent reported them" : ""}</span></div>{Object.keys(host.facts).length ? <Json value={host.facts} /> : <div class="wrap"><Empty sign="info" title="No facts yet" command={`holdfast run --type facts --hosts ${host.name}`}>The agent reports them when it starts, and when it is asked.</Empty></div>}</section>
      </div><aside class="side">
        <section><h2>About</h2><dl class="kv"><dt>id</dt><dd class="m">{short(host.id)}<Copy text={host.id} name="Copy the id" /></dd><dt>driver</dt><dd>{host.driver}</dd>{host.address && <><dt>address</dt><dd class="m"><Text>{host.address}</Text></dd></>}<dt>project</dt><dd>{host.project}</dd><dt>added</dt><dd><Time at={host.created_at} /></dd><dt>version</dt><dd>{host.version}</dd></dl></section>
        <section><h2>Agent</h2>{host.agent ? <dl class="kv"><dt>heard</dt><dd>{dur(host.agent.seen_seconds_ago, true)} ago</dd><dt>version</dt><dd class="m"><Text>{host.agent.version}</Text></dd><dt>incarnation</dt><dd>{num(host.agent.incarnation)}</dd></dl> : <p class="sub">{host.driver === "agent" ? "None has enrolled." : `Reached by ${host.driver}.`}</p>}</section>
        <section><h2>Groups</h2>{host.groups.length ? <p class="tags">{host.groups.map((group) => <a class="tag line" href={url(`/fleet/hosts?q=${q(`@${group}`)}`)}>@<Text>{group}</Text></a>)}</p> : <p class="sub">In no group.</p>}</section>
        <section><Command>{`holdfast host show ${host.name}`}</Command></section>
      </aside></div>
      {blocking && <AddBlock host={host.name} onClose={() => setBlocking(false)} />}
    </>
  );
}
const capitalWhy = (word: string): string => ({ ready: "Ready", busy: "Busy", cordoned: "Cordoned", "out of reach": "Out of reach", "no agent yet": "No agent yet", removed: "Removed" })[word] ?? word;

// -- groups ------------------------------------------------------------------------------------------

export function Groups(): JSX.Element {
  const loaded = useLoad((signal) => get<Page<HostGroup>>("/groups?limit=200", signal), "groups", LIVE_MS * 2);
  const [editing, setEditing] = useState<HostGroup | "new" | null>(null);
  const rows = loaded.data?.items ?? [];
  return (
    <div class="page"><Title acts={<Button rank="pri" right="hosts.write" name="New group" onClick={() => setEditing("new")}>New group…</Button>} sub="A name for a selector. Its hosts are looked up each time it is used.">{!loaded.data ? "Groups" : rows.length ? plural(rows.length, "group") : "No groups"}</Title><Tabs at="groups" />
      <Shown of={loaded}>{() => rows.length === 0 ? <div class="wrap gap"><Empty sign="nodes" title="No groups" command="holdfast group add web 'role=web'">Give a selector a name, and use it as <code>@name</code> in commands, blocks and rules.</Empty></div> : <div class="wrap gap"><div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>Group</th><th class="n">Hosts</th><th>Selector</th><th class="n">Added</th><th /></tr></thead><tbody>{rows.map((group) => <GroupRow key={group.name} group={group} onEdit={() => setEditing(group)} />)}</tbody></table></div></div>}</Shown>
      {editing && <EditGroup group={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}</div>
  );
}
function GroupRow({ group, onEdit }: { group: HostGroup; onEdit: () => void }): JSX.Element {
  const found = useLoad((signal) => get<Selection>(`/hosts/select?selector=${q(`@${group.name}`)}`, signal), `group ${group.name} ${group.version}`, 15_000);
  return (
    <tr data-row><td class="strong"><a href={url(`/fleet/hosts?q=${q(`@${group.name}`)}`)}>@<Text>{group.name}</Text></a></td><td class="n">{found.data ? num(found.data.count) : found.error ? <span class="bad" title={found.error.message}>cannot be read</span> : ""}</td><td class="m whyc" title={found.data?.folded}><Text>{group.selector}</Text></td><td class="n"><Time at={group.created_at} as="age" /></td>
      <td class="n"><span class="row"><Button small right="hosts.write" name={`Edit ${group.name}`} onClick={onEdit}>Edit…</Button><Button small right="hosts.write" name={`Remove ${group.name}`} onClick={() => confirm({ title: `Remove the group ${group.name}?`, says: "Hosts stay. Blocks and rules that name it can no longer be read: such a block counts for every host.", verb: "Remove the group", keep: "Keep it", path: `/groups/${q(group.name)}`, method: "DELETE", danger: true, right: "hosts.write", done: "The group was removed.", command: `holdfast group remove ${group.name}` })}>Remove…</Button></span></td></tr>
  );
}
function EditGroup({ group, onClose }: { group: HostGroup | null; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(group?.name ?? "");
  const [selector, setSelector] = useState(group?.selector ?? "");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      if (group) await ask("PATCH", `/api/v1/groups/${q(group.name)}`, { selector, expected_version: group.version });
      else await post("/groups", { name, selector });
      toast(group ? "The group was changed." : "The group is there.");
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  return (
    <Dialog label={group ? "Change the group" : "New group"} onClose={onClose}><form class="stack" onSubmit={send}><h2 class="big">{group ? <>Change @<Text>{group.name}</Text></> : "New group"}</h2>
      {!group && <Field label="Name"><input class="inp" required autoFocus value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>}
      <Field label="Selector" help="role=web&env=prod, web-[001-050], @other"><input class="inp m" required spellcheck={false} value={selector} onInput={(event) => setSelector(event.currentTarget.value)} /></Field><Preview selector={selector} />{wrong && <Refused error={wrong} />}
      <div class="row acts"><span class="sp" /><Button onClick={onClose}>Cancel</Button><Button rank="pri" type="submit" right="hosts.write" name="Save">{group ? "Change it" : "Add the group"}</Button></div></form></Dialog>
  );
}
/** The hosts of a selector, as it is typed. */
function Preview({ selector }: { selector: string }): JSX.Element | null {
  const [found, setFound] = useState<Selection | Problem | null>(null);
  useEffect(() => {
    let over = false;
    if (!selector.trim()) return setFound(null);
    const timer = setTimeout(() => void get<Selection>(`/hosts/select?selector=${q(selector)}`).then((one) => !over && setFound(one), (error: Problem) => !over && setFound(error)), 250);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [selector]);
  if (!found) return null;
  if ("code" in found) return <p class="sm bad wrapt" role="status"><Text>{found.message}</Text></p>;
  return <ul class="dry" aria-label="Hosts"><li><Icon is="nodes" of={found.count ? "idle" : "warn"} /><span class="m cut" title={found.folded.slice(0, 2_000)}>{clean(found.folded).slice(0, 300) || "no host"}</span><b>{plural(found.count, "host")}</b></li></ul>;
}

// -- blocks ------------------------------------------------------------------------------------------

const lift = (block: BlockRow): void => confirm({ title: "Lift the block?", says: <>Commands may run on <code><Text>{block.host ?? block.selector ?? "its hosts"}</Text></code> again. {block.effect === "hold" ? { requeue: "What it held goes on, if its time is not over.", drop: "What it held ends.", reapprove: "What it held asks for another approval." }[block.on_lift] ?? "" : ""}</>, verb: "Lift the block", keep: "Keep it", path: `/blocks/${block.id}`, method: "DELETE", right: "blocks.write", done: "The block was lifted.", command: `holdfast block lift ${block.id}` });

export function Blocks(): JSX.Element {
  const show = param("show") === "lifted" ? "lifted" : "";
  const after = param("after");
  const loaded = useLoad((signal) => get<Page<BlockRow>>(withParams("/blocks", { limit: String(PAGE), lifted: show ? "true" : "", after }), signal), `blocks ${show} ${after}`, LIVE_MS);
  const [adding, setAdding] = useState(false);
  const rows = loaded.data?.items ?? [];
  const active = rows.filter((block) => block.active).length;
  const open = param("id");
  return (
    <div class="page"><Title acts={<Button rank="pri" right="blocks.write" name="New block" onClick={() => setAdding(true)}>New block…</Button>} sub="A block keeps commands off hosts. It is checked in the plan, before each start, and by the agent.">{!loaded.data || show ? "Blocks" : rows.length === 0 ? "No blocks" : `${plural(active, "block")} in force`}</Title>
      <div class="row wrapf"><Tabs at="blocks" /><span class="sp" /><Seg label="Which" value={show} options={[["", "Standing"], ["lifted", "Over"]]} onPick={(value) => setParams({ show: value, after: null })} /></div>
      <Shown of={loaded}>{(page) => rows.length === 0 ? <div class="wrap gap"><Empty sign="locks" title={show ? "No block is over" : "No blocks"} command="holdfast block add --host web-007 -m 'disk swap' --expires 2h">During a disk swap or an audit, block the hosts: no job starts there.</Empty></div> : (
        <div class="wrap gap"><div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>State</th><th>Hosts</th><th class="c2">Commands</th><th class="c2">Effect</th><th class="n">{show ? "Over" : "Ends in"}</th><th class="c3">Owner</th><th>Reason</th><th class="n" /></tr></thead><tbody>
          {rows.map((block) => <tr data-row key={block.id} class={open === block.id ? "open" : ""} onClick={() => setParams({ id: open === block.id ? null : block.id })}><td><span class="st"><Icon is={block.lifted_at ? "host-skipped" : block.active ? "host-blocked" : "host-waiting"} of={block.active ? "hold" : "idle"} /><span>{block.lifted_at ? "lifted" : block.active ? "in force" : block.window ? "outside its window" : "over"}</span></span></td><td class="m strong"><Text>{block.host ?? block.selector ?? "a removed host"}</Text></td><td class="m c2">{block.command_type === "*" ? "all" : <Text>{block.command_type}</Text>}</td><td class="c2">{block.effect === "hold" ? "held" : "refused"}</td><td class="n">{show ? <Time at={block.lifted_at ?? block.expires_at} as="age" /> : block.remaining_seconds === null ? "never" : dur(block.remaining_seconds, true)}</td><td class="c3 byc cut"><Text>{person(block.owner)}</Text></td><td class="whyc" title={block.reason}><Text>{block.reason}</Text></td><td class="n">{!block.lifted_at && <Button small right="blocks.write" name={`Lift the block of ${block.host ?? block.selector ?? "hosts"}`} onClick={(event: MouseEvent) => { event.stopPropagation(); lift(block); }}>Lift…</Button>}</td></tr>).flatMap((row, n) => { const block = rows[n]; return block && open === block.id ? [row, <tr class="note" key={`${block.id} more`}><td colSpan={8}><BlockMore block={block} /></td></tr>] : [row]; })}</tbody></table></div>
          {page.next && <p class="tfoot"><span class="sp" /><Button small onClick={() => setParams({ after: page.next }, false)}>Next</Button></p>}</div>
      )}</Shown>
      {adding && <AddBlock onClose={() => setAdding(false)} />}</div>
  );
}
function BlockMore({ block }: { block: BlockRow }): JSX.Element {
  const found = useLoad((signal) => get<Block>(`/blocks/${block.id}`, signal), `block ${block.id} ${block.version}`, 10_000).data;
  const row = (word: string, value: ComponentChildren) => <><dt>{word}</dt><dd>{value}</dd></>;
  return <dl class="kv">{row("hosts", found ? <><b class="strong">{num(found.affects)}</b> <code class="wrapt sub"><Text>{found.folded.slice(0, 600)}</Text></code></> : "…")}{row("running commands", block.on_running === "abort" ? "are ended" : "finish")}{block.effect === "hold" && row("when it is lifted", { requeue: "what it held goes on", drop: "what it held ends", reapprove: "another approval is asked for" }[block.on_lift])}{row("ends", block.expires_at ? time(block.expires_at) : "never")}{block.window && row("window", <code><Text>{`${String(block.window.rrule)} for ${dur(Number(block.window.duration_seconds))}, ${String(block.window.timezone ?? "UTC")}`}</Text></code>)}{block.lifted_at && row("lifted", <><Time at={block.lifted_at} /> by <Text>{person(block.lifted_by)}</Text></>)}{row("id", <span class="m">{block.id}<Copy text={block.id} name="Copy the id" /></span>)}</dl>;
}

function AddBlock({ host = "", onClose }: { host?: string; onClose: () => void }): JSX.Element {
  const [form, setForm] = useState({ selector: host, type: "*", hours: "2", effect: "refuse", running: "finish", lifted: "requeue", reason: "", rrule: "", window: "2", zone: "UTC" });
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post("/blocks", {
        ...(host ? { host } : { selector: form.selector }), command_type: form.type, reason: form.reason, effect: form.effect, on_running: form.running, on_lift: form.lifted,
        ...(Number(form.hours) ? { expires_in_seconds: Number(form.hours) * 3_600 } : {}), ...(form.rrule.trim() ? { window: { rrule: form.rrule.trim(), duration_seconds: Number(form.window) * 3_600, timezone: form.zone } } : {}),
      });
      keepReason(form.reason);
      toast("The block is in force from now on.");
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  return (
    <Dialog label="New block" onClose={onClose}><form class="stack" onSubmit={send}><div><h2 class="big">{host ? <>Block <Text>{host}</Text></> : "New block"}</h2><p class="sub">Jobs that are planned, offered or about to start there are kept off at once.</p></div>
      {!host && <><Field label="Hosts" help="A selector: zone=a, web-[001-010], *"><input class="inp m" required autoFocus spellcheck={false} value={form.selector} onInput={set("selector")} /></Field><Preview selector={form.selector} /></>}
      <div class="two"><Field label="Command types" help="* for all"><input class="inp m" value={form.type} onInput={set("type")} /></Field><Field label="Ends after" help="Empty: never"><span class="inp"><input inputMode="decimal" value={form.hours} onInput={set("hours")} /><span class="u">hours</span></span></Field></div>
      <div class="two"><Field label="What happens to commands"><select class="inp" value={form.effect} onChange={set("effect")}><option value="refuse">refused</option><option value="hold">held until it is lifted</option></select></Field><Field label="Commands that run"><select class="inp" value={form.running} onChange={set("running")}><option value="finish">finish</option><option value="abort">are ended</option></select></Field></div>
      {form.effect === "hold" && <Field label="What it held, when it is lifted"><select class="inp" value={form.lifted} onChange={set("lifted")}><option value="requeue">goes on, if its time is not over</option><option value="drop">ends</option><option value="reapprove">asks for another approval</option></select></Field>}
      <details><summary class="sm sub">Only at certain times</summary><div class="three gap"><Field label="Repeats" help="FREQ=WEEKLY;BYDAY=SA;BYHOUR=22"><input class="inp m" value={form.rrule} onInput={set("rrule")} /></Field><Field label="For"><span class="inp"><input inputMode="decimal" value={form.window} onInput={set("window")} /><span class="u">hours</span></span></Field><Field label="Time zone"><input class="inp" value={form.zone} onInput={set("zone")} /></Field></div></details>
      <Field label="Reason" help="Shown wherever the block is."><input class="inp" required value={form.reason} onInput={set("reason")} /></Field>{wrong && <Refused error={wrong} />}
      <div class="row acts"><span class="sp" /><Button onClick={onClose}>Cancel</Button><Button rank="pri" type="submit" right="blocks.write" name="Add the block" busy={busy}>Add the block</Button></div></form></Dialog>
  );
}
