// Fleet jobs: those that live as rows with a bar, ended ones as a table; and one job with its hosts, waves and output.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, Problem, q, who, type Page } from "../lib/api";
import { age, bytes, clean, dur, num, person, plural, time } from "../lib/format";
import { JOB_ENDED, jobMark, jobName, OUTCOME_OF, OUTCOMES, outcomeOf, outcomeOfStatus, type Execution, type Folded, type Job, type JobRow, type Outcome } from "../lib/fleet";
import { useLoad } from "../lib/load";
import { base, go, param, setParams, url } from "../lib/place";
import { confirm } from "../ui/confirm";
import { Icon, type Sign } from "../ui/marks";
import { Matrix, type By } from "../ui/matrix";
import { Button, Copy, Empty, Json, Meter, Output, Seg, Shown, Text, Time, Title, scrollable } from "../ui/parts";

export const JobMark = ({ status }: { status: string }): JSX.Element => {
  const [sign, of, word] = jobMark(status);
  return <span class="st"><Icon is={sign} of={of} /><span>{word}</span></span>;
};

function Bar({ counts, total }: { counts: Partial<Record<Outcome, number>>; total: number }): JSX.Element {
  return <Meter parts={OUTCOMES.filter((one) => one !== "waiting").map((one) => [counts[one] ?? 0, OUTCOME_OF[one]])} total={total} label={OUTCOMES.map((one) => `${counts[one] ?? 0} ${one}`).join(", ")} />;
}
function ofStatuses(counts: Record<string, number>): Partial<Record<Outcome, number>> {
  const all: Partial<Record<Outcome, number>> = {};
  for (const [status, n] of Object.entries(counts)) {
    const outcome = outcomeOfStatus(status.toUpperCase());
    all[outcome] = (all[outcome] ?? 0) + n;
  }
  return all;
}
function why(job: JobRow): string {
  const ended = Object.values(job.ended).reduce((a, b) => a + b, 0);
  if (job.status === "WAIT_APPROVAL") return `Waits for approval since ${time(job.created_at)}`;
  if (job.halt) return `${job.halt.mode === "drain" ? "Stops" : "Stopped"}: ${job.halt.reason || job.halt.cause}${job.halt.actor ? `, by ${person(job.halt.actor)}` : ""}`;
  if (JOB_ENDED.has(job.status)) return `Ended ${time(job.finished_at)}`;
  return `Wave ${job.wave} of ${job.waves_total} · ${num(ended)} of ${num(job.hosts)} ended`;
}

