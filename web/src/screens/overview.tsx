// Overview: what needs a person, then whether it is healthy, then what is under way.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { everywhere, get, may, type Page } from "../lib/api";
import { age, clean, dur, num, percent, person, plural, short, tight, time } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { endedBar, isOver, isPaused, jobMark, jobPath, jobWhy, nameOf, notWell, waitsForVotes, type HostRow, type JobRow, type OpenApproval } from "../lib/fleet";
import { about, brief, markOf, words } from "../lib/history";
import { mark, paused, watch } from "../lib/live";
import { useLoad } from "../lib/load";
import { url, withParams } from "../lib/place";
import { EXTERNAL } from "../lib/rules";
import type { ConflictRow, DecisionRow, Event, Group, Node, Operation, Queue, Stats, TaskRow } from "../lib/types";
import { Icon, type Family, type Sign } from "../ui/marks";
import { Button, Empty, Meter, Shown, Skeleton, Text, Title } from "../ui/parts";
import { beginOf, Chart, Spark } from "../ui/chart";
import { nodeState } from "./nodes";
import { FirstSteps } from "./steps";

export interface Flow {
  seconds: number;
  from: string;
  series: Record<string, (number | null)[]>;

}
interface Board {
  stats: Stats;
  queues: Queue[];
  nodes: Node[];
  groups: Group[];
  decisions: DecisionRow[];
  conflicts: ConflictRow[];
  stuck: TaskRow[];
  operations: Operation[];
  flow: Flow | null;
  approvals: OpenApproval[];
  hosts: HostRow[];
  jobs: JobRow[];
}
const BOARD_MS = 1_000;
/** A job that ended before is history: its page still offers the retry. */
const RECENT_SECONDS = 86_400;

async function read(signal: AbortSignal): Promise<Board> {
  const items = <T,>(path: string): Promise<T[]> => get<Page<T>>(path, signal).then((page) => page.items).catch((error: { status?: number }) => { if (error.status === 403) return []; throw error; });
  const [stats, queues, nodes, groups, decisions, conflicts, stuck, operations, flow, approvals, jobs, hosts] = await Promise.all([
    get<Stats>("/stats", signal), items<Queue>("/queues"), items<Node>("/nodes?live=false&agents=false"), items<Group>("/dead-letters/groups?limit=20"),
    items<DecisionRow>("/decisions?q=state:open&limit=50"), items<ConflictRow>("/conflicts?q=state:open&limit=50"), items<TaskRow>("/tasks?q=status:stuck&limit=20"),
    items<Operation>("/operations?limit=20"), everywhere() ? get<Flow>("/flow?minutes=60", signal).catch(() => null) : Promise.resolve(null),
    items<OpenApproval>("/approvals?limit=20"), items<JobRow>("/jobs?limit=20"), items<HostRow>("/hosts?silent=true&limit=1000").catch(() => []),
  ]);
  return { stats, queues, nodes, groups, decisions, conflicts, stuck, operations, flow, approvals, jobs, hosts };
}

export function Overview(): JSX.Element {
  const loaded = useLoad(read, "overview", BOARD_MS, (board) => board.operations.some((run) => run.state === "running"));
  return <div class="page over"><FirstSteps /><Shown of={loaded}>{(board) => <Body board={board} />}</Shown></div>;
}

interface Need {
  sign: Sign;
  of: Family;
  title: ComponentChildren;
  note: ComponentChildren;
  figure: string;
  unit: string;
  href: string;
  act: string;
  person?: boolean;
  rank: number;
}

