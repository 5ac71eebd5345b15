// Settings: doctor first, then tokens, roles, projects and what runs.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { everywhere, get, may, missing, post, who, type Page, type Problem } from "../lib/api";
import { dur, num, person, plural, time, until } from "../lib/format";
import { pulse } from "../lib/live";
import { useLoad } from "../lib/load";
import { place, url } from "../lib/place";
import type { Project, Token } from "../lib/types";
import { Refused } from "../ui/act";
import { confirm } from "../ui/confirm";
import { Icon, type Family, type Sign } from "../ui/marks";
import { Button, Command, Copy, Dialog, Empty, Field, Shown, Text, Time, Title, scrollable } from "../ui/parts";

const TABS: [string, string, Sign][] = [["", "Doctor", "overview"], ["tokens", "Tokens", "key"], ["roles", "Roles", "person"], ["projects", "Projects", "queues"], ["about", "About", "info"]];

export function Settings({ tab }: { tab: string }): JSX.Element {
  return (
    <div class="setg"><nav class="subnav" aria-label="Settings">{TABS.map(([name, word, sign]) => <a href={url(`/settings${name ? `/${name}` : ""}`)} aria-current={tab === name ? "page" : undefined}><Icon is={sign} />{word}</a>)}</nav>
      <div class="page">{tab === "tokens" ? <Tokens /> : tab === "roles" ? <Roles /> : tab === "projects" ? <Projects /> : tab === "about" ? <About /> : <DoctorPage />}</div></div>
  );
}

interface Check { name: string; level: string; text: string }
const LEVEL: Record<string, [Sign, Family]> = { ok: ["completed", "good"], warn: ["stuck", "warn"], fail: ["failed", "bad"], error: ["failed", "bad"] };
const FIX: Record<string, [string, string]> = { "dead letters": ["/dead-letters", "Open dead letters"], pauses: ["/queues", "Open queues"], nodes: ["/nodes", "Open nodes"], waiting: ["/queues", "Open queues"], schedules: ["/schedules", "Open schedules"], types: ["/nodes", "Open nodes"], handlers: ["/nodes", "Open nodes"] };
const CHECK_MS = 30_000;
function DoctorPage(): JSX.Element {
  const loaded = useLoad(!everywhere() ? null : async (signal) => ({ items: (await get<Page<Check>>("/doctor", signal)).items, at: new Date().toISOString() }), "doctor page", CHECK_MS);
  if (!everywhere()) return <><Title>Doctor</Title><div class="wrap"><Empty sign="overview" title="Doctor looks at all projects">Your token counts in {who.value?.projects.join(", ")} only.</Empty></div></>;
  const items = loaded.data?.items ?? [];
  const bad = items.filter((check) => LEVEL[check.level]?.[1] === "bad").length;
  const look = items.filter((check) => check.level === "warn").length;
  const rank = (check: Check) => ["bad", "warn", "good"].indexOf(LEVEL[check.level]?.[1] ?? "good");
  return (
    <><Title acts={<Button rank="pri" onClick={loaded.reload}>Check now</Button>} sub={loaded.data ? `${plural(items.length, "check")}, looked at ${time(loaded.data.at)}. A check never changes anything.` : undefined}>{!loaded.data ? "Doctor" : bad ? `${plural(bad, "thing")} ${bad === 1 ? "is" : "are"} broken` : `Nothing is broken${look ? `, ${plural(look, "thing")} to look at` : ""}`}</Title>
      <Shown of={loaded}>{() => <ul class="wrap doctor">{[...items].sort((a, b) => rank(a) - rank(b)).map((check) => { const [sign, of] = LEVEL[check.level] ?? ["queued", "idle"]; const fix = check.level === "ok" ? undefined : FIX[check.name]; return <li class={check.level === "ok" ? "" : "odd"}><Icon is={sign} of={of} /><b class="strong">{check.name}</b><span class={check.level === "ok" ? "sub" : ""}><Text>{check.text}</Text></span>{fix && <a class="btn sm" href={url(fix[0])}>{fix[1]}</a>}</li>; })}</ul>}</Shown>
      <div class="gap"><Command>holdfast doctor</Command></div></>
  );
}