export function Jobs(): JSX.Element {
  const loaded = useLoad((signal) => get<Page<JobRow>>("/jobs?limit=100", signal), "jobs", 500);
  const all = loaded.data?.items ?? [];
  const live = all.filter((job) => !JOB_ENDED.has(job.status));
  const ended = all.filter((job) => JOB_ENDED.has(job.status));
  const waits = live.filter((job) => job.status === "WAIT_APPROVAL").length;
  return (
    <div class="page">
      <Title acts={<><a class="btn" href={url("/fleet/hosts")}>Hosts</a><a class="btn" href={url("/fleet/blocks")}>Blocks</a><a class="btn pri" href={url("/fleet/new")}>New command</a></>}
        sub={waits ? `${plural(waits, "job")} ${waits === 1 ? "waits" : "wait"} for approval.` : undefined}>{!loaded.data ? "Jobs" : all.length === 0 ? "No jobs" : live.length ? `${plural(live.length, "job")} under way` : "No job runs"}</Title>
      <Shown of={loaded}>{() => all.length === 0 ? <div class="wrap"><Empty sign="jobs" title="No jobs" act={<a class="btn pri" href={url("/fleet/new")}>New command</a>}>A job runs one command on many hosts, in waves, within budgets.</Empty></div> : (
        <>
          {live.length > 0 && <ul class="wrap list">{live.map((job) => {
            const [sign, of] = jobMark(job.status);
            const counts = ofStatuses(job.ended);
            return <li class="op jobrow" data-row onClick={(event) => !(event.target as HTMLElement).closest("a") && go(`/fleet/jobs/${job.id}`)}><Icon is={sign} of={of} /><div class="min"><p class="cut"><a class="strong" href={url(`/fleet/jobs/${job.id}`)}><Text>{jobName(job)}</Text></a> <code class="dim"><Text>{`${job.command_type} ${job.command}`}</Text></code></p><p class="sm sub cut">by {person(job.created_by)}, {time(job.created_at)}{job.reason ? <> · “<Text>{job.reason}</Text>”</> : null}</p></div>
              <div class="min"><Bar counts={counts} total={job.hosts} /><p class={`sm cut ${job.status === "WAIT_APPROVAL" ? "person" : "sub"}`}><Text>{why(job)}</Text></p></div><span class="n strong">{num(Object.values(job.ended).reduce((a, b) => a + b, 0))} of {num(job.hosts)}</span><span class="n"><a class={`btn ${job.status === "WAIT_APPROVAL" ? "per" : ""}`} href={url(`/fleet/jobs/${job.id}`)}>{job.status === "WAIT_APPROVAL" ? "Review" : "Open"}</a></span></li>;
          })}</ul>}
          {ended.length > 0 && <><div class="sec"><h2>Ended</h2><span class="sub">{num(ended.length)}</span></div><div class="wrap scroll" ref={scrollable}><table class="t"><thead><tr><th>Job</th><th>Outcome</th><th>Command</th><th class="n">Hosts</th><th class="n c2">Took</th><th class="n">Ended</th><th class="whyc c2">By</th></tr></thead><tbody>
            {ended.map((job) => <tr data-row onClick={() => go(`/fleet/jobs/${job.id}`)}><td><a class="strong" href={url(`/fleet/jobs/${job.id}`)}><Text>{jobName(job)}</Text></a></td><td><JobMark status={job.status} /></td><td class="m"><Text>{`${job.command_type} ${job.command}`.slice(0, 60)}</Text></td><td class="n">{num(job.hosts)}</td><td class="n c2">{job.started_at && job.finished_at ? dur((Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1000) : "–"}</td><td class="n"><Time at={job.finished_at} as="age" /></td><td class="whyc c2"><Text>{`${person(job.created_by)}${job.reason ? `: ${job.reason}` : ""}`}</Text></td></tr>)}</tbody></table></div></>}
        </>
      )}</Shown>
    </div>
  );
}

const LINES = 1_000;
/** All executions of a job, as lines. */
async function executionsOf(id: string, signal: AbortSignal): Promise<Execution[]> {
  const response = await fetch(`${base}/api/v1/jobs/${q(id)}/executions?limit=${LINES}`, { headers: { accept: "application/x-ndjson" }, credentials: "same-origin", signal });
  if (!response.ok) throw new Problem(String(response.status), `The gateway answered ${response.status}.`, response.status);
  const all: Execution[] = [];
  for (const line of (await response.text()).split("\n")) {
    if (!line) continue;
    const row = JSON.parse(line) as Execution & { end?: boolean; problem?: { code: string; detail: string } };
    if (row.problem) throw new Problem(row.problem.code, row.problem.detail);
    if (!row.end) all.push(row);
  }
  return all;
}

export function JobPage({ id }: { id: string }): JSX.Element {
  const loaded = useLoad((signal) => get<Job>(`/jobs/${q(id)}`, signal), `job ${id}`, 500);
  return <div class="page job"><Shown of={loaded} rows={10}>{(job) => <Body job={job} />}</Shown></div>;
}

function Body({ job }: { job: Job }): JSX.Element {
  const [by, setBy] = useState<By>("wave");
  const [only, setOnly] = useState<Outcome | null>(null);
  // Reading all hosts of a large job costs: it is done less often than reading its counts.
  const hosts = useLoad((signal) => executionsOf(job.id, signal), `executions ${job.id}`, Math.max(1_000, job.hosts * 1.5));
  const executions = hosts.data ?? [];
  const counts: Partial<Record<Outcome, number>> = {};
  for (const one of executions) counts[outcomeOf(one.status, one.kind)] = (counts[outcomeOf(one.status, one.kind)] ?? 0) + 1;
  const shown = executions.length ? counts : ofStatuses(job.counts);
  const ended = job.hosts - (shown.running ?? 0) - (shown.waiting ?? 0);
  const over = JOB_ENDED.has(job.status);
  const [sign, of, word] = jobMark(job.status);
  const open = executions.find((one) => one.id === param("host"));
  const order = (verb: "pause" | "resume" | "abort" | "promote", says: string, button: string, danger = false) => confirm({ title: `${verb.charAt(0).toUpperCase() + verb.slice(1)} ${jobName(job)}?`, says, verb: button, keep: "Leave it", path: `/jobs/${job.id}/${verb}`, body: { expected_version: job.version }, needsReason: true, danger, right: "jobs.control", done: `${jobName(job)}: ${verb} was written.`,
    more: <ul class="dry"><li><Icon is="host-waiting" of="idle" /><span>{verb === "abort" ? "never start" : "have not started"}</span><b>{num(shown.waiting ?? 0)}</b></li><li><Icon is="host-running" of="work" /><span>{verb === "abort" ? "run now, and may end" : "run now"}</span><b>{num(shown.running ?? 0)}</b></li><li><Icon is="host-success" of="good" /><span>not touched, have ended</span><b>{num(ended)}</b></li></ul> });
  return (
    <>
      <div class="ttl"><div class="min"><h1><Text>{jobName(job)}</Text></h1><p class="ids sub"><span class={`tag ${of}`}><Icon is={sign} size={12} />{job.status === "RUNNING" ? `wave ${job.wave} of ${job.waves_total}` : word}</span><code><Text>{`${job.command_type} ${job.command}`}</Text></code><span>{job.selector ? <>on <code><Text>{job.selector}</Text></code></> : `on ${plural(job.hosts, "host")}`} · by {person(job.created_by)} · {time(job.created_at)}</span>{job.break_glass && <span class="tag bad">without approval</span>}</p></div><span class="sp" />
        <div class="row wrapf">{!over && job.status !== "PAUSED" && job.status !== "WAIT_APPROVAL" && <Button right="jobs.control" name="Pause" onClick={() => order("pause", "No further host starts. Hosts that run go on.", "Pause the job")}>Pause…</Button>}
          {job.status === "PAUSED" && <Button right="jobs.control" name="Resume" onClick={() => order("resume", "The rollout goes on from where it stands.", "Resume the job")}>Resume…</Button>}
          {job.waves.some((wave) => wave.state === "asked") && <Button rank="per" right="jobs.control" name="Open the next wave" onClick={() => order("promote", "The next wave starts now.", "Open the next wave")}>Open the next wave…</Button>}
          {over && (shown.success ?? 0) < job.hosts && <Button right="jobs.create" name="Retry failed" onClick={() => confirm({ title: "Run again where it did not succeed?", says: "A new job with the same command, for those hosts only.", verb: "Retry failed hosts", keep: "Leave it", path: `/jobs/${job.id}/retry`, right: "jobs.create", done: "A new job was made.", onDone: (answer) => go(`/fleet/jobs/${(answer as { job_id: string }).job_id}`) })}>Retry failed…</Button>}
          {!over && <Button rank="dan" right="jobs.control" name="Abort" onClick={() => order("abort", "What has run stays as it is. This cannot be undone.", `Abort ${num((shown.waiting ?? 0) + (shown.running ?? 0))} hosts`, true)}>Abort…</Button>}</div></div>
      {job.halt && <p class="banner hold"><Icon is="host-paused" of="hold" /><span><b class="strong">{job.halt.cause || job.halt.mode}</b> <Text>{job.halt.reason}</Text>{job.halt.actor ? `, ${person(job.halt.actor)}` : ""}</span></p>}
      {job.approval && job.approval.state === "pending" && <ApprovalBox job={job} />}
      <div class="sec"><h2>{num(ended)} of {plural(job.hosts, "host")} {job.hosts === 1 ? "has" : "have"} ended</h2><span class="sub">{num(shown.success ?? 0)} well</span><span class="sp" /><span class="sub">{over ? (job.started_at && job.finished_at ? `took ${dur((Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1000)}` : "") : job.eta_seconds !== null ? `about ${dur(job.eta_seconds, true)} left` : job.started_at ? `${dur(age(job.started_at), true)} so far` : ""}</span></div>
      <div class="bigbar">{OUTCOMES.filter((one) => one !== "waiting").map((one) => shown[one] ? <i class={`f-${OUTCOME_OF[one]}`} style={{ width: `${(100 * (shown[one] ?? 0)) / Math.max(1, job.hosts)}%` }} /> : null)}</div>
      <div class="legend" role="group" aria-label="Outcomes">{OUTCOMES.map((one) => (shown[one] || one === "success" || one === "failed") ? <button type="button" aria-pressed={only === one} onClick={() => setOnly(only === one ? null : one)}><Icon is={`host-${one}` as Sign} of={OUTCOME_OF[one]} /><b class="strong">{num(shown[one] ?? 0)}</b> {one}</button> : null)}</div>
      <div class="lay side-r"><div class="col">
        <section><div class="sec"><h2>Hosts</h2><span class="sub">{num(job.hosts)}, digest <span class="m">{job.digest.slice(3, 7)}</span></span><span class="sp" /><Seg label="Group by" value={by} onPick={setBy} options={[["wave", "Wave"], ["outcome", "Outcome"], ["name", "Name"]]} /></div>
          <div class="wrap mxw"><Shown of={hosts} rows={3}>{() => <Matrix executions={executions} by={by} only={only} onOpen={(execution) => setParams({ host: execution.id })} />}</Shown></div></section>
        {open && <One job={job} execution={open} />}
        <FoldedOutput job={job} />
      </div><aside class="side">
        <section><h2>Waves</h2><ul class="wv">{job.waves.map((wave) => { const done = Object.values(wave.counts).reduce((a, b) => a + b, 0); return <li><Icon is={wave.state === "closed" ? "completed" : wave.state === "open" ? "running" : wave.state === "asked" ? "decision" : "queued"} of={wave.state === "closed" ? "good" : wave.state === "open" ? "work" : wave.state === "asked" ? "person" : "idle"} /><b class="strong">{wave.n}{wave.n === 1 && job.waves.length > 1 ? " Canary" : wave.n === job.waves.length && wave.n > 1 ? " Rest" : ""}</b><span class="sub">{plural(wave.size, "host")}</span>{wave.state === "open" && <Bar counts={ofStatuses(wave.counts)} total={wave.size} />}<small>{wave.state === "pending" ? "not yet" : wave.state === "asked" ? "waits for a person" : `${num(done)} ended${wave.counts.failed ? `, ${wave.counts.failed} failed` : ""}`}</small></li>; })}</ul></section>
        <section><h2>Budgets</h2><p class="sm sub">One more than the limit stops the job.</p>{Object.entries(job.budget).map(([name, budget]) => <div class="bud"><p class="row"><span>{name}</span><span class="sp" /><span class={budget.used > budget.limit ? "bad" : ""}><b class="strong">{budget.used}</b> of {budget.limit}</span></p><Meter parts={[[budget.used, name === "failed" || name === "canary" ? "bad" : name === "timeout" ? "warn" : name === "lost" ? "doubt" : "idle"]]} total={Math.max(budget.limit, 1)} /></div>)}</section>
        {job.excluded.length > 0 && <section><h2>Left out <span class="dim">{job.excluded.length}</span></h2><ul class="dry">{job.excluded.slice(0, 10).map((one) => <li><Icon is="host-blocked" of="idle" /><span><Text>{one.host}</Text></span><b>{one.reason}</b><small><Text>{one.detail}</Text></small></li>)}</ul></section>}
        <section><h2>Facts</h2><dl class="kv"><dt>reason</dt><dd><Text>{job.reason || "–"}</Text></dd><dt>at once</dt><dd>{String(job.rollout.max_in_flight ?? "–")}</dd><dt>timeout</dt><dd>{dur(job.exec_timeout_seconds)}</dd><dt>repeats</dt><dd>{job.idempotent ? "may be repeated" : "runs at most once"}</dd><dt>started</dt><dd><Time at={job.started_at} /></dd><dt>expires</dt><dd><Time at={job.not_after} /></dd><dt>approval</dt><dd>{job.approval_state.toLowerCase().replace(/_/g, " ")}</dd><dt>digest</dt><dd class="m cut">{job.digest.slice(0, 18)}…<Copy text={job.digest} /></dd></dl></section>
      </aside></div>
    </>
  );
}

export function ApprovalBox({ job }: { job: Job }): JSX.Element {
  const approval = job.approval;
  if (!approval) return <></>;
  const mine = approval.excluded.includes(who.value?.name ?? "");
  const vote = (verb: "approve" | "reject") => confirm({ title: `${verb === "approve" ? "Approve" : "Reject"} ${jobName(job)} on ${plural(job.hosts, "host")}?`, says: verb === "approve" ? "When the votes are enough the first wave starts at once." : "Hosts that have not started are cancelled.", verb: verb === "approve" ? `Approve ${plural(job.hosts, "host")}` : "Reject the job", keep: "Not now", path: `/jobs/${job.id}/${verb}`, body: { expect_digest: approval.digest }, needsReason: true, danger: verb === "reject", right: "jobs.approve", done: verb === "approve" ? "Your vote counts." : "The job was rejected.",
    more: <ul class="dry"><li><Icon is="jobs" of="dim" /><span class="m"><Text>{`${job.command_type} ${job.command}`}</Text></span><b>{plural(job.hosts, "host")}</b></li><li><Icon is="locks" of="dim" /><span>bound to what you see</span><b class="m">{approval.digest.slice(3, 11)}</b></li></ul> });
  const need = Object.entries(approval.need);
  return (
    <div class="why appr"><Icon is="decision" of="person" /><div class="min"><p class="strong">It waits for approval: {need.map(([group, n]) => `${approval.have?.[group] ?? 0} of ${n} from ${group.replace(/^\d+: /, "").replace(/(role|user|group):/g, "")}`).join(", ") || "votes"}.</p><p>{person(approval.requested_by)} asks. {approval.remaining_seconds !== null ? `If nobody answers within ${dur(approval.remaining_seconds, true)} it expires.` : ""} {mine ? "You asked for it: another person has to answer." : ""}</p>
      {(approval.votes ?? []).map((one) => <p class="sm"><b class="strong">{person(one.voter)}</b> {one.verdict}{one.withdrawn_at ? ", withdrawn" : ""}: “<Text>{one.reason}</Text>”</p>)}</div><span class="sp" />
      <div class="row"><Button rank="dan" right="jobs.approve" name="Reject" onClick={() => vote("reject")}>Reject…</Button><Button rank="per" right="jobs.approve" name="Approve" off={mine ? "You asked for this job: another person has to approve it." : undefined} onClick={() => vote("approve")}>Approve {num(job.hosts)} hosts…</Button></div></div>
  );
}

function One({ job, execution }: { job: Job; execution: Execution }): JSX.Element {
  const [stream, setStream] = useState<"stdout" | "stderr">("stdout");
  const reasons = useLoad((signal) => get<{ reasons: { text: string }[] }>(`/jobs/${job.id}/executions/${execution.id}/why`, signal).catch(() => ({ reasons: [] })), `why ${execution.id}`, 2_000).data?.reasons ?? [];
  const logs = useLoad((signal) => get<{ text?: string; end: number }>(`/jobs/${job.id}/executions/${execution.id}/logs?stream=${stream}&limit_bytes=64000`, signal), `logs ${execution.id} ${stream}`, 1_000);
  const outcome = outcomeOf(execution.status, execution.kind);
  return (
    <section><div class="sec"><Icon is={`host-${outcome}` as Sign} of={OUTCOME_OF[outcome]} /><h2><Text>{execution.host}</Text></h2><span class="sub">{execution.kind.replace(/_/g, " ")}{execution.exit_code !== null ? ` · exit ${execution.exit_code}` : ""}{execution.duration_seconds !== null ? ` · ${dur(execution.duration_seconds)}` : ""} · attempt {execution.attempt}</span><span class="sp" /><Seg label="Stream" value={stream} onPick={setStream} options={[["stdout", "stdout"], ["stderr", "stderr"]]} /><button type="button" class="x" aria-label="Close" onClick={() => setParams({ host: null })}><Icon is="close" /></button></div>
      {(execution.reason || reasons.length > 0) && <p class="sub"><Text>{execution.reason || reasons[0]?.text || ""}</Text></p>}
      <Shown of={logs} rows={2}>{(page) => page.end === 0 ? <p class="dim">Nothing on {stream}.</p> : page.text !== undefined ? <Output text={page.text} /> : <p class="sub">Bytes that are no text: {bytes(page.end)}.</p>}</Shown>
      {execution.late != null && <><p class="doubt sm">A result came after it had ended otherwise:</p><Json value={execution.late} /></>}</section>
  );
}

function FoldedOutput({ job }: { job: Job }): JSX.Element {
  const [stream, setStream] = useState<"stdout" | "stderr">("stdout");
  const [open, setOpen] = useState("");
  const loaded = useLoad((signal) => get<Folded>(`/jobs/${job.id}/output?stream=${stream}`, signal), `folded ${job.id} ${stream}`, 2_000);
  return (
    <section><div class="sec"><h2>Output</h2><span class="sub">{loaded.data && loaded.data.groups.length ? `equal ones once; ${num(loaded.data.differing)} differ from the most` : "equal ones once"}</span><span class="sp" /><Seg label="Stream" value={stream} onPick={setStream} options={[["stdout", "stdout"], ["stderr", "stderr"]]} /></div>
      <Shown of={loaded} rows={2}>{(folded) => folded.groups.length === 0 ? <div class="wrap"><Empty sign="command" title={`Nothing on ${stream} yet`}>{folded.missing_count ? `${plural(folded.missing_count, "host")} without output.` : "It is folded here as hosts end."}</Empty></div> : (
        <ul class="wrap list">{folded.groups.map((group) => <li class="foldg"><button type="button" onClick={() => setOpen(open === group.sha256 ? "" : group.sha256)} aria-expanded={open === group.sha256}><span><b class="strong">{plural(group.count, "host")}</b><Meter parts={[[group.count, "good"]]} total={job.hosts} /></span><span class="min"><span class="m cut">{clean(group.sample.split("\n").find(Boolean) ?? "empty")}</span><span class="sm sub cut m">{clean(group.hosts)}</span></span><Icon is={open === group.sha256 ? "down" : "right"} of="dim" /></button>{open === group.sha256 && <div class="pad2"><Output text={group.sample} /></div>}</li>)}
          {folded.more_groups > 0 && <li class="pad2 sub">{num(folded.more_groups)} more groups</li>}</ul>
      )}</Shown></section>
  );
}