function needs(board: Board): Need[] {
  const all: Need[] = [];
  for (const decision of board.decisions) {
    const left = decision.remaining_seconds;
    all.push({ sign: "decision", of: "person", title: <Text>{decision.question}</Text>, note: `${plural(decision.options.length, "option")}. ${decision.default != null && left !== null ? `Without an answer: “${String(decision.default)}”.` : "It holds no worker."}`, figure: left === null ? "–" : dur(left, true), unit: left === null ? "no deadline" : "to deadline", href: `/inbox/${decision.id}`, act: "Decide", person: true, rank: left === null ? 3e5 : left });
  }
  for (const one of board.approvals)
    all.push({ sign: "decision", of: "person", title: <>Approve <Text>{nameOf(one.job)}</Text> on {plural(one.job.hosts, "host")}</>, note: `${person(one.requested_by)} asks.${one.remaining_seconds !== null ? " Without an answer it expires." : ""}`, figure: one.remaining_seconds === null ? "–" : dur(one.remaining_seconds, true), unit: one.remaining_seconds === null ? "no deadline" : "to deadline", href: `/inbox/${one.job_id}`, act: "Review", person: true, rank: one.remaining_seconds ?? 3e5 });
  for (const job of board.jobs.filter((one) => isPaused(one) || (one.halt && !isOver(one)) || (one.break_glass && !isOver(one))))
    all.push({ sign: "host-paused", of: "hold", title: <>Job <Text>{nameOf(job)}</Text> {isPaused(job) ? "is paused" : job.halt ? "stops" : "skipped its approval"}</>, note: <Text>{jobWhy(job)}</Text>, figure: num(job.hosts - Object.values(job.ended).reduce((a, b) => a + b, 0)), unit: "hosts left", href: jobPath(job), act: "Open", rank: 900 });
  const retried = new Set(board.jobs.map((job) => job.parent_job_id));
  for (const job of board.jobs.filter((one) => isOver(one) && notWell(one) > 0 && !retried.has(one.id) && age(one.finished_at ?? one.created_at) < RECENT_SECONDS))
    all.push({ sign: "host-failed", of: "bad", title: <>{plural(notWell(job), "host")} of job <Text>{nameOf(job)}</Text> did not succeed</>, note: `${num(job.ended.SUCCESS ?? 0)} of ${num(job.hosts)} succeeded. A retry is a new job, for these hosts only.`, figure: num(notWell(job)), unit: notWell(job) === 1 ? "host" : "hosts", href: `${jobPath(job)}?act=retry`, act: "Retry failed…", rank: 5e3 - notWell(job) });
  const silent = board.hosts;
  if (silent.length) all.push({ sign: "host-unreachable", of: "warn", title: <>{silent.length === 1_000 ? "1,000 or more hosts" : plural(silent.length, "host")} {silent.length === 1 ? "is" : "are"} out of reach</>, note: <Text>{`${silent.slice(0, 4).map((host) => host.name).join(", ")}${silent.length > 4 ? " and more" : ""}. Commands wait for them until their time is over.`}</Text>, figure: dur(Math.max(...silent.map((host) => host.agent?.seen_seconds_ago ?? 0)), true), unit: "silent", href: "/fleet/hosts?show=silent", act: "Open", rank: 3e3 });
  for (const group of board.groups)
    all.push({ sign: "failed", of: "bad", title: <>{plural(group.count, "dead letter")} with one cause in <code><Text>{group.type}</Text></code></>, note: <Text>{`${group.error}. Last ${dur(age(group.last_at), true)} ago.`}</Text>, figure: num(group.count), unit: "tasks", href: withParams("/dead-letters", { cause: group.fingerprint }), act: "Replay…", rank: 5e3 - group.count });
  for (const node of board.nodes) {
    const [word, , of] = nodeState(node);
    if (of === "warn" || of === "doubt") all.push({ sign: "late", of: "warn", title: <>Node <Text>{node.id}</Text> is {word}</>, note: node.busy || node.running ? `It holds ${plural(node.running ?? node.busy, "lease")}; its tasks run elsewhere when they end.` : "It holds no lease.", figure: dur(node.seen_seconds_ago, true), unit: "silent", href: `/nodes/${encodeURIComponent(node.id)}`, act: "Open", rank: 2e3 });
  }
  for (const task of board.stuck)
    all.push({ sign: "stuck", of: "warn", title: <><Text>{task.type}</Text> <span class="m">{short(task.id)}</span> is stuck</>, note: <>The lease is renewed, but it makes no progress. <Text>{task.node ?? ""}</Text></>, figure: dur(age(task.updated_at), true), unit: "no progress", href: `/tasks/${task.id}`, act: "Open", rank: 1e3 });
  for (const conflict of board.conflicts)
    all.push({ sign: "conflict", of: "person", title: <>Two writers disagree about <code><Text>{conflict.client_id ?? short(conflict.task_id)}</Text></code></>, note: <Text>{`${nodeName(conflict.node)} wrote on version ${conflict.base_version}, the server has ${conflict.server_version}.`}</Text>, figure: dur(age(conflict.created_at), true), unit: "open", href: `/conflicts/${conflict.id}`, act: "Settle", person: true, rank: 4e3 });
  for (const queue of board.queues.filter((one) => one.paused_at))
    all.push({ sign: "paused", of: "hold", title: <>Queue <Text>{queue.name}</Text> is paused, {plural(queue.counts.queued ?? 0, "task")} {queue.counts.queued === 1 ? "waits" : "wait"}</>, note: <Text>{`${person(queue.paused_by)}, ${time(queue.paused_at)}${queue.reason ? `: “${queue.reason}”` : ""}`}</Text>, figure: dur(age(queue.paused_at), true), unit: "paused", href: "/queues", act: "Resume…", rank: 2e5 });
  for (const run of board.operations.filter((one) => one.state === "stopped" && one.done + one.failed < one.total))
    all.push({ sign: "paused", of: "hold", title: <>{run.action} of {plural(run.total, "task")} is stopped</>, note: <Text>{run.detail || run.reason || "It can go on."}</Text>, figure: num(run.total - run.done - run.failed), unit: "left", href: `/operations/${run.id}`, act: "Open", rank: 4e5 });
  return all.sort((a, b) => a.rank - b.rank);
}

