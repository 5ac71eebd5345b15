// Events and audit: the feed by position with one event open, and the chain of what people did.
import { json } from "../lib/exact";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, may, Problem, q, type Page } from "../lib/api";
import { clean, num, person, plural, short, time } from "../lib/format";
import { about, by, markOf, subject } from "../lib/history";
import { paused, watch } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams, url } from "../lib/place";
import type { AuditRow, Event } from "../lib/types";
import { Icon, type Sign } from "../ui/marks";
import { ACTS, EVENTS, QueryBar } from "../ui/query";
import { Button, Command, Copy, Empty, Json, Seg, Shown, Text, Time, Title, scrollable } from "../ui/parts";

type Tab = "feed" | "audit";
export function Events(): JSX.Element {
  const tab = (param("tab") || "feed") as Tab;
  const pick = <Seg label="Which" value={tab} onPick={(value) => setParams({ tab: value === "feed" ? null : value, at: null, before: null, q: null, after: null, open: null })} options={[["feed", "Feed"], ["audit", "Audit"]]} />;
  return tab === "audit" ? <Audit pick={pick} /> : <Feed pick={pick} />;
}

const PAGE = 60;
/** What a group of kinds is in the grammar. */
const GROUPS: [string, string, string][] = [
  ["", "All", ""],
  ["main", "Without progress", "-kind:task.progress,task.output,task.metrics"],
  ["fail", "Failures", "kind:task.failed,task.dead,task.lost,task.late,task.stuck,node.lost,node.fenced,intervention.refused,intervention.expired"],
  ["people", "People", "kind:decision.*,intervention.*,conflict.*,token.*,task.paused,task.aborted,task.forced,task.resumed,task.held,queue.paused,queue.resumed,node.state,lock.revoked,checkpoint.hitl_required"],
  ["system", "System", "-kind:task.*,checkpoint.*"],
];

const offsetOf = (position: string): number => Number(position.split(":")[1] ?? 0);