function Tokens(): JSX.Element {
  const off = missing("tokens.manage", "Managing tokens");
  const loaded = useLoad(may("tokens.manage") ? (signal) => get<Page<Token>>("/tokens?limit=200", signal) : null, "tokens", 1_000);
  const [adding, setAdding] = useState(false);
  if (off) return <><Title>Tokens</Title><div class="wrap"><Empty sign="key" title="Tokens are for administrators">{off}</Empty></div></>;
  const rows = [...(loaded.data?.items ?? [])].sort((a, b) => (b.last_used_at ?? b.created_at).localeCompare(a.last_used_at ?? a.created_at));
  const live = rows.filter((token) => token.state === "valid");
  return (
    <><Title acts={<Button rank="pri" onClick={() => setAdding(true)}>New token…</Button>} sub="Only their hash is kept. A session of a browser is a token too.">{loaded.data ? `${plural(live.length, "token")} ${live.length === 1 ? "counts" : "count"}` : "Tokens"}</Title>
      <Shown of={loaded}>{() => rows.length === 0 ? <div class="wrap"><Empty sign="key" title="No tokens" command="holdfast token create NAME --role operator" /></div> : (
        <div class="wrap scroll" ref={scrollable}><table class="t"><thead><tr><th>Token</th><th>Kind</th><th>May</th><th class="c2">Projects</th><th class="n">Used</th><th class="n">Ends</th><th class="n" /></tr></thead><tbody>
          {rows.map((token) => <tr data-row><td><b class="strong"><Text>{token.name}</Text></b> <span class="m dim">…{token.id.slice(-4)}</span>{token.id === who.value?.token_id && <span class="tag person">this browser</span>}</td><td>{token.kind}</td><td><span class="tags">{token.roles.map((role) => <span class="tag line">{role}</span>)}</span></td><td class="c2"><Text>{token.projects.join(", ")}</Text></td><td class="n">{token.last_used_at ? <Time at={token.last_used_at} as="age" /> : <span class="dim">never</span>}</td><td class="n">{token.state !== "valid" ? <span class="dim">{token.state}</span> : token.expires_at ? `in ${dur(until(token.expires_at), true)}` : <span class="warn">never</span>}</td>
            <td class="n">{token.state === "valid" && <Button small rank="dan" name={`Revoke ${token.name}`} onClick={() => confirm({ title: `Revoke ${token.name}?`, says: token.id === who.value?.token_id ? "It is the session of this browser: you are logged out." : `Requests of ${person(token.principal)} with it are refused at once; its open connections end.`, verb: "Revoke the token", keep: "Keep it", path: `/tokens/${token.id}`, method: "DELETE", danger: true, right: "tokens.manage", done: "The token counts no more.", command: `holdfast token revoke ${token.id}` })}>Revoke…</Button>}</td></tr>)}</tbody></table></div>
      )}</Shown>
      {adding && <NewToken onClose={() => setAdding(false)} />}</>
  );
}

const ROLES = ["viewer", "operator", "approver", "admin"];
function NewToken({ onClose }: { onClose: () => void }): JSX.Element {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState<string[]>(["viewer"]);
  const [days, setDays] = useState("90");
  const [made, setMade] = useState<string | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      const answer = await post<Token>("/tokens", { name, roles, ...(Number(days) ? { expires_in_seconds: Number(days) * 86_400 } : {}) });
      setMade(answer.token ?? "");
      pulse.value += 1;
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  return (
    <Dialog label="New token" onClose={onClose}><form class="stack" onSubmit={send}><div><h2 class="big">{made ? "Copy it now" : "New token"}</h2><p class="sub">{made ? "It is not shown again; the store has its hash." : "For one person or one program."}</p></div>
      {made ? <code class="well one">{made}<Copy text={made} /></code> : <><div class="two"><Field label="Name"><input class="inp" required value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field><Field label="Ends after" help="Empty: never"><span class="inp"><input inputMode="numeric" value={days} onInput={(event) => setDays(event.currentTarget.value)} /><span class="u">days</span></span></Field></div>
        <fieldset class="roles"><legend class="lab">Roles</legend>{ROLES.map((role) => <label><input type="checkbox" checked={roles.includes(role)} onChange={() => setRoles(roles.includes(role) ? roles.filter((one) => one !== role) : [...roles, role])} />{role}</label>)}</fieldset>{wrong && <Refused error={wrong} />}</>}
      <div class="row acts"><span class="sp" /><Button onClick={onClose}>{made ? "Close" : "Cancel"}</Button>{!made && <Button rank="pri" type="submit" right="tokens.manage" name="Make the token">Make the token</Button>}</div></form></Dialog>
  );
}