/** Whether a role of this person may do something about any need. */
const canAct = (): boolean => ["tasks.intervene", "decisions.decide", "jobs.approve"].some((right) => may(right));
const NEEDS_SHOWN = 8;
function Body({ board }: { board: Board }): JSX.Element {
  const all = needs(board);
  const [more, setMore] = useState(false);
  const shown = more ? all : all.slice(0, NEEDS_SHOWN);
  const flow = board.flow;
  const per = (name: string) => rate(flow, name);
  const flows = Math.max(per("task.enqueued"), per("task.completed"));
  // Both have one unit, so that they can be compared.
  const unit = flows === 0 || flows >= 1 ? "s" : "m";
  const inUnit = (value: number): string => shownRate(unit === "s" ? value : value * 60);
  const failedHour = sum(flow, "task.failed");
  const endedHour = sum(flow, "task.completed") + failedHour;
  const there = board.nodes.filter((node) => node.live);
  const live = there.filter((node) => nodeState(node)[2] === "good").length;
  const oldest = Math.max(0, ...board.queues.map((queue) => (queue.paused_at || queue.name === EXTERNAL ? 0 : queue.oldest_due_seconds ?? 0)));
  const active = ["running", "queued", "blocked", "paused", "stuck"].reduce((n, status) => n + Number(board.stats[status] ?? 0), 0);
  const isEmpty = active === 0 && Number(board.stats.completed ?? 0) === 0 && all.length === 0;
  return (
    <>
      <Title sub={isEmpty ? "No task has run yet." : all.length ? "Everything else is moving. Nothing acknowledged is lost." : "Everything is moving. Nothing acknowledged is lost."}>{all.length === 0 ? "Nothing needs you" : `${plural(all.length, "thing")} ${all.length === 1 ? "needs" : "need"} ${canAct() ? "you" : "a person"}`}</Title>
      <div class="answers">
        <a href={url("/queues")}><h3>Flow</h3><span class="v">{flow ? inUnit(per("task.enqueued")) : num(Number(board.stats.running ?? 0))}<small>{flow ? `/${unit} in` : "running"}</small></span><span class="sm sub">{flow ? `${inUnit(per("task.completed"))}/${unit} out · ` : ""}{oldest > 1 ? `oldest waits ${dur(oldest, true)}` : "no due task waits"}</span>{flow && <span class="ch"><Spark values={(flow.series["task.enqueued"] ?? []).slice(beginOf(flow))} of="idle" /></span>}</a>
        <a href={url("/dead-letters")}><h3>Failures</h3><span class="v">{flow ? (endedHour ? percent(failedHour / endedHour) : "0 %") : num(Number(board.stats.dead_letter_count ?? 0))}<small>{flow ? "in 1 h" : "dead letters"}</small></span><span class="sm sub">{plural(Number(board.stats.dead_letter_count ?? 0), "dead letter")}, {plural(board.groups.length, "cause")}</span>{flow && <span class="ch"><Spark values={(flow.series["task.failed"] ?? []).slice(beginOf(flow))} of="bad" /></span>}</a>
        <a href={url("/inbox")}><h3>Waiting for a person</h3><span class="v">{num(board.decisions.length + board.conflicts.length + board.approvals.length)}</span><span class="sm sub"><Parts>{[board.approvals.length ? plural(board.approvals.length, "approval") : "", plural(board.decisions.length, "decision"), plural(board.conflicts.length, "conflict")]}</Parts></span>{board.decisions.length + board.conflicts.length + board.approvals.length > 0 && <span class="ch"><Icon is="decision" of="person" /></span>}</a>
        <a href={url("/nodes")}><h3>Nodes</h3><span class="v">{num(live)}<small>of {num(there.length)} on time</small></span><span class="sm sub">{plural(there.reduce((n, node) => n + (node.busy ?? 0), 0), "slot")} busy</span><span class="ch hb">{there.slice(0, 16).map((node) => <i class={nodeState(node)[2] === "good" ? "" : "l"} />)}</span></a>
        <a href={url("/tasks?q=status:running,queued,blocked,paused,stuck")}><h3>Under way</h3><span class="v">{tight(active)}</span><span class="sm sub"><Parts>{["running", "queued", "blocked"].map((status) => `${num(Number(board.stats[status] ?? 0))} ${status}`)}</Parts></span></a>
      </div>
      <div class="cols">
        <section><div class="sec"><h2>{canAct() ? "Needs you" : "Needs a person"}</h2><span class="sub">ranked by what it holds up</span></div>
          {isEmpty ? <div class="wrap"><Empty sign="tasks" title="Enqueue a first task" command="holdfast enqueue TYPE key=value">A worker that has the type runs it. This page follows what happens.</Empty></div>
            : all.length === 0 ? <div class="wrap"><Empty sign="completed" of="good" title="Nothing needs you">Decisions, dead letters, conflicts, silent nodes and stuck tasks come here.</Empty></div>
            : <ul class="need">{shown.map((need) => (
              <li data-row><Icon is={need.sign} of={need.of} /><div><p class="strong"><a href={url(need.href)}>{need.title}</a></p><p class="s">{need.note}</p></div><span class="w"><b>{need.figure}</b>{need.unit}</span>
                <a class={`btn ${need.person ? "per" : ""}`} href={url(need.href)}>{need.act}</a></li>
            ))}{all.length > shown.length && <li class="morerow"><span /><Button small onClick={() => setMore(true)}>{all.length - shown.length} more</Button></li>}</ul>}
        </section>
        <section><UnderWay runs={board.operations} jobs={board.jobs} /><Feed /></section>
      </div>
      {flow && !isEmpty && (
        <div class="charts">
          <section><div class="sec"><h2>Flow</h2><span class="sub">tasks per second</span><span class="sp" /><span class="lg"><i class="ln-in" />in {inUnit(per("task.enqueued"))}/{unit}</span><span class="lg"><i class="ln-out" />out {inUnit(per("task.completed"))}/{unit}</span></div>
            <Chart flow={flow} series={[["task.enqueued", "ink-3"], ["task.completed", "work-fill"]]} label="Tasks enqueued and completed, per second, over the last hour" /></section>
          <section><div class="sec"><h2>Failed attempts</h2><span class="sub">per second, before retries</span><span class="sp" /><span class="lg"><i class="ln-bad" />failed {rateText(per("task.failed"))}</span></div>
            <Chart flow={flow} series={[["task.failed", "bad-fill"]]} label="Failed attempts per second over the last hour" /></section>
        </div>
      )}
    </>
  );
}