function Feed({ pick }: { pick: JSX.Element }): JSX.Element {
  const group = param("kinds");
  const asked = param("q");
  const kinds = GROUPS.find(([name]) => name === group)?.[2];
  const query = asked && kinds ? `(${asked}) ${kinds}` : asked || kinds || "";
  const before = param("before");
  const at = param("at");
  const follow = !before && !at;
  const loaded = useLoad((signal) => {
    const from = at ? `${at.split(":")[0]}:${offsetOf(at) + PAGE / 2}` : before || "head";
    return get<Page<Event> & { oldest: string; head: string }>(`/events?limit=${PAGE}&before=${q(from)}&q=${q(query)}`, signal);
  }, `events ${query} ${before} ${at}`, 400);
  const wrong = loaded.error?.body.at === undefined ? undefined : loaded.error;
  const bad = wrong && new Problem(wrong.code, wrong.message, wrong.status, { ...wrong.body, at: Number(wrong.body.at) - (asked && kinds ? 1 : 0) });
  const [fresh, setFresh] = useState<Set<string>>(new Set());
  const seen = useRef("");
  useEffect(() => watch("system:events", () => undefined), []);
  useEffect(() => {
    const rows = loaded.data?.items ?? [];
    const last = seen.current;
    if (last && follow && !paused.peek()) setFresh(new Set(rows.filter((event) => offsetOf(event.position) > offsetOf(last)).map((event) => event.position)));
    if (rows[0]) seen.current = rows[0].position;
  }, [loaded.data?.items[0]?.position]);
  const open = loaded.data?.items.find((event) => event.position === param("open")) ?? (at ? loaded.data?.items.find((event) => event.position === at) : undefined);
  const head = loaded.data ? offsetOf(loaded.data.head) : 0;
  return (
    <div class={open ? "split" : "one"}>
      <div class="page">
        <Title acts={pick} sub={loaded.data ? `Epoch ${loaded.data.head.split(":")[0]}, positions without a gap. The oldest that is kept is ${num(offsetOf(loaded.data.oldest))}.` : undefined}>{loaded.data ? `${num(head)} events, none missing` : "Events"}</Title>
        <div class="row"><QueryBar value={asked} keys={EVENTS} example="subject:mail.* actor:~ann age:<1h" onSearch={(text) => setParams({ q: text || null, before: null, at: null, open: null }, false)} label="Search events" error={bad} /></div>
        <div class="row wrapf gap"><Seg label="Kinds" value={group} onPick={(value) => setParams({ kinds: value, before: null })} options={GROUPS.map(([name, word]) => [name, word])} /><span class="sp" />
          {!follow && <Button onClick={() => setParams({ before: null, at: null, open: null })}>To the newest</Button>}</div>
        {bad ? <div class="wrap gap"><Empty sign="search" title="The search cannot be read"><Text>{bad.message}</Text></Empty></div> : <Shown of={loaded}>{({ items: rows, next }) => rows.length === 0 ? <div class="wrap gap"><Empty sign="events" title={next ? "No such event among these 10,000" : "No such event is kept"} act={next ? <Button onClick={() => setParams({ before: next, at: null }, false)}>Look further back</Button> : undefined} /></div> : (
          <div class="wrap gap"><div class="scroll" ref={scrollable}><table class="t ev-t"><thead><tr><th class="n c2">Position</th><th>Time</th><th>Kind</th><th>About</th><th class="whyc c2">What</th><th class="c2">By</th></tr></thead><tbody>
            {rows.map((event) => {
              const [sign, of] = markOf(event.kind);
              return (
                <tr key={event.position} data-row class={`${event === open ? "open" : ""} ${fresh.has(event.position) ? "flash" : ""}`} onClick={(click) => !(click.target as HTMLElement).closest("a") && setParams({ open: event === open ? null : event.position, at: null })}>
                  <td class="n m dim c2">{num(offsetOf(event.position))}</td><td class="m dim"><Time at={event.at} /></td><td class="m"><span class="st"><Icon is={sign as Sign} of={of} /><span>{event.kind}</span></span></td>
                  <td>{event.task_id ? <a class="strong" href={url(`/tasks/${event.task_id}`)}><Text>{event.type ?? ""}</Text> <span class="m dim">{short(event.task_id)}</span></a> : <b class="strong cut"><Text>{subject(event)}</Text></b>}</td><td class="whyc c2" title={clean(about(event))}><Text>{about(event)}</Text></td><td class="c2 sub cut byc"><Text>{by(event)}</Text></td></tr>
              );
            })}</tbody></table></div>
            <div class="tfoot"><span>{num(offsetOf(rows.at(-1)?.position ?? ""))} to {num(offsetOf(rows[0]?.position ?? ""))}, newest first</span><span class="dim">{Math.round(loaded.ms)} ms</span><span class="sp" /><Button small off={follow ? "This is the newest page." : undefined} onClick={() => history.back()}>Newer</Button><Button small off={next ? undefined : "Nothing older is kept."} onClick={() => setParams({ before: next, at: null }, false)}>Older</Button></div></div>
        )}</Shown>}
      </div>
      {open && <EventSheet key={open.position} event={open} />}
    </div>
  );
}

