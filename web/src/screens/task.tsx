// One task, explained: why first, then the path, leases and fences, attempts, events and versions; facts beside.
import { json, parse } from "../lib/exact";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, get, post, Problem, q, type Page } from "../lib/api";
import { age, bytes, capital, clean, clock, dur, num, person, serverNow, short, until } from "../lib/format";
import { jobOf } from "../lib/fleet";
import { nodeName, nodePath } from "../lib/hosts";
import { about, by, markOf, path, runs, whole, type Run } from "../lib/history";
import { screenKeys } from "../lib/keys";
import { second } from "../lib/live";
import { useLoad } from "../lib/load";
import { EXECUTION, TRANSITIONS } from "../lib/rules";
import { line } from "../lib/why";
import { go, nameHere, param, setParams, url } from "../lib/place";
import type { Checkpoint, Event, Intervention, Task as TaskView, TaskRow, Why } from "../lib/types";
import { act, KINDS, verbsOf, type Verb } from "../ui/act";
import { familyOf, Icon, Status, type Sign } from "../ui/marks";
import { quoted } from "../ui/query";
import { Button, Command, Copy, Dialog, Download, Empty, Field, Json, Output, Seg, Shown, Text, Time, toast, scrollable } from "../ui/parts";

const mayBecome = (status: string): readonly string[] => TRANSITIONS[status as keyof typeof TRANSITIONS] ?? [];

interface Whole {
  task: TaskView;
  why: Why;
  events: Event[];
  readAt: number;
}

export function Task({ id }: { id: string }): JSX.Element {
  const loaded = useLoad<Whole>(async (signal) => {
    const [task, why, history] = await Promise.all([
      get<TaskView>(`/tasks/${id}`, signal), get<Why>(`/tasks/${id}/why`, signal), get<Page<Event>>(`/tasks/${id}/history`, signal),
    ]);
    return { task, why, events: history.items, readAt: Date.now() };
  }, `task ${id}`);
  return <div class="page task"><Shown of={loaded} rows={10}>{(whole) => <Body {...whole} reload={loaded.reload} />}</Shown></div>;
}

const KEYS: Record<string, string> = { pause: "⇧P", abort: "⇧A", retry: "⇧R", release: "⇧L" };
function Body({ task, why, events: kept, readAt, reload }: Whole & { reload: () => void }): JSX.Element {
  const events = whole(task, kept);
  useLayoutEffect(() => nameHere(task.type), [task.type]);
  const isExecution = task.type === EXECUTION;
  const verbs = verbsOf(task);
  const [editing, setEditing] = useState(false);
  useLayoutEffect(() => {
    screenKeys.value = verbs.filter((verb) => KEYS[verb]).map((verb) => ({ keys: KEYS[verb] ?? "", what: `${KINDS[verb].name} this task`, run: () => act(verb, { task }) }));
    return () => void (screenKeys.value = []);
  });
  const first: Verb[] = verbs.slice(0, 3).filter((verb) => verb !== "abort");
  const rest = verbs.filter((verb) => !first.includes(verb) && verb !== "abort");
  return (
    <>
      <div class="ttl"><div><h1 class="row"><Icon is={task.status as Sign} of={familyOf(task.status)} size={20} /><Text>{task.type}</Text></h1>
        <p class="ids m dim">{task.id}<Copy text={task.id} name="Copy the id" />{task.client_id && <span>named <Text>{task.client_id}</Text></span>}</p></div>
        <span class="sp" />
        <div class="row wrapf taskacts">{jobOf(task) && <a class="btn" href={url(`/fleet/jobs/${jobOf(task)}`)}>Open the job</a>}{first.map((verb, index) => <Button low={index === 2} right={KINDS[verb].right} name={KINDS[verb].name} onClick={() => act(verb, { task })}>{KINDS[verb].name}…{KEYS[verb] && <kbd class="k">{KEYS[verb]}</kbd>}</Button>)}
          {verbs.includes("abort") && <Button rank="dan" right="tasks.intervene" name="Abort" onClick={() => act("abort", { task })}>Abort…<kbd class="k">⇧A</kbd></Button>}
          {(!isExecution || rest.length > 0) && <details class="menu"><summary class="btn" aria-label="More acts"><Icon is="more" /></summary><div class="pop">
            {[...first.slice(2), ...rest].map((verb) => <button type="button" class={first.includes(verb) ? "onph" : ""} onClick={() => act(verb, { task })}>{KINDS[verb].name}…</button>)}
            {!isExecution && task.status !== "completed" && task.status !== "aborted" && task.status !== "running" && task.status !== "stuck" && <button type="button" onClick={() => setEditing(true)}>{task.status === "failed" ? "Edit and replay…" : "Edit the payload…"}</button>}
            {!isExecution && <button type="button" onClick={() => void again(task)}>Run a copy</button>}</div></details>}</div></div>
      <WhyBox task={task} why={why} events={events} />
      <div class="lay side-r">
        <div class="col">
          <PathBox task={task} events={events} />
          <Lanes runs={runs(events)} events={events} />
          <Tabs task={task} events={events} />
          <EventList events={kept} isCut={kept.length < events.length} />
          <Versions events={kept} />
        </div>
        <aside class="side"><Side task={task} readAt={readAt} /></aside>
      </div>
      {editing && <Edit task={task} onClose={() => { setEditing(false); reload(); }} />}
    </>
  );
}