/** Counts in a line that breaks between them only. */
const Parts = ({ children }: { children: string[] }): JSX.Element => <>{children.filter(Boolean).map((one, n) => <>{n > 0 ? " · " : ""}<span class="nw">{one}</span></>)}</>;

/** Per second, over the last whole minute. */
function rate(flow: Flow | null, name: string): number {
  if (!flow) return 0;
  const buckets = Math.max(1, Math.round(60 / flow.seconds));
  const last = (flow.series[name] ?? []).slice(-buckets - 1, -1).filter((value) => value !== null);
  return last.length ? last.reduce((a, b) => a + b, 0) / (last.length * flow.seconds) : 0;
}
const sum = (flow: Flow | null, name: string): number => (flow?.series[name] ?? []).reduce<number>((a, b) => a + (b ?? 0), 0);
const perSecond = (value: number): string => (value === 0 ? "0" : value >= 100 ? num(Math.round(value)) : value >= 1 ? value.toFixed(1) : (value * 60).toFixed(value * 60 < 10 ? 1 : 0));
const unitOf = (value: number, way: string): string => (value === 0 || value >= 1 ? `/s ${way}` : `/m ${way}`);

const shownRate = (value: number): string => (value === 0 ? "0" : value >= 100 ? num(Math.round(value)) : value >= 10 ? value.toFixed(0) : value.toFixed(1));
const rateText = (value: number): string => `${perSecond(value)}${unitOf(value, "")}`.trim();