const TABLE: [string, string][] = [
  ["read tasks, output, events, stats", "viewer operator approver admin worker"], ["submit, edit, copy tasks", "operator admin worker"],
  ["abort, pause, resume, retry, reassign, release", "operator admin"], ["force a status", "admin"], ["pause queues; replay, discard; operations", "operator admin"],
  ["cordon, drain, quarantine, revoke nodes", "operator admin"], ["revoke locks; settle conflicts; write schedules", "operator admin"], ["decide", "approver admin"],
  ["create and control jobs", "operator admin"], ["approve jobs, never the one who asked", "approver admin"], ["tokens, projects, audit", "admin"],
];
function Roles(): JSX.Element {
  const names = ["viewer", "operator", "approver", "admin", "worker"];
  return (
    <><Title sub="They add up; what is not said is refused. The server checks each call.">Roles</Title><div class="wrap scroll" ref={scrollable}><table class="t"><thead><tr><th>May</th>{names.map((name) => <th class="ctr">{name}</th>)}</tr></thead><tbody>{TABLE.map(([what, who]) => <tr><td>{what}</td>{names.map((name) => <td class="ctr">{who.split(" ").includes(name) ? <><Icon is="check" size={12} /><span class="vh">yes</span></> : <span class="dim">–</span>}</td>)}</tr>)}</tbody></table></div>
      <p class="sub gap">You are <b class="strong">{who.value?.roles.join(", ")}</b>, in {who.value?.projects.includes("all") ? "all projects" : who.value?.projects.join(", ")}.</p></>
  );
}

function Projects(): JSX.Element {
  const loaded = useLoad((signal) => get<Page<Project>>("/projects", signal), "projects page", 2_000);
  return (
    <><Title sub="A project isolates its tasks, and says how conflicts of its nodes are settled.">{loaded.data ? plural(loaded.data.items.length, "project") : "Projects"}</Title><Shown of={loaded}>{(page) => <div class="wrap scroll" ref={scrollable}><table class="t"><thead><tr><th>Project</th><th>Conflicts</th><th class="n">Clock</th><th class="n">Version</th><th class="whyc">Exceptions</th></tr></thead><tbody>{page.items.map((project) => <tr><td><a class="strong" href={url(`/sync?project=${encodeURIComponent(project.id)}`)}><Text>{project.id}</Text></a></td><td>{project.strategy}</td><td class="n m">{num(project.clock)}</td><td class="n">{project.version}</td><td class="whyc m"><Text>{Object.entries(project.overrides).map(([type, strategy]) => `${type}: ${strategy}`).join(", ") || "–"}</Text></td></tr>)}</tbody></table></div>}</Shown></>
  );
}

function About(): JSX.Element {
  const loaded = useLoad((signal) => get<{ version: string; now: string }>("/about", signal), "about", 10_000);
  return (
    <><Title sub="Holdfast sends nothing anywhere.">About</Title><Shown of={loaded}>{(about) => <div class="wrap"><dl class="kv in"><dt>version</dt><dd>{about.version}</dd><dt>store's time</dt><dd class="m">{about.now}</dd><dt>API</dt><dd><a class="lnk" href={url("/openapi.json")} target="_blank">openapi.json</a>, <a class="lnk" href={url("/asyncapi.json")} target="_blank">asyncapi.json</a></dd><dt>you</dt><dd>{person(who.value?.name)}</dd><dt>here</dt><dd class="m">{location.origin}{place.value.path && ""}</dd></dl></div>}</Shown></>
  );
}