async function again(task: TaskView): Promise<void> {
  try {
    const made = await post<{ id?: string; task?: TaskView }>(`/tasks/${task.id}/copy`, {});
    const id = made.task?.id ?? made.id;
    toast(<>A copy was enqueued: <a href={url(`/tasks/${id}`)}>{short(id ?? "")}</a></>);
  } catch (error) {
    toast((error as Problem).message, "bad");
  }
}

const completed = (task: TaskView): string => `It completed at attempt ${task.attempts} of ${task.max_attempts}, ${dur((Date.parse(task.finished_at ?? "") - Date.parse(task.created_at)) / 1000)} after it was enqueued`;
/** The reason with the names of hosts instead of their ids. */
const named = (text: string): string => text.replace(/hst_[0-9a-f]{32}/g, nodeName);

function WhyBox({ task, why, events }: { task: TaskView; why: Why; events: Event[] }): JSX.Element {
  const may = mayBecome(task.status);
  const late = events.findLast((event) => event.kind === "task.late");
  const text = (task.status === "completed" && task.finished_at ? completed(task) : why.reasons[0]?.text) ?? (task.status === "aborted" ? "It was ended by a person" : task.status === "blocked" ? line(task) : "It may start at any moment");
  const sentence = capital(named(text));
  return (
    <div class="why"><Icon is={task.status as Sign} of={familyOf(task.status)} />
      <div><p class="strong"><Text>{sentence}</Text>{sentence.endsWith(".") ? "" : "."}{task.progress?.note && (task.status === "running" || task.status === "stuck") ? <> <Text>{capital(task.progress.note)}</Text>.</> : null}</p>
        {why.reasons.slice(1).map((reason) => <p><Text>{capital(named(reason.text))}</Text>.</p>)}
        {task.status === "failed" && task.failure && !text.includes(task.failure.message) && <p class="bad m"><Text>{task.failure.error_type ? `${task.failure.error_type}: ${task.failure.message}` : task.failure.message}</Text></p>}
        {late && <p>At {clock(Date.parse(late.at))} <Text>{by(late) || "an old runner"}</Text> came back and tried to report with fence {String(late.data.fence)}; nothing was changed.</p>}
        {task.assigned_to && may.length > 0 && <p>Only <Text>{task.assigned_to}</Text> may claim it{task.assigned_until ? `, for ${dur(until(task.assigned_until), true)}` : ""}.</p>}
        {why.reasons[0]?.code === "decision" && <p><a class="lnk" href={url(`/inbox/${String(why.reasons[0].data.decision_id)}`)}>Open the decision</a></p>}</div></div>
  );
}