function UnderWay({ runs, jobs }: { runs: Operation[]; jobs: JobRow[] }): JSX.Element {
  const rolling = jobs.filter((job) => !isOver(job) && !waitsForVotes(job)).slice(0, 5);
  const now = runs.filter((run) => run.state === "running");
  return (
    <><div class="sec"><h2>Under way</h2><span class="sp" /><a class="sub" href={url("/operations")}>All operations</a></div>
      {now.length + rolling.length === 0 ? <p class="dim pb">No job or operation is running.</p> : (
        <ul class="ops">{rolling.map((job) => { const ended = Object.values(job.ended).reduce((a, b) => a + b, 0); const [sign, of] = jobMark(job); return <li><p class="row"><Icon is={sign} of={of} /><a class="strong cut" href={url(jobPath(job))}><Text>{nameOf(job)}</Text></a><span class="sp" /><span class="sub nw">{num(ended)} of {num(job.hosts)}</span></p><Meter parts={endedBar(job)} total={job.hosts} /><p class="sm sub"><Text>{`Wave ${job.wave} of ${job.waves_total} · ${jobWhy(job)}`}</Text></p></li>; })}{now.map((run) => <li><p class="row"><Icon is="running" of="work" /><a class="strong" href={url(`/operations/${run.id}`)}>{run.action} {run.q ?? ""}</a><span class="sp" /><span class="sub">{num(run.done + run.failed)} of {num(run.total)}</span></p>
          <Meter parts={[[run.done, "good"], [run.failed, "bad"]]} total={run.total} /><p class="sm sub">{run.rate_per_second ? `${run.rate_per_second} per second · ` : ""}{plural(run.failed, "refused", "refused")} · by {person(run.actor)}</p></li>)}</ul>
      )}</>
  );
}

const FEED_ROWS = 7;
const LOUD = new Set(["task.progress", "task.output", "task.metrics", "task.enqueued", "task.unblocked", "node.load"]);
/** The latest events, as the feed brings them. */
function Feed(): JSX.Element | null {
  const [rows, setRows] = useState<Event[] | null>(null);
  useEffect(() => {
    if (!may("events.read") || !everywhere()) return;
    let waiting: Event[] = [];
    let begun = false;
    const draw = () => {
      if (begun && waiting.length && !paused.peek()) {
        setRows((old) => [...waiting.reverse(), ...(old ?? [])].slice(0, FEED_ROWS));
        waiting = [];
      }
    };
    void get<Stats>("/stats").then(async (stats) => {
      const [epoch, offset] = String(stats.feed_head).split(":");
      const page = await get<Page<Event>>(`/events?limit=60&after=${epoch}:${Math.max(0, Number(offset) - 60)}`);
      const seen = new Set(waiting.map((event) => event.position));
      setRows(page.items.filter((event) => !LOUD.has(event.kind) && !seen.has(event.position)).reverse().slice(0, FEED_ROWS));
    }).catch(() => setRows([])).finally(() => (begun = true));
    const end = watch("project:all", (frame) => {
      const payload = (frame.payload ?? {}) as Record<string, unknown>;
      const kind = frame.kind ?? frame.type;
      if (LOUD.has(kind)) return;
      const { task_id, task_type, type, project, ...data } = payload;
      waiting = [...waiting, { position: frame.position ?? "", kind, at: frame.at ?? "", task_id: (task_id as string) ?? null, type: ((task_type ?? type) as string) ?? null, project: (project as string) ?? null, version: frame.version ?? null, data }].slice(-FEED_ROWS);
    });
    const timer = setInterval(draw, 250);
    return () => {
      clearInterval(timer);
      end();
    };
  }, []);
  if (!everywhere()) return null;
  return (
    <><div class="sec"><h2>Feed</h2><span class="sp" /><a class="sub" href={url("/events")}>Open</a></div>
      {!rows ? <Skeleton rows={FEED_ROWS} /> : rows.length === 0 ? <p class="dim">{mark.value === "live" ? "Quiet." : "Waits for the feed."}</p> : <ul class="feed">{rows.map((event) => {
        const [sign, of] = markOf(event.kind);
        return <li key={event.position}><span class="m dim">{time(event.at)}</span><Icon is={sign as Sign} of={of} size={12} /><span class="cut">{event.task_id ? <a class="strong" href={url(`/tasks/${event.task_id}`)}><Text>{event.type ?? event.kind}</Text></a> : <b class="strong"><Text>{words(event.kind)}</Text></b>} <span class="m dim">{event.task_id ? short(event.task_id) : ""}</span></span><span class="sub cut" title={clean(about(event))}><Text>{brief(event)}</Text></span></li>;
      })}</ul>}</>
  );
}