function EventSheet({ event }: { event: Event }): JSX.Element {
  const [sign, of] = markOf(event.kind);
  const chain = useLoad(event.task_id ? (signal) => get<Page<Event>>(`/tasks/${event.task_id}/history`, signal) : null, `chain ${event.task_id}`, 5_000).data?.items ?? [];
  const index = chain.findIndex((one) => one.position === event.position);
  const around = index < 0 ? [] : chain.slice(Math.max(0, index - 3), index + 4);
  return (
    <aside class="sheet" aria-label={event.kind}>
      <div class="row"><span class="m dim">{event.position}</span><Copy text={event.position} name="Copy the position" /><span class="sp" /><button type="button" class="x" aria-label="Close" onClick={() => setParams({ open: null, at: null })}><Icon is="close" /></button></div>
      <h2 class="big row"><Icon is={sign as Sign} of={of} />{event.kind}</h2><p class="sub"><Text>{subject(event)}</Text> · {time(event.at)}{by(event) ? <> · <Text>{by(event)}</Text></> : null}</p>
      {around.length > 0 && <><div class="sec"><h2>Before and after</h2><span class="sub">of this task</span></div><ol class="chain">{around.map((one) => { const [s, f] = markOf(one.kind); return <li aria-current={one.position === event.position ? "true" : undefined}><Icon is={s as Sign} of={f} /><b>{one.kind}</b><p class="s"><Text>{one.position === event.position ? "this one" : `${num(offsetOf(one.position))} · ${about(one)}`}</Text></p></li>; })}</ol></>}
      <div class="sec"><h2>Event</h2><span class="sp" /><Copy text={json(event)} name="Copy the event" /></div><Json value={event.data} />
      <dl class="kv gap"><dt>version</dt><dd>{event.version ?? "–"}</dd><dt>project</dt><dd>{event.project ?? "–"}</dd>{event.task_id && <><dt>task</dt><dd class="m"><a href={url(`/tasks/${event.task_id}`)}>{short(event.task_id)}</a></dd></>}</dl>
      <div class="gap"><Command>{`holdfast events tail --after ${event.position.split(":")[0]}:${offsetOf(event.position) - 1}`}</Command></div>
    </aside>
  );
}