const STEPS_MAX = 7;
function PathBox({ task, events }: { task: TaskView; events: Event[] }): JSX.Element {
  const all = path(events);
  const shown = all.slice(-STEPS_MAX);
  const may = mayBecome(task.status);
  const total = ((task.finished_at ? Date.parse(task.finished_at) : serverNow()) - Date.parse(task.created_at)) / 1000;
  return (
    <section><div class="sec"><h2>Path</h2><span class="sub">{dur(total)}{task.finished_at ? " in all" : " so far"}{all.length > shown.length ? ` · ${all.length - shown.length} earlier steps` : ""}</span></div>
      <div class="pathrow"><ol class="path">{shown.map((step, index) => (
        <li class={index === shown.length - 1 ? "now" : ""}><Icon is={step.status as Sign} of={familyOf(step.status)} /><b>{step.status}</b>
          <small>{step.until || may.length ? dur(((step.until ? Date.parse(step.until) : serverNow()) - Date.parse(step.at)) / 1000) : clock(Date.parse(step.at))}</small><small class="e cut" title={clean(step.note)}><Text>{step.note}</Text></small></li>
      ))}</ol>
        {may.length > 0 && <div class="next"><h3>May become</h3>{may.map((status) => <span><Icon is={status as Sign} of={familyOf(status)} />{status}</span>)}</div>}</div>
    </section>
  );
}

