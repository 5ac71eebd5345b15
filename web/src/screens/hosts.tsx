// Hosts of the fleet and the blocks that keep commands off them.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, q, type Page, type Problem } from "../lib/api";
import { dur, num, person, plural } from "../lib/format";
import type { Block, Host } from "../lib/fleet";
import { pulse } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams, url, withParams } from "../lib/place";
import { Refused } from "../ui/act";
import { confirm } from "../ui/confirm";
import { Icon, type Family, type Sign } from "../ui/marks";
import { Button, Command, Dialog, Empty, Field, Json, scrollable, Shown, Text, Title, toast } from "../ui/parts";

function hostState(host: Host): [string, Sign, Family] {
  if (host.state === "gone") return ["gone", "host-skipped", "idle"];
  if (host.state === "cordoned") return ["cordoned", "host-blocked", "idle"];
  if (host.slot) return ["busy", "host-running", "work"];
  if (host.agent && !host.agent.live) return ["out of reach", "host-unreachable", "warn"];
  if (!host.agent && host.driver === "agent") return ["no agent yet", "host-unreachable", "idle"];
  return ["ready", "host-success", "good"];
}

export function Hosts(): JSX.Element {
  const text = param("q");
  const after = param("after");
  const filter = /[=@!&*[\]~]/.test(text) ? `&selector=${q(text)}` : text ? `&q=${q(text)}` : "";
  const loaded = useLoad((signal) => get<Page<Host>>(`/hosts?limit=100${filter}${after ? `&after=${q(after)}` : ""}`, signal), `hosts ${text} ${after}`, 1_000);
  const name = param("name");
  const rows = loaded.data?.items ?? [];
  return (
    <div class={name ? "split" : "one"}><div class="page">
      <Title acts={<><a class="btn" href={url("/fleet/blocks")}>Blocks</a><a class="btn pri" href={url(withParams("/fleet/new", { selector: text && filter.startsWith("&selector") ? text : "" }))}>New command</a></>} sub="What a command can run on.">{!loaded.data ? "Hosts" : rows.length === 0 && !text ? "No hosts" : `${num(rows.length)}${loaded.data.next ? "+" : ""} hosts`}</Title>
      <div class="row"><div class="q"><Icon is="search" of="dim" /><input data-search key={text} defaultValue={text} placeholder="part of a name, or a selector: site=fra1 & role=web" aria-label="Search hosts" spellcheck={false} onChange={(event) => setParams({ q: event.currentTarget.value, after: null }, false)} /><kbd class="k">/</kbd></div></div>
      <Shown of={loaded}>{(page) => rows.length === 0 ? <div class="wrap gap"><Empty sign="nodes" title={text ? "No host matches" : "No hosts"} command="holdfast host list">Import an inventory, or let agents enrol with a join token.</Empty></div> : (
        <div class="wrap gap scroll" ref={scrollable}><table class="t"><thead><tr><th>Host</th><th>State</th><th>Driver</th><th class="n">Heard</th><th class="whyc">Labels</th></tr></thead><tbody>
          {rows.map((host) => { const [word, sign, of] = hostState(host); return <tr data-row class={host.name === name ? "open" : ""} onClick={() => setParams({ name: host.name === name ? null : host.name })}><td><a class="strong" href={url(withParams("/fleet/hosts", { q: text, name: host.name }))}><Text>{host.name}</Text></a></td><td><span class="st"><Icon is={sign} of={of} /><span>{word}</span></span></td><td>{host.driver}</td><td class="n">{host.agent ? dur(host.agent.seen_seconds_ago, true) : <span class="dim">–</span>}</td><td class="whyc"><Text>{Object.entries(host.labels).map(([key, value]) => `${key}=${value}`).join(" ")}</Text></td></tr>; })}</tbody></table>
          <div class="tfoot"><span class="sp" /><Button small off={after ? undefined : "This is the first page."} onClick={() => history.back()}>Before</Button><Button small off={page.next ? undefined : "There are no more."} onClick={() => setParams({ after: page.next }, false)}>Next</Button></div></div>
      )}</Shown></div>
      {name && <HostSheet key={name} name={name} />}
    </div>
  );
}