const PLACES: [RegExp, string, string][] = [[/^[0-9a-f]{8}-/, "task", "/tasks/"], [/^job_/, "job", "/fleet/jobs/"], [/^op_/, "operation", "/operations/"], [/^dec_/, "decision", "/inbox/"], [/^con_/, "conflict", "/conflicts/"]];
/** The page of what an act was on, if it has one. */
const placeOf = (subject: string): string | undefined => PLACES.filter(([mark]) => mark.test(subject)).map(([, , path]) => path + subject)[0];
const NAME_MAX = 24;
/** Acts that a search reads at once. */
const SEARCHED = 500;
/** What an act was on: its name, or its kind and the end of its id, as lists show ids. */
function Subject({ of }: { of: string }): JSX.Element {
  if (!of) return <span class="dim">–</span>;
  const kind = PLACES.find(([mark]) => mark.test(of))?.[1] ?? (of.length > NAME_MAX ? /^[a-z]+(?=_)/.exec(of)?.[0] : undefined);
  return kind ? <span title={of}>{kind} <span class="dim">{short(of)}</span></span> : <span class="cut" title={clean(of)}><Text>{of}</Text></span>;
}
interface Verified { ok: boolean; rows: number; head: string; first_wrong: number | null }
function Audit({ pick }: { pick: JSX.Element }): JSX.Element {
  const after = param("after");
  const asked = param("q");
  const allowed = may("audit.read");
  const loaded = useLoad(allowed ? (signal) => get<Page<AuditRow>>(`/audit?limit=${asked ? SEARCHED : PAGE}${after ? `&after=${q(after)}` : ""}${asked ? `&q=${q(asked)}` : ""}`, signal) : null, `audit ${after} ${asked}`, 1_000);
  const bad = loaded.error?.body.at !== undefined ? loaded.error : undefined;
  const [checked, setChecked] = useState<(Verified & { at: string }) | null>(null);
  const verify = () => void get<Verified>("/audit/verify").then((found) => setChecked({ ...found, at: new Date().toISOString() })).catch(() => undefined);
  useEffect(() => {
    if (allowed) verify();
  }, [allowed]);
  const open = loaded.data?.items.find((row) => String(row.seq) === param("open"));
  return (
    <div class={open ? "split" : "one"}>
      <div class="page"><Title acts={pick} sub="Every act of a person, written in the transaction of the act.">Audit</Title>
        {!allowed ? <div class="wrap"><Empty sign="key" title="The audit is for administrators">Reading it needs the role admin.</Empty></div> : <>
          {checked && <div class="verif"><Icon is={checked.ok ? "completed" : "failed"} of={checked.ok ? "good" : "bad"} size={20} /><div class="min"><p class="strong">{checked.ok ? `The chain is whole, ${plural(checked.rows, "row")}` : `The chain breaks at row ${num(checked.first_wrong ?? 0)}`} <span class="sub">at {time(checked.at)}</span></p><p class="m dim cut">head {checked.head.slice(0, 32)}</p></div><span class="sp" /><Copy text={checked.head} name="Copy the head" /><Button onClick={verify}>Verify again</Button></div>}
          <div class="row gap"><QueryBar value={asked} keys={ACTS} example="actor:~ann operation:tokens.* age:<7d" onSearch={(text) => setParams({ q: text || null, after: null, open: null }, false)} label="Search the audit" error={bad} /></div>
          {bad ? <div class="wrap gap"><Empty sign="search" title="The search cannot be read"><Text>{bad.message}</Text></Empty></div> : <Shown of={loaded}>{(page) => page.items.length === 0 ? <div class="wrap gap"><Empty sign="chain" title={asked ? page.next ? "No such act among these 10,000" : "No such act" : "No act yet"} act={page.next ? <Button onClick={() => setParams({ after: page.next }, false)}>Look further back</Button> : undefined} /></div> : (
            <div class="wrap gap"><div class="scroll" ref={scrollable}><table class="t"><thead><tr><th class="n c2">Row</th><th>At</th><th>Who</th><th>Act</th><th class="c2">On</th><th class="c2">Version</th><th class="whyc c2">Reason</th></tr></thead><tbody>
              {page.items.map((row) => <tr data-row class={row === open ? "open" : ""} onClick={() => setParams({ open: row === open ? null : String(row.seq) })}><td class="n m dim c2">{num(row.seq)}</td><td><Time at={row.at} /></td><td><b class="strong"><Text>{person(row.actor)}</Text></b></td><td><span class="m">{row.operation}</span><span class="onph sm sub"><Subject of={row.subject} />{row.reason ? <>: <Text>{row.reason}</Text></> : null}</span></td><td class="m c2"><Subject of={row.subject} /></td><td class="c2 m">{row.after_version !== null ? `${row.before_version ?? 0} → ${row.after_version}` : "–"}</td><td class="whyc c2"><Text>{row.reason}</Text></td></tr>)}</tbody></table></div>
              <div class="tfoot"><span class="sp" /><Button small off={after ? undefined : "This is the newest page."} onClick={() => history.back()}>Newer</Button><Button small off={page.next ? undefined : "There are no older ones."} onClick={() => setParams({ after: page.next }, false)}>Older</Button></div></div>
          )}</Shown>}</>}
      </div>
      {open && <aside class="sheet" aria-label={`Row ${open.seq}`}><div class="row"><h2 class="big">Row {num(open.seq)}</h2><span class="tag good"><Icon is="chain" size={12} />in the chain</span><span class="sp" /><button type="button" class="x" aria-label="Close" onClick={() => setParams({ open: null })}><Icon is="close" /></button></div>
        <dl class="kv gap"><dt>who</dt><dd><Text>{open.actor}</Text></dd><dt>act</dt><dd class="m">{open.operation}</dd><dt>on</dt><dd class="m wrapt"><Text>{open.subject || "–"}</Text>{placeOf(open.subject) && <><br /><a class="lnk" href={url(placeOf(open.subject) ?? "")}>Open it</a></>}</dd><dt>project</dt><dd>{open.project}</dd><dt>when</dt><dd><Time at={open.at} /></dd><dt>reason</dt><dd><Text>{open.reason || "–"}</Text></dd><dt>request</dt><dd class="m wrapt">{open.request_id}</dd><dt>hash</dt><dd class="m wrapt">{open.hash.slice(0, 32)}…</dd><dt>before it</dt><dd class="m wrapt">{open.prev_hash.slice(0, 32)}…</dd></dl><div class="sec"><h2>Detail</h2></div><Json value={open.detail} /></aside>}
    </div>
  );
}