const OUTCOME: Record<string, string> = { running: "work", stuck: "warn", completed: "good", failed: "bad", lost: "warn", paused: "hold", aborted: "idle", released: "idle", snoozed: "idle", forced: "idle" };
const LANES_MAX = 6;
const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 864e5];
const [LANE_LEFT, LANE_ROW, LANE_RIGHT, CHAR_PX] = [104, 36, 28, 6.6];
/** Round marks on an axis of this length in milliseconds: at most five, none close to its end. */
function marksOf(span: number): number[] {
  const step = STEPS_MS.find((one) => span / one <= 5) ?? span / 4;
  return Array.from({ length: Math.floor((span * 0.88) / step) + 1 }, (_, n) => n * step);
}
/** One lane for each claim. Drawn in real pixels, so that its text has the size of all others. */
function Lanes({ runs: all, events }: { runs: Run[]; events: Event[] }): JSX.Element | null {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.max(320, Math.floor(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [all.length > 0]);
  const shown = all.slice(-LANES_MAX);
  if (shown.length === 0) return null;
  const begin = Date.parse(shown[0]?.from ?? "");
  const isOpen = shown.some((run) => run.to === null);
  const last = Math.max(...shown.flatMap((run) => [run.to ? Date.parse(run.to) : 0, run.late ? Date.parse(run.late) : 0]), Date.parse(events.at(-1)?.at ?? ""));
  const end = Math.max(isOpen ? serverNow() : last, begin + 1);
  const x = (at: number) => LANE_LEFT + ((at - begin) / (end - begin)) * (width - LANE_LEFT - LANE_RIGHT);
  const span = end - begin;
  const ticks = [...marksOf(span).map((at) => begin + at), end];
  const height = shown.length * LANE_ROW;
  return (
    <section class="lanes-s"><div class="sec"><h2>Leases and fences</h2><span class="sub">one lane for each claim{all.length > shown.length ? `, the last ${shown.length}` : ""}</span></div>
      <div ref={box}><svg class="lanes" width={width} height={height + 22} role="img" aria-label={`${shown.length} claims, the last ${shown.at(-1)?.outcome}`}>
        {ticks.map((tick, index) => <><line x1={x(tick)} x2={x(tick)} y1="0" y2={height} class="grid" /><text x={x(tick)} y={height + 16} text-anchor={index === 0 ? "start" : tick === end ? "end" : "middle"}>{tick === end && isOpen ? "now" : span < 10_000 ? (index === 0 ? "start" : `+${dur((tick - begin) / 1000)}`) : clock(tick)}</text></>)}
        {shown.map((run, index) => <Lane run={run} y={index * LANE_ROW} x={x} end={end} width={width} />)}
      </svg></div>
    </section>
  );
}

function Lane({ run, y, x, end, width }: { run: Run; y: number; x: (at: number) => number; end: number; width: number }): JSX.Element {
  const [a, b] = [x(Date.parse(run.from)), Math.max(x(run.to ? Date.parse(run.to) : end), x(Date.parse(run.from)) + 3)];
  const said = run.to === null ? "" : `${run.outcome}${run.note ? `, ${clean(run.note)}` : ""}`;
  const node = clean(nodeName(run.node));
  const [inside, right] = [b - a, width - b];
  const room = Math.floor((Math.max(inside, right) - 16) / CHAR_PX);
  const label = said.length > room ? `${said.slice(0, Math.max(0, room - 1))}…` : said;
  const at = right >= inside ? b + 6 : a + 7;
  return (
    <g class={`lane-${OUTCOME[run.outcome] ?? "idle"}`}>
      <text x="0" y={y + 13} class="strong">fence {run.fence}</text><text x="0" y={y + 27}>{node.length > 14 ? `${node.slice(0, 13)}…` : node}</text>
      <rect x={a} y={y + 5} width={b - a} height="18" rx="3" />
      {room > 6 && <text x={at} y={y + 18} class="lab">{label}</text>}
      {run.late && <g class="doubt"><circle cx={x(Date.parse(run.late))} cy={y + 14} r="4.5" fill="none" stroke="currentColor" stroke-width="1.4" /><path d={`M${x(Date.parse(run.late)) - 3} ${y + 17}l6-6`} stroke="currentColor" stroke-width="1.4" /></g>}
    </g>
  );
}

type Tab = "attempts" | "output" | "checkpoints" | "interventions" | "result";
function Tabs({ task, events }: { task: TaskView; events: Event[] }): JSX.Element {
  const all = runs(events);
  const tab = (param("tab") || "attempts") as Tab;
  const points = useLoad((signal) => get<Page<Checkpoint>>(`/tasks/${task.id}/checkpoints`, signal), `points ${task.id}`, 2_000).data?.items ?? [];
  const acts = useLoad((signal) => get<Page<Intervention>>(`/tasks/${task.id}/interventions`, signal), `acts ${task.id}`, 2_000).data?.items ?? [];
  const options: [Tab, string, string][] = [["attempts", "Attempts", num(all.length)], ["output", "Output", ""], ["checkpoints", "Checkpoints", num(points.length)], ["interventions", "Interventions", num(acts.length)], ["result", "Result", task.result_bytes ? bytes(task.result_bytes) : ""]];
  return (
    <section>
      <div class="tabs" role="tablist">{options.map(([value, name, n]) => <button type="button" role="tab" aria-selected={tab === value} onClick={() => setParams({ tab: value === "attempts" ? null : value })}>{name} <span class="c">{n === "0" ? "" : n}</span></button>)}</div>
      {tab === "attempts" && (all.length === 0 ? <Empty sign="queued" title="No attempt yet">It starts when a node claims it.</Empty> : (
        <div class="scroll" ref={scrollable}><table class="t att"><thead><tr><th class="n">Try</th><th>Outcome</th><th>Node</th><th class="n">Fence</th><th>Started</th><th class="n">Took</th><th>Detail</th></tr></thead>
          <tbody>{[...all].reverse().map((run) => <tr><td class="n">{run.attempt}</td><td><Outcome run={run} /></td><td><a href={url(nodePath(run.node))}><Text>{nodeName(run.node)}</Text></a></td><td class="n m">{run.fence}</td><td><Time at={run.from} /></td>
            <td class="n">{dur(((run.to ? Date.parse(run.to) : serverNow()) - Date.parse(run.from)) / 1000)}</td><td class={`whyc ${run.outcome === "failed" ? "bad m" : ""}`} title={clean(run.note)}><Text>{run.note}</Text>{run.late && <span class="doubt"> · a late write was refused</span>}</td></tr>)}</tbody></table>
          {(all[0]?.attempt ?? 1) > 1 && <p class="sm sub pad">Earlier attempts have left the history of this task.</p>}{task.failure?.traceback && <pre class="well tb" ref={scrollable}>{clean(task.failure.traceback, true)}</pre>}</div>
      ))}
      {tab === "output" && <Streams task={task} fences={all.map((run) => run.fence)} />}
      {tab === "checkpoints" && (points.length === 0 ? <Empty sign="queued" title="No checkpoint">A handler keeps one with <code>ctx.checkpoint(name, value)</code>.</Empty> : (
        <div class="stack pad">{[...points].reverse().map((point) => <div><p class="row"><b class="strong"><Text>{point.type || "checkpoint"}</Text></b><span class="sub"><Text>{point.note}</Text></span><span class="sp" /><span class="sm dim">fence {point.fence} · <Time at={point.created_at} /></span></p>{point.data !== null && <Json value={point.data} />}</div>)}</div>
      ))}
      {tab === "interventions" && (acts.length === 0 ? <Empty sign="decision" title="No interventions">Pause, abort and the other acts are kept here with their reason.</Empty> : (
        <div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>Act</th><th>By</th><th>Effect</th><th>Runner</th><th>When</th><th>Reason</th></tr></thead><tbody>
          {acts.map((one) => <tr><td><span class="st"><Icon is="decision" of="person" size={12} /><span>{one.type}</span></span></td><td>{person(one.actor)}</td><td>{one.effect ? `${one.effect.from} → ${one.effect.to}` : "none"}</td><td>{one.target_node ? <><Text>{nodeName(one.target_node)}</Text> <span class="dim">{one.state}</span></> : <span class="dim">{one.state}</span>}</td><td><Time at={one.issued_at} /></td><td class="whyc"><Text>{one.reason}</Text></td></tr>)}</tbody></table></div>
      ))}
      {tab === "result" && (task.status === "completed" ? <div class="pad"><Json value={task.result} size={task.result_bytes} /></div> : <Empty sign="completed" title="No result yet">It is here when the task has completed.</Empty>)}
    </section>
  );
}

function Outcome({ run }: { run: Run }): JSX.Element {
  const known = ["running", "stuck", "completed", "failed", "paused", "aborted"].includes(run.outcome);
  return known ? <Status is={run.outcome} /> : <span class="st"><Icon is={run.outcome === "lost" ? "late" : "queued"} of={run.outcome === "lost" ? "warn" : "idle"} /><span>{run.outcome}</span></span>;
}

interface OutputPage { text?: string; data_base64?: string; next: number; end: number; complete: boolean; gaps: { start: number; size: number }[] }
const TAIL_BYTES = 64_000;
function Streams({ task, fences }: { task: TaskView; fences: number[] }): JSX.Element {
  const [stream, setStream] = useState<"stdout" | "stderr" | "log">("stdout");
  const [fence, setFence] = useState<string>("");
  const loaded = useLoad(async (signal) => {
    const of = `/tasks/${task.id}/output?stream=${stream}${fence ? `&fence=${fence}` : ""}`;
    const head = await get<OutputPage>(`${of}&limit_bytes=1`, signal);
    const start = Math.max(0, head.end - TAIL_BYTES);
    return head.end === 0 ? { page: head, start } : { page: await get<OutputPage>(`${of}&start=${start}&limit_bytes=${TAIL_BYTES}`, signal), start };
  }, `output ${task.id} ${stream} ${fence}`);
  return (
    <div class="stack pad">
      <div class="row wrapf"><Seg label="Stream" value={stream} onPick={setStream} options={[["stdout", "stdout"], ["stderr", "stderr"], ["log", "log"]]} />
        {fences.length > 1 && <select class="inp auto" aria-label="Run" value={fence} onChange={(event) => setFence(event.currentTarget.value)}><option value="">latest run</option>{[...new Set(fences)].reverse().map((one) => <option value={one}>fence {one}</option>)}</select>}
        </div>
      <Shown of={loaded} rows={3}>{({ page, start }) => page.end === 0 ? <Empty sign="command" title={`Nothing on ${stream}`}>A handler writes it with <code>ctx.output(text)</code>.</Empty> : (
        <>{(start > 0 || page.gaps.length > 0) && <p class="row sm sub"><span>{bytes(page.end)} in all; the last {bytes(page.end - start)} are shown{page.gaps.length ? ", the middle is folded" : ""}.</span></p>}
          {page.text !== undefined ? <><Output text={page.text} /><p class="row"><span class="sp" /><Download text={page.text} name={`${short(task.id)}-${stream}.txt`} /></p></> : <p class="sub">Bytes that are no text: {bytes(page.end)}.</p>}</>
      )}</Shown>
    </div>
  );
}

const QUIET = new Set(["task.progress", "task.output", "task.metrics"]);
function EventList({ events, isCut }: { events: Event[]; isCut: boolean }): JSX.Element {
  const [mode, setMode] = useState<"main" | "all">("main");
  const shown = [...events].reverse().filter((event) => mode === "all" || !QUIET.has(event.kind)).slice(0, 60);
  return (
    <section><div class="sec"><h2>Latest events</h2><span class="sub">{isCut ? `the last ${num(events.length)} are kept, ` : shown.length < events.length ? `${num(shown.length)} of ${num(events.length)}, ` : ""}newest first</span><span class="sp" /><Seg label="Which" value={mode} onPick={setMode} options={[["main", "Without progress"], ["all", "With progress"]]} /></div>
      <ul class="ev">{shown.map((event) => {
        const [sign, of] = markOf(event.kind);
        return <li><a class="m dim" href={url(`/events?at=${event.position}`)}>{num(Number(event.position.split(":")[1]))}</a><span class="m dim"><Time at={event.at} /></span><Icon is={sign as Sign} of={of} /><span class="cut"><b class="strong">{event.kind.replace(/^task\./, "")}</b> <span class="sub"><Text>{about(event)}</Text></span></span><span class="sub cut"><Text>{by(event)}</Text></span></li>;
      })}</ul></section>
  );
}

/** What a version of a task came with: the events of one change are one row. */
interface Version { event: Event; writer: string; causes: string[]; text: [string, string, string][] }
/** Events that are written beside a task: they change no version. */
const NO_VERSION = new Set([...QUIET, "task.checkpoint", "checkpoint.created", "task.late"]);
function Versions({ events }: { events: Event[] }): JSX.Element {
  const [all, setAll] = useState(false);
  let before = "";
  const found = new Map<number, Version>();
  for (const event of events) {
    if (!event.version || NO_VERSION.has(event.kind)) continue;
    const change = changeOf(event, before);
    before = change.status ?? before;
    const old = found.get(event.version);
    const cause = event.kind.replace(/^task\./, "");
    found.set(event.version, { event: old && change.text.length === 0 ? old.event : event, writer: by(event) || old?.writer || "", causes: [...(old?.causes ?? []), cause], text: [...(old?.text ?? []), ...change.text] });
  }
  const byVersion = [...found.values()].reverse();
  const shown = all ? byVersion : byVersion.slice(0, 5);
  return (
    <section><div class="sec"><h2>Versions</h2><span class="sub">{num(byVersion.length)}, newest first</span><span class="sp" />{byVersion.length > 5 && <Button small onClick={() => setAll(!all)}>{all ? "Fewer" : "All"}</Button>}</div>
      <div class="scroll" ref={scrollable}><table class="t"><thead><tr><th class="n">Ver</th><th class="n">Clock</th><th>At</th><th>Writer</th><th>Cause</th><th>Change</th></tr></thead><tbody>
        {shown.map(({ event, writer, causes, text }) => <tr><td class="n strong">{event.version}</td><td class="n m dim">{event.position.split(":")[1]}</td><td><Time at={event.at} /></td><td><Text>{writer || "gateway"}</Text></td><td>{causes.join(", ")}</td>
          <td class="m">{text.map(([name, old, now]) => name === "status" ? <span class="chg">{old && <><span class="dim">{old}</span> → </>}<span class={familyOf(now)}>{now}</span> </span> : <span class="chg"><span class="dim">{name}</span> {old && <><span class="del">{clean(old)}</span> → </>}<span class="add">{clean(now)}</span> </span>)}</td></tr>)}
      </tbody></table></div></section>
  );
}

function changeOf(event: Event, before: string): { text: [string, string, string][]; status: string | null } {
  const data = event.data;
  const steps: [string, string, string][] = [];
  const status = path([event])[0]?.status ?? null;
  if (status && status !== before) steps.push(["status", before, status]);
  if (event.kind === "task.started") steps.push(["fence", "", String(data.fence)]);
  if (event.kind === "task.edited" && data.before) for (const [name, old] of Object.entries(data.before as object)) steps.push([`payload.${name}`, json(old).slice(0, 40), "changed"]);
  if (event.kind === "task.rescheduled") steps.push(["due_at", "", String(data.due_at)]);
  if (event.kind === "task.assigned") steps.push(["assigned_to", "", String(data.node)]);
  if (event.kind === "task.held") steps.push(["held_by", "", String(data.actor)]);
  return { text: steps, status };
}

function Side({ task, readAt }: { task: TaskView; readAt: number }): JSX.Element {
  const left = task.lease_remaining_seconds === null ? null : Math.max(0, task.lease_remaining_seconds - (second.value - readAt) / 1000);
  const whole = Math.max(15, task.lease_remaining_seconds ?? 15);
  const ring = 2 * Math.PI * 22;
  const rows: [string, JSX.Element | string | null][] = [
    ["queue", <a href={url(`/tasks?q=queue:${task.queue}`)}><Text>{task.queue}</Text></a>], ["project", task.project], ["priority", task.priority],
    ["key", task.idempotency_key ? <code><Text>{task.idempotency_key}</Text></code> : null], ["version", <>{task.version}</>],
    ["attempts", <>{task.attempts} of {task.max_attempts}{task.deaths ? <span class="dim"> · deaths {task.deaths}</span> : null}</>],
    ["tags", task.tags.length ? <span class="tags">{task.tags.map((tag) => <a class="tag" href={url(`/tasks?q=${encodeURIComponent(`tag:${quoted(tag)}`)}`)}><Text>{tag}</Text></a>)}</span> : null],
    ["timeout", task.options.timeout != null ? dur(Number(task.options.timeout)) : null],
    ["created", <><Time at={task.created_at} /> <span class="dim">· {dur(age(task.created_at), true)} ago</span></>],
    ["due", task.status === "queued" && until(task.due_at) > 0 ? <>in {dur(until(task.due_at), true)}</> : null],
    ["ended", task.finished_at ? <Time at={task.finished_at} /> : null],
    ["held by", task.held_by ? <Text>{person(task.held_by)}</Text> : null],
    ["limits", task.limits.length ? <code><Text>{task.limits.join(", ")}</Text></code> : null],
    ["job", jobOf(task) ? <a class="lnk" href={url(`/fleet/jobs/${jobOf(task)}`)}>{short(jobOf(task) ?? "")}</a> : null],
  ];
  return (
    <>
      {left !== null && task.node && (
        <section><div class="sec"><h2>Lease</h2><span class="sp" /><Button right="tasks.intervene" name="Release" onClick={() => act("release", { task })}>Release…</Button></div>
          <div class="ring"><svg width="56" height="56" viewBox="0 0 56 56" role="img" aria-label={`${Math.round(left)} seconds left`}><circle cx="28" cy="28" r="22" fill="none" stroke="var(--line)" stroke-width="5" />
            <circle class={left < whole / 3 ? "warn" : "work"} cx="28" cy="28" r="22" fill="none" stroke="currentColor" stroke-width="5" stroke-linecap="round" stroke-dasharray={`${(ring * Math.min(1, left / whole)).toFixed(1)} ${ring}`} transform="rotate(-90 28 28)" /><text x="28" y="32" text-anchor="middle" class="ringt">{dur(Math.round(left), true)}</text></svg>
            <dl class="kv"><dt>holder</dt><dd class="cut"><a class="strong" href={url(nodePath(task.node))}><Text>{nodeName(task.node)}</Text></a></dd><dt>fence</dt><dd class="m">{task.fence}</dd></dl></div>
          <p class="sm sub">If it ends, the task is queued again and runs with fence {task.fence + 1}. What the holder writes after that is refused.</p></section>
      )}
      <section><h2>Facts</h2><dl class="kv">{rows.filter(([, value]) => value !== null).map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl></section>
      {task.depends_on.length > 0 && <section><h2>Depends on <span class="dim">{task.depends_on.length}</span></h2><Near ids={task.depends_on.map((one) => one.id)} known={Object.fromEntries(task.depends_on.map((one) => [one.id, one.status]))} /></section>}
      {task.dependents.length > 0 && <section><h2>Dependents <span class="dim">{task.dependents.length}</span></h2><Near ids={task.dependents} /></section>}
      <section><div class="sec"><h2>Payload <span class="dim">{bytes(task.payload_bytes)}</span></h2><span class="sp" /><Copy text={json(task.payload)} name="Copy the payload" /></div><Json value={task.payload} size={task.payload_bytes} /></section>
      {Object.keys(task.metadata).length > 0 && <section><h2>Metadata</h2><Json value={task.metadata} /></section>}
      {Object.keys(task.metrics).length > 0 && <section><h2>Metrics</h2><Json value={task.metrics} /></section>}
      <section><Command>{`holdfast task show ${task.id}`}</Command></section>
    </>
  );
}

const NEAR_MAX = 12;
/** Tasks beside this one, with their types and how they are now. `known`: their status; null when they were pruned. */
function Near({ ids, known = {} }: { ids: string[]; known?: Record<string, string | null> }): JSX.Element {
  const shown = ids.slice(0, NEAR_MAX);
  const rows = useLoad((signal) => get<Page<TaskRow>>(`/tasks?limit=${NEAR_MAX}&q=${q(`id:${shown.join(",")}`)}`, signal), `near ${shown.join()}`, 2_000).data?.items ?? [];
  return (
    <>{shown.map((id) => {
      const row = rows.find((one) => one.id === id);
      const status = row?.status ?? known[id];
      return <a class="dep" href={url(`/tasks/${id}`)}><Icon is={(status ?? "queued") as Sign} of={familyOf(status ?? "")} /><span class="cut"><Text>{row?.type ?? ""}</Text> <span class="m dim">{short(id)}</span></span><span class="sp" /><span class="dim sm">{status === null ? "pruned" : status ?? ""}</span></a>;
    })}{ids.length > shown.length && <p class="dim sm">{num(ids.length - shown.length)} more</p>}</>
  );
}

function Edit({ task, onClose }: { task: TaskView; onClose: () => void }): JSX.Element {
  const [text, setText] = useState(json(task.payload, 2));
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState("");
  const dead = task.status === "failed";
  const send = async (event: { preventDefault: () => void }) => {
    event.preventDefault();
    try {
      const payload = parse(text);
      if (dead) await post(`/dead-letters/${task.id}/replay`, { payload, reason, expected_version: task.version });
      else await ask("PATCH", `/api/v1/tasks/${task.id}`, { payload, payload_mode: "whole", reason, expected_version: task.version });
      toast(dead ? "The dead letter runs again with this payload." : "The payload was changed.");
      onClose();
      go(`/tasks/${task.id}`, { replace: true });
    } catch (error) {
      setWrong(error instanceof SyntaxError ? "This is not JSON." : (error as Problem).message);
    }
  };
  return (
    <Dialog label="Edit the payload" onClose={onClose} kind="wide">
      <form class="stack" onSubmit={(event) => void send(event)}><div><h2 class="big">{dead ? "Edit and replay" : "Edit the payload"}</h2><p class="sub">Bound to version {task.version}.</p></div>
        <Field label="Payload" error={wrong || undefined} help="JSON"><textarea class="inp m" rows={12} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} /></Field>
        <Field label="Reason, optional"><input class="inp" value={reason} onInput={(event) => setReason(event.currentTarget.value)} /></Field>
        <div class="row acts"><span class="sp" /><Button onClick={onClose}>Leave it</Button><Button type="submit" rank="pri" right={dead ? "dead.replay" : "tasks.edit"}>{dead ? "Replay with this payload" : "Change the payload"}</Button></div></form>
    </Dialog>
  );
}