function HostSheet({ name }: { name: string }): JSX.Element {
  const loaded = useLoad((signal) => get<Host>(`/hosts/${q(name)}`, signal), `host ${name}`, 1_000);
  return (
    <aside class="sheet" aria-label={name}><div class="row top"><div class="min"><h2 class="big cut"><Text>{name}</Text></h2></div><span class="sp" /><button type="button" class="x" aria-label="Close" onClick={() => setParams({ name: null })}><Icon is="close" /></button></div>
      <Shown of={loaded} rows={4}>{(host) => { const cordoned = host.state === "cordoned"; return <>
        <div class="row wrapf gap"><Button right="hosts.write" name={cordoned ? "Admit" : "Cordon"} onClick={() => confirm({ title: `${cordoned ? "Admit" : "Cordon"} ${name}?`, says: cordoned ? "Jobs may choose it again." : "New jobs leave it out. What runs goes on.", verb: cordoned ? "Admit the host" : "Cordon the host", keep: "Leave it", path: `/hosts/${q(name)}`, method: "PATCH", body: { state: cordoned ? "active" : "cordoned", expected_version: host.version }, needsReason: true, right: "hosts.write", done: "The host was changed." })}>{cordoned ? "Admit…" : "Cordon…"}</Button><a class="btn" href={url(withParams("/fleet/new", { selector: name }))}>Run on it</a></div>
        <dl class="kv gap"><dt>state</dt><dd>{hostState(host)[0]}</dd><dt>driver</dt><dd>{host.driver}</dd><dt>address</dt><dd class="m"><Text>{host.address || "–"}</Text></dd><dt>agent</dt><dd>{host.agent ? `${host.agent.version}, heard ${dur(host.agent.seen_seconds_ago, true)} ago` : "–"}</dd><dt>groups</dt><dd>{host.groups?.join(", ") || "–"}</dd><dt>blocks</dt><dd>{host.blocks?.length ? <a class="lnk" href={url("/fleet/blocks")}>{plural(host.blocks.length, "block")}</a> : "none"}</dd><dt>version</dt><dd>{host.version}</dd></dl>
        <div class="sec"><h2>Labels</h2></div><Json value={host.labels} />{host.facts && Object.keys(host.facts).length > 0 && <><div class="sec"><h2>Facts</h2></div><Json value={host.facts} /></>}
        <div class="gap"><Command>{`holdfast host show ${name}`}</Command></div></>; }}</Shown></aside>
  );
}

export function Blocks(): JSX.Element {
  const loaded = useLoad((signal) => get<Page<Block>>("/blocks?limit=200", signal), "blocks", 1_000);
  const [adding, setAdding] = useState(false);
  const rows = loaded.data?.items ?? [];
  const active = rows.filter((block) => block.active).length;
  return (
    <div class="page"><Title acts={<Button rank="pri" right="blocks.write" name="New block" onClick={() => setAdding(true)}>New block…</Button>} sub="A block keeps commands off hosts, whoever asks.">{!loaded.data ? "Blocks" : rows.length === 0 ? "No blocks" : `${plural(active, "block")} ${active === 1 ? "counts" : "count"} now`}</Title>
      <Shown of={loaded}>{() => rows.length === 0 ? <div class="wrap"><Empty sign="locks" title="No blocks" command="holdfast block list">During a disk swap or an audit, block the hosts: no job starts there.</Empty></div> : (
        <div class="wrap scroll" ref={scrollable}><table class="t"><thead><tr><th>Hosts</th><th>State</th><th>Commands</th><th class="c2">Effect</th><th class="n">Ends in</th><th class="whyc">Reason</th><th class="n" /></tr></thead><tbody>
          {rows.map((block) => <tr data-row><td class="m strong"><Text>{block.host ?? block.selector ?? ""}</Text></td><td><span class="st"><Icon is={block.active ? "host-blocked" : "host-waiting"} of={block.active ? "hold" : "idle"} /><span>{block.active ? "counts" : "not now"}</span></span></td><td class="m"><Text>{block.command_type}</Text></td><td class="c2">{block.effect}</td><td class="n">{block.remaining_seconds === null ? "never" : dur(block.remaining_seconds, true)}</td><td class="whyc"><Text>{`${person(block.owner)}: ${block.reason}`}</Text></td><td class="n"><Button small right="blocks.write" name="Lift" onClick={() => confirm({ title: "Lift the block?", says: `Commands may run on ${block.host ?? block.selector ?? "its hosts"} again. What it held back: ${block.on_lift}.`, verb: "Lift the block", keep: "Keep it", path: `/blocks/${block.id}`, method: "DELETE", right: "blocks.write", done: "The block was lifted." })}>Lift…</Button></td></tr>)}</tbody></table></div>
      )}</Shown>
      {adding && <AddBlock onClose={() => setAdding(false)} />}</div>
  );
}

function AddBlock({ onClose }: { onClose: () => void }): JSX.Element {
  const [form, setForm] = useState({ selector: "", type: "*", hours: "2", effect: "refuse", reason: "" });
  const [wrong, setWrong] = useState<Problem | null>(null);
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      await post("/blocks", { selector: form.selector, command_type: form.type, reason: form.reason, effect: form.effect, ...(Number(form.hours) ? { expires_in_seconds: Number(form.hours) * 3_600 } : {}) });
      toast("The block counts from now on.");
      pulse.value += 1;
      onClose();
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  return (
    <Dialog label="New block" onClose={onClose}><form class="stack" onSubmit={send}><h2 class="big">New block</h2>
      <Field label="Hosts" help="A selector: site=fra1, web-[001-010], *"><input class="inp m" required autoFocus value={form.selector} onInput={set("selector")} /></Field>
      <div class="two"><Field label="Command types" help="* for all"><input class="inp m" value={form.type} onInput={set("type")} /></Field><Field label="Ends after" help="Empty: never"><span class="inp"><input inputMode="decimal" value={form.hours} onInput={set("hours")} /><span class="u">hours</span></span></Field></div>
      <Field label="What happens to commands"><select class="inp" value={form.effect} onChange={set("effect")}><option value="refuse">refused</option><option value="hold">held until it is lifted</option></select></Field>
      <Field label="Reason"><input class="inp" required value={form.reason} onInput={set("reason")} /></Field>{wrong && <Refused error={wrong} />}
      <div class="row acts"><span class="sp" /><Button onClick={onClose}>Cancel</Button><Button rank="pri" type="submit" right="blocks.write" name="Add the block">Add the block</Button></div></form></Dialog>
  );
}
