// A job: progress, all hosts as one picture, waves and budgets, outputs with equal ones once, and one host in full.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { ask, get, type Page } from "../lib/api";
import { amount, barOf, commandOf, countLooks, digestShort, FAMILY_OF, isEnded, isOver, isPaused, jobApi, jobMark, jobPath, jobWhy, KINDS, lookOf, LOOKS, MEANING, nameOf, signOf, standing, waitsForVotes, type Counts, type Execution, type Folded, type Job as JobView, type Look, type Matrix as Cells, type OutputGroup, type Wave } from "../lib/fleet";
import { age, bytes, capital, dur, num, percent, person, plural, short, spanText, time } from "../lib/format";
import { screenKeys } from "../lib/keys";
import { useLoad } from "../lib/load";
import { nameHere, param, setParams, url } from "../lib/place";
import { ApprovalPanel, LeftOut } from "../ui/approval";
import { Icon, type Family } from "../ui/marks";
import { looksOf, Matrix } from "../ui/matrix";
import { actOnJob, JobActDialog, renewJobAct } from "../ui/job_act";
import { Button, Command, Copy, Empty, Meter, Output, Seg, Shown, Text, Time, Wrong } from "../ui/parts";

const LIVE_MS = 700;
const REST_MS = 4_000;

export function Job({ id }: { id: string }): JSX.Element {
  const [over, setOver] = useState(false);
  const loaded = useLoad((signal) => get<JobView>(`/jobs/${encodeURIComponent(id)}`, signal), `job ${id}`, over ? REST_MS : LIVE_MS);
  const job = loaded.data;
  useEffect(() => void (job && setOver(isOver(job))), [job?.status]);
  // Whether the hosts have moved is asked once: it reads all of them.
  const drift = useLoad(job && waitsForVotes(job) ? (signal) => get<JobView>(`/jobs/${job.id}?drift=true`, signal) : null, `drift ${job?.id ?? ""} ${job?.digest ?? ""}`, 60_000).data?.drift ?? null;
  return <div class="page job"><Shown of={loaded} rows={10}>{(found) => <Body job={{ ...found, drift }} />}</Shown><JobActDialog /></div>;
}

function Body({ job }: { job: JobView }): JSX.Element {
  useLayoutEffect(() => nameHere(nameOf(job)), [job.id]);
  const over = isOver(job);
  const names = useLoad((signal) => get<Cells>(`/jobs/${job.id}/matrix?names=true`, signal), `names ${job.id}`, 600_000);
  const live = useLoad((signal) => get<Cells>(`/jobs/${job.id}/matrix`, signal), `cells ${job.id} ${over}`, over ? REST_MS * 5 : LIVE_MS);
  const cells = names.data && { ...names.data, cells: live.data?.cells.length === names.data.cells.length ? live.data.cells : names.data.cells };
  const counts = cells ? countCells(cells) : countLooks(job.kinds);
  const { ended } = standing(job);
  const host = param("host");
  const asks = job.waves.find((wave) => wave.state === "asked");
  const failed = counts.failed + counts.timeout + counts.lost + (over ? counts.unreachable : 0);
  useLayoutEffect(() => {
    screenKeys.value = over ? [{ keys: "⇧R", what: "Retry what did not succeed", run: () => actOnJob("retry", job) }] : [
      isPaused(job) ? { keys: "⇧P", what: "Resume the job", run: () => actOnJob("resume", job) } : { keys: "⇧P", what: "Pause the job", run: () => actOnJob("pause", job) },
      { keys: "⇧A", what: "Abort the job", run: () => actOnJob("abort", job) },
    ];
    return () => void (screenKeys.value = []);
  });
  useEffect(() => renewJobAct(job), [job]);
  const asked = param("act");
  useEffect(() => {
    if (asked !== "retry" || !over) return;
    setParams({ act: null });
    actOnJob("retry", job);
  }, [asked, over]);
  const [sign, of, word] = jobMark(job);
  return (
    <>
      <div class="ttl"><div><h1><Text>{nameOf(job)}</Text></h1>
        <p class="cmd"><span class={`tag ${of === "dim" ? "" : of}`}><Icon is={sign} of={of} size={12} />{!over && job.wave > 0 && !job.halt ? `wave ${job.wave} of ${job.waves_total}` : word}</span><code class="wrapt"><Text>{commandOf(job)}</Text></code><span class="dim">{job.selector ? <>on <code><Text>{job.selector}</Text></code> · </> : ""}by <Text>{person(job.created_by)}</Text> · <Time at={job.created_at} />{job.project !== "default" ? <> · {job.project}</> : null}</span></p></div>
        <span class="sp" /><div class="row wrapf acts"><Acts job={job} failed={failed} /></div></div>
      <Banners job={job} />
      <div class="prog"><p class="row wrapf"><b class="big">{ended === job.hosts && over ? `${plural(job.hosts, "host")} ended` : `${num(ended)} of ${num(job.hosts)} hosts have ended`}</b><span class="sub">{num(counts.success)} succeeded</span><span class="sp" />
        <span class="sub">{over ? <>took {dur(span(job), true)}</> : job.started_at ? <>{job.eta_seconds !== null && ended > 0 ? <>about <b class="strong ink">{dur(job.eta_seconds, true)}</b> left · {rate(ended, age(job.started_at))} hosts/s · </> : null}{dur(age(job.started_at), true)} so far</> : "not started"}</span></p>
        <Bar counts={counts} total={job.hosts} /><Legend counts={counts} /></div>
      <div class="lay side-r jobl"><div class="min"><Hosts job={job} cells={cells} error={names.error} counts={counts} /><Outputs job={job} ended={ended} /></div>
        <aside class="side">
          {cells && failed > 0 && <WhereItFails cells={cells} />}
          {job.approval && waitsForVotes(job) && <ApprovalPanel job={job} />}
          <Waves job={job} asks={asks} counts={counts} />
          <Budgets job={job} />
          {job.approval && !waitsForVotes(job) && <ApprovalPanel job={job} />}
          <About job={job} />
        </aside></div>
      {host && <Sheet key={host} job={job} host={host} />}
    </>
  );
}

const span = (job: JobView): number => (job.finished_at && (job.started_at ?? job.created_at) ? (Date.parse(job.finished_at) - Date.parse(job.started_at ?? job.created_at)) / 1000 : NaN);
const rate = (n: number, seconds: number): string => { const per = n / Math.max(1, seconds); return per >= 10 ? num(Math.round(per)) : per.toFixed(1); };
function countCells(cells: Cells): Counts {
  const found: Record<string, number> = {};
  for (const letter of cells.cells) found[letter] = (found[letter] ?? 0) + 1;
  const kinds: Record<string, number> = {};
  for (const [letter, n] of Object.entries(found)) kinds[cells.kinds[letter] ?? "unknown"] = (kinds[cells.kinds[letter] ?? "unknown"] ?? 0) + n;
  return countLooks(kinds);
}

function Acts({ job, failed }: { job: JobView; failed: number }): JSX.Element {
  if (isOver(job)) return <>{failed > 0 && <Button right="jobs.create" name="Retry failed" onClick={() => actOnJob("retry", job)}>Retry failed…<kbd class="k">⇧R</kbd></Button>}<a class="btn" href={url(`/fleet/new?like=${job.id}`)}>Run again…</a>{job.glass && !job.glass.reviewed_by && <Button rank="per" right="jobs.approve" name="Review" onClick={() => actOnJob("review", job)}>Review…</Button>}</>;
  const asks = job.waves.some((wave) => wave.state === "asked");
  return (
    <>
      {job.started_at && <Button right="jobs.control" name="Change the window" onClick={() => actOnJob("change", job)}>In flight {amount(job.rollout.max_in_flight)}…</Button>}
      {asks && !job.halt && <Button rank="per" right="jobs.control" name="Open the wave" onClick={() => actOnJob("promote", job)}>Open wave {job.wave + 1}…</Button>}
      {waitsForVotes(job) ? <Button right="jobs.break_glass" name="Break glass" onClick={() => actOnJob("break-glass", job)}>Break glass…</Button>
        : isPaused(job) ? <Button rank="pri" right="jobs.control" name="Resume" onClick={() => actOnJob("resume", job)}>Resume…<kbd class="k">⇧P</kbd></Button>
        : !job.halt && <Button right="jobs.control" name="Pause" onClick={() => actOnJob("pause", job)}>Pause…<kbd class="k">⇧P</kbd></Button>}
      {failed > 0 && <Button right="jobs.create" name="Retry failed" low onClick={() => actOnJob("retry", job)}>Retry failed…</Button>}
      {job.glass && !job.glass.reviewed_by && <Button rank="per" right="jobs.approve" name="Review" onClick={() => actOnJob("review", job)}>Review…</Button>}
      <Button rank="dan" right="jobs.control" name="Abort" onClick={() => actOnJob("abort", job)}>Abort…<kbd class="k">⇧A</kbd></Button>
    </>
  );
}

function Banners({ job }: { job: JobView }): JSX.Element {
  const halt = job.halt;
  return (
    <>
      {halt && <p class={`banner ${isPaused(job) ? "hold" : isOver(job) && halt.cause === "budget" ? "bad" : "hold"}`}><Icon is={halt.cause === "budget" ? "stuck" : "host-paused"} of={isPaused(job) ? "hold" : "bad"} /><span><b class="strong"><Text>{jobWhy(job).replace(/\.?$/, ".")}</Text></b> {isPaused(job) ? "No further host starts until a person resumes it." : isOver(job) ? "" : halt.mode === "abort" ? "Hosts that run are ended." : "Hosts that run finish."}</span></p>}
      {waitsForVotes(job) && <p class="banner person"><Icon is="decision" of="person" /><span><b class="strong">It waits for approval.</b> No host has started. {job.approval?.expires_at ? <>Without an answer it expires at <b class="strong">{time(job.approval.expires_at)}</b>.</> : null}</span><span class="sp" /><a class="btn" href={url(`/inbox/${job.id}`)}>Review</a></p>}
      {job.glass && <p class={`banner ${job.glass.reviewed_by ? "" : "warn"}`}><Icon is="stuck" of="warn" /><span><b class="strong">Started without its approval</b> by <Text>{person(job.glass.actor)}</Text>, <Time at={job.glass.at} />, ticket <Text>{job.glass.ticket}</Text>: “<Text>{job.glass.reason}</Text>”. {job.glass.reviewed_by ? <>Reviewed by <Text>{person(job.glass.reviewed_by)}</Text>{job.glass.note ? <>: “<Text>{job.glass.note}</Text>”</> : null}</> : "Another person has to review it."}</span></p>}
    </>
  );
}

function Bar({ counts, total }: { counts: Counts; total: number }): JSX.Element {
  return <div class="bigbar" role="img" aria-label={LOOKS.filter((look) => counts[look]).map((look) => `${num(counts[look])} ${look}`).join(", ")}>{barOf(counts).map(([n, of]) => (n > 0 ? <i class={`f-${of}`} style={{ width: `${(100 * n) / Math.max(1, total)}%` }} /> : null))}</div>;
}

/** Counts with the shapes of the picture; each is a filter of hosts. */
function Legend({ counts }: { counts: Counts }): JSX.Element {
  const only = param("look");
  return (
    <div class="leg" role="group" aria-label="Show only">
      {LOOKS.filter((look) => counts[look] > 0 || look === only).map((look) => (
        <button type="button" title={capital(MEANING[look])} aria-pressed={only === look} onClick={() => setParams({ look: only === look ? null : look })}><Icon is={signOf(look)} of={FAMILY_OF[look]} /><b>{num(counts[look])}</b>{look}</button>
      ))}
    </div>
  );
}

// -- hosts -------------------------------------------------------------------------------------------

function Hosts({ job, cells, error, counts }: { job: JobView; cells: Cells | undefined; error: import("../lib/api").Problem | undefined; counts: Counts }): JSX.Element {
  const view = param("view") === "table" ? "table" : "cells";
  const labels = cells ? Object.keys(cells.labels) : [];
  // A label that differs on nearly every host groups nothing.
  const first = ["site", "zone", "dc", "region", "rack"].find((key) => labels.includes(key) && new Set(cells?.labels[key]).size * GROUP_LEAST <= job.hosts) ?? "name";
  const by = param("by") || first;
  const options: [string, string][] = [...(first === "name" ? [["name", "Name"] as [string, string]] : []), ...[...labels].sort((a, b) => Number(b === first) - Number(a === first)).slice(0, 4).map((key) => [key, capital(key)] as [string, string]), ...(job.waves_total > 1 ? [["wave", "Wave"] as [string, string]] : []), ["outcome", "Outcome"]];
  const only = LOOKS.find((look) => look === param("look")) ?? "";
  return (
    <section><div class="sec wrapf"><h2>Hosts</h2><span class="sub">{num(job.hosts)}, pinned {time(job.created_at)}, digest <span class="m">{digestShort(job.digest).slice(0, 4)}</span></span><span class="sp" />
      {view === "cells" && <><span class="sm dim hid">Group by</span><Seg label="Group by" value={by} options={options} onPick={(value) => setParams({ by: value === first ? null : value })} /></>}
      <Seg label="Show hosts as" value={view} options={[["cells", "Cells"], ["table", "Table"]]} onPick={(value) => setParams({ view: value === "table" ? value : null })} /></div>
      {view === "table" ? <Table job={job} only={only} counts={counts} /> : cells ? <Matrix jobId={job.id} cells={cells} by={by} only={only} open={param("host")} onOpen={(host) => setParams({ host: host === param("host") ? null : host })} /> : error ? <div class="wrap"><Wrong error={error} /></div> : <div class="mx tall" />}
      {view === "cells" && cells && <p class="sm dim mxhelp">Point at a host to see it, click to open it. Arrow keys move from host to host.</p>}
    </section>
  );
}

const STATUS: Partial<Record<Look, string>> = { success: "SUCCESS", running: "RUNNING" };
/** Hosts of a group, on average, from which on a label is worth a row each. */
const GROUP_LEAST = 4;
const PAGE = 50;

function Table({ job, only, counts }: { job: JobView; only: Look | ""; counts: Counts }): JSX.Element {
  const [limit, setLimit] = useState(PAGE);
  const name = param("find");
  const kinds = only === "" ? [] : KINDS.filter((kind) => lookOf(kind) === only && (job.kinds[kind] ?? 0) > 0);
  const key = `executions ${job.id} ${only} ${kinds.join()} ${name} ${limit}`;
  const loaded = useLoad(async (signal) => {
    const base = `/jobs/${job.id}/executions?limit=${limit}${name ? `&host=${encodeURIComponent(name)}` : ""}`;
    const asked = only === "" ? [base] : STATUS[only] ? [`${base}&status=${STATUS[only]}`] : kinds.map((kind) => `${base}&kind=${kind}`);
    const pages = await Promise.all(asked.map((path) => get<Page<Execution>>(path, signal)));
    return { items: pages.flatMap((page) => page.items).sort((a, b) => a.nth - b.nth).slice(0, limit), more: pages.some((page) => page.next !== null) };
  }, key, isOver(job) ? REST_MS : LIVE_MS * 2);
  const total = only === "" ? job.hosts : counts[only];
  return (
    <div class="wrap"><div class="filt"><Icon is="search" of="dim" /><input data-search aria-label="Name of a host" placeholder="Name of a host" value={name} onChange={(event) => setParams({ find: event.currentTarget.value.trim() })} />{only && <span class="tok">{only}<button type="button" aria-label="Show all hosts" onClick={() => setParams({ look: null })}><Icon is="close" size={12} /></button></span>}</div>
      <Shown of={loaded}>{(found) => found.items.length === 0 ? <Empty sign="search" title={name ? `No host ${name} in this job` : "No host matches"} act={<Button onClick={() => setParams({ find: null, look: null })}>Show all {num(job.hosts)}</Button>} /> : (
        <><div class="scroll"><table class="t"><thead><tr><th>Status</th><th>Host</th><th class="n c3">Wave</th><th class="n">Exit</th><th class="n">Took</th><th class="n c3">Attempt</th><th>Why</th></tr></thead><tbody>{found.items.map((one) => {
          const look = lookOf(one.kind);
          return <tr data-row key={one.id} class={param("host") === one.host ? "open" : ""} onClick={() => setParams({ host: one.host })}><td><span class="st"><Icon is={signOf(look)} of={FAMILY_OF[look]} /><span>{one.kind.replace(/_/g, " ")}</span></span></td><td class="strong"><a href={url(`${jobPath(job)}?host=${encodeURIComponent(one.host)}&view=table`)} onClick={(event) => { event.preventDefault(); event.stopPropagation(); setParams({ host: one.host }); }}><Text>{one.host}</Text></a></td><td class="n c3">{one.wave ?? <span class="dim">–</span>}</td><td class="n">{one.exit_code ?? <span class="dim">–</span>}</td><td class="n">{dur(one.duration_seconds)}</td><td class="n c3">{one.attempt}</td><td class={`whyc ${look === "failed" ? "bad" : ""}`} title={one.reason}><Text>{one.reason}</Text></td></tr>;
        })}</tbody></table></div><p class="tfoot"><span>{num(found.items.length)} of {num(total)}{only ? ` ${only}` : ""}</span><span>{Math.round(loaded.ms)} ms</span><span class="sp" />{(found.more || found.items.length < total) && !name && limit < 1000 && <Button small onClick={() => setLimit((n) => Math.min(1000, n * 4))}>Show more</Button>}</p></>
      )}</Shown></div>
  );
}

/** The labels whose hosts fail most: what they have in common. */
function WhereItFails({ cells }: { cells: Cells }): JSX.Element | null {
  const looks = looksOf(cells);
  const bad = new Set(["failed", "timeout", "lost", "unreachable"].map((look) => LOOKS.indexOf(look as Look)));
  const rows: { name: string; bad: number; all: number }[] = [];
  for (const [key, values] of Object.entries(cells.labels)) {
    const found = new Map<string, [number, number]>();
    values.forEach((value, nth) => {
      const entry = found.get(value) ?? [0, 0];
      entry[1] += 1;
      if (bad.has(looks[nth] ?? 2)) entry[0] += 1;
      found.set(value, entry);
    });
    for (const [value, [failed, all]] of found) if (failed > 0 && value) rows.push({ name: `${key}=${value}`, bad: failed, all });
  }
  const top = rows.sort((a, b) => b.bad / b.all - a.bad / a.all || b.bad - a.bad).slice(0, 5);
  if (top.length === 0) return null;
  return (
    <section><div class="sec"><h2>Where it fails</h2><span class="sp" /><span class="sm dim">by label</span></div>
      <ul class="bg fails">{top.map((row) => <li><code class="cut"><Text>{row.name}</Text></code><span><b class="strong">{num(row.bad)}</b> <span class="dim">of {num(row.all)}</span></span><Meter parts={[[row.bad, "bad"]]} total={row.all} /></li>)}</ul></section>
  );
}

// -- waves, budgets, facts ---------------------------------------------------------------------------

const BUCKETS: [string, Family, string][] = [["success", "good", "succeeded"], ["failed", "bad", "failed"], ["timeout", "warn", "timed out"], ["lost", "doubt", "lost"], ["unreachable", "idle", "out of reach"], ["blocked", "idle", "blocked"], ["cancelled", "idle", "cancelled"]];
function waveLine(wave: Wave, job: JobView): ComponentChildren {
  const done = Object.values(wave.counts).reduce((a, b) => a + b, 0);
  const parts = BUCKETS.filter(([key]) => wave.counts[key]).map(([key, , word]) => `${num(wave.counts[key] ?? 0)} ${word}`);
  const bake = job.rollout.bake_seconds;
  if (wave.state === "closed") return `${done === wave.counts.success ? "All succeeded" : parts.join(", ")}${bake ? ` · then ${spanText(bake)} of rest` : ""}`;
  if (wave.state === "open") return `${num(done)} of ${num(wave.size)} done${parts.length > 1 ? ` · ${parts.slice(1).join(", ")}` : ""}`;
  if (wave.state === "asked") return <span class="person">Waits for a person to open it</span>;
  if (isOver(job) || job.halt) return "Not reached";
  return job.rollout.gate === "ask" && wave.n > 1 ? `Asks a person when wave ${wave.n - 1} has ended` : bake && wave.n > 1 ? `Starts ${spanText(bake)} after the wave before` : "Waits";
}
function Waves({ job, asks, counts }: { job: JobView; asks: Wave | undefined; counts: Counts }): JSX.Element {
  return (
    <section><div class="sec"><h2>Waves</h2><span class="sp" /><span class="sm dim">{job.rollout.waves.map(amount).join(", ") || "all at once"}</span></div>
      <ol class="wv">{job.waves.map((wave) => (
        <li><Icon is={wave.state === "closed" ? "completed" : wave.state === "open" ? "running" : wave.state === "asked" ? "decision" : "blocked"} of={wave.state === "closed" ? "good" : wave.state === "open" ? "work" : wave.state === "asked" ? "person" : "idle"} /><span class="strong">{wave.n}{wave.n === 1 && job.waves.length > 1 ? " Canary" : wave.n === job.waves.length && wave.n > 1 ? " Rest" : ""}</span><span class="sub">{plural(wave.size, "host")}</span>
          {wave.state === "open" && <Meter parts={[...BUCKETS.map(([key, of]) => [wave.counts[key] ?? 0, of] as [number, Family]), [Math.min(counts.running, wave.size), "work"]]} total={wave.size} />}<small>{waveLine(wave, job)}{wave.state === "open" && counts.running > 0 ? ` · ${num(counts.running)} in flight of ${amount(job.rollout.max_in_flight)}` : ""}</small></li>
      ))}</ol>
      {asks && !job.halt && <p class="row gap"><Button rank="per" right="jobs.control" name={`Review wave ${asks.n}`} onClick={() => actOnJob("promote", job)}>Review wave {asks.n}</Button></p>}</section>
  );
}

const BUDGET_WORDS: Record<string, [string, Family]> = { canary: ["Failed in the canary", "bad"], failed: ["Failed", "bad"], timeout: ["Timed out after start", "warn"], lost: ["Lost or unknown", "doubt"], unreachable: ["Unreachable before start", "idle"] };
const BREACH: Record<string, string> = { pause: "pauses the job", drain: "stops it, running hosts finish", abort: "stops it and ends running hosts" };
function Budgets({ job }: { job: JobView }): JSX.Element {
  const rows = Object.entries(job.budget);
  const near = isOver(job) || job.halt ? [] : rows.filter(([, use]) => use.used > 0 && use.used === use.limit);
  return (
    <section><div class="sec"><h2>Budgets</h2><span class="sp" /><span class="sm dim">{rows.length ? `one more ${BREACH[job.rollout.on_breach] ?? "halts"}` : ""}</span></div>
      {rows.length === 0 ? <p class="sub">No limits: every host is run, whatever happens to the others.</p> : <ul class="bg">{rows.map(([name, use]) => { const [word, of] = BUDGET_WORDS[name] ?? [name, "idle"]; return <li><span>{word}</span><span><b class={`strong ${use.used > use.limit ? "bad" : ""}`}>{num(use.used)}</b> <span class="dim">of {num(use.limit)}</span></span><Meter parts={[[use.used, use.used > use.limit ? "bad" : of]]} total={Math.max(use.limit, use.used, 1)} /></li>; })}</ul>}
      {near.map(([name]) => <div class="why slim"><Icon is="stuck" of="warn" /><div class="sm"><p class="strong">One more {(BUDGET_WORDS[name]?.[0] ?? name).toLowerCase().split(" ")[0]} host {BREACH[job.rollout.on_breach] ?? "halts the job"}.</p></div></div>)}</section>
  );
}

function About({ job }: { job: JobView }): JSX.Element {
  return (
    <section><h2>About</h2><dl class="kv"><dt>id</dt><dd class="m">{short(job.id)}<Copy text={job.id} name="Copy the id" /></dd>{job.external_id && <><dt>name</dt><dd><Text>{job.external_id}</Text></dd></>}<dt>type</dt><dd><Text>{job.command_type}</Text>{job.idempotent ? ", may be repeated" : ""}</dd><dt>timeout</dt><dd>{spanText(job.exec_timeout_seconds)}</dd>{job.not_after && !isOver(job) && <><dt>starts until</dt><dd><Time at={job.not_after} /></dd></>}{!job.approval && <><dt>digest</dt><dd class="m">{digestShort(job.digest)}<Copy text={job.digest} name="Copy the digest" /></dd></>}{job.reason && <><dt>reason</dt><dd><Text>{job.reason}</Text></dd></>}{job.parent_job_id && <><dt>retry of</dt><dd><a class="lnk m" href={url(`/fleet/jobs/${job.parent_job_id}`)}>{short(job.parent_job_id)}</a></dd></>}{Object.keys(job.env).length > 0 && <><dt>environment</dt><dd class="m"><Text>{Object.entries(job.env).map(([name, value]) => `${name}=${value}`).join(" ")}</Text></dd></>}</dl>
      {job.excluded.length > 0 && <><h3 class="gap pb">Left out when it was made</h3><LeftOut excluded={job.excluded} /></>}
      <div class="gap"><Command>{`holdfast job show ${job.external_id ?? job.id}`}</Command></div></section>
  );
}

// -- output ------------------------------------------------------------------------------------------

function Outputs({ job, ended }: { job: JobView; ended: number }): JSX.Element {
  const asked = param("stream");
  const [all, setAll] = useState(20);
  const loaded = useLoad(async (signal) => {
    const of = (name: string) => get<Folded>(`/jobs/${job.id}/output?stream=${name}&limit=${all}`, signal);
    const first = await of(asked === "stderr" ? asked : "stdout");
    // A command that is silent when all is well has its errors only: they are shown then, unless asked otherwise.
    const errors = asked === "" && ended > 0 && first.groups.length === 0 ? await of("stderr") : null;
    return errors?.groups.length ? { ...errors, stream: "stderr" } : { ...first, stream: asked === "stderr" ? asked : "stdout" };
  }, `output ${job.id} ${asked} ${all} ${isOver(job)}`, isOver(job) ? 30_000 : 3_000);
  const found = loaded.data;
  const stream = found?.stream === "stderr" ? "stderr" : "stdout";
  const most = found?.groups[0];
  return (
    <section class="gapl"><div class="sec wrapf"><h2>Output</h2><span class="sub">{found && most ? (found.differing ? `${num(most.count)} the same, ${num(found.differing)} differ` : `${num(most.count)} the same`) : ""}</span><span class="sp" /><Seg label="Stream" value={stream} options={[["stdout", "Output"], ["stderr", "Errors"]]} onPick={(value) => setParams({ stream: value })} /></div>
      <div class="wrap"><Shown of={loaded} rows={3}>{(folded) => folded.groups.length === 0 ? <Empty sign="command" title={ended ? `Nothing was written to ${stream}` : "No output yet"}>{ended ? asked === "" ? "Its hosts were silent on both streams." : "The other stream may have some." : "The output of each host comes here when it has ended, equal outputs once."}</Empty> : (
        <ul class="fold">{folded.groups.map((group, n) => <Group key={group.sha256} group={group} most={folded.groups[0]} n={n} total={job.hosts} />)}
          {folded.more_groups > 0 && <li><b class="sub">{plural(folded.more_groups, "group")}</b><span /><Button small onClick={() => setAll((limit) => Math.min(1000, limit * 5))}>Show more</Button></li>}
          {folded.missing_count > 0 && <li><b class="dim">{plural(folded.missing_count, "host")}</b><span class="dim cut">{`no ${stream === "stdout" ? "output" : "errors"}${ended < job.hosts ? " so far" : ""}`} · <span class="m"><Text>{folded.missing}</Text></span></span></li>}</ul>
      )}</Shown></div></section>
  );
}

const DIFF_LINES = 12;
function Group({ group, most, n, total }: { group: OutputGroup; most: OutputGroup | undefined; n: number; total: number }): JSX.Element {
  const [open, setOpen] = useState(false);
  const lines = group.sample.split("\n");
  const title = lines.find((line) => line.trim() !== "") ?? "";
  const differs = n > 0 && most !== undefined;
  return (
    <li><div><b class="strong">{plural(group.count, "host")}</b><Meter parts={[[group.count, n === 0 ? "good" : "warn"]]} total={total} /></div>
      <div class="min"><p class="cut"><code><Text>{title.slice(0, 200)}</Text>{group.bytes === 0 ? <span class="dim">(empty)</span> : null}</code></p><p class="sm dim cut m" title={group.hosts}><Text>{group.hosts}</Text></p></div>
      <div class="row"><span class="tag">{bytes(group.bytes)}</span><button type="button" class="x" aria-expanded={open} aria-label={open ? "Fold the output" : "Open the output"} onClick={() => setOpen(!open)}><Icon is={open ? "down" : "right"} /></button></div>
      {open && (differs ? <Diff from={most.sample} to={group.sample} /> : <Output text={group.sample} />)}
      {open && <p class="sm sub fx">{group.bytes > group.sample.length ? `The first ${bytes(group.sample.length)} of ${bytes(group.bytes)}. ` : ""}<a class="lnk" href={url(`${location.pathname.slice(url("").length)}?host=${encodeURIComponent(group.first)}`)}>Open {group.first}</a></p>}</li>
  );
}

/** What a group says that most do not, and the other way round; a common line is quiet. */
function Diff({ from, to }: { from: string; to: string }): JSX.Element {
  const [a, b] = [from.split("\n").slice(0, 200), to.split("\n").slice(0, 200)];
  const [inA, inB] = [new Set(a), new Set(b)];
  const rows: [string, string][] = [...a.filter((line) => !inB.has(line)).slice(0, DIFF_LINES).map((line) => ["-", line] as [string, string]), ...b.slice(0, 60).map((line) => [inA.has(line) ? " " : "+", line] as [string, string])];
  return <pre class="well out fx">{rows.map(([sign, line]) => <span class={sign === "-" ? "del" : sign === "+" ? "add" : ""}>{sign} <Text>{line}</Text>{"\n"}</span>)}</pre>;
}

// -- one host ----------------------------------------------------------------------------------------

interface Why { reasons: { code: string; text: string }[] }
interface Log { text?: string; data_base64?: string; end: number; next: number; complete: boolean; gaps: { start: number; size: number }[] }

function Sheet({ job, host }: { job: JobView; host: string }): JSX.Element {
  const close = () => setParams({ host: null, log: null });
  useEffect(() => {
    const key = (event: KeyboardEvent) => event.key === "Escape" && !document.querySelector("dialog[open]") && close();
    document.addEventListener("keydown", key);
    return () => document.removeEventListener("keydown", key);
  });
  const path = `${jobApi(job)}/executions/${encodeURIComponent(host)}`;
  const [ended, setEnded] = useState(false);
  const loaded = useLoad(async (signal) => {
    const [execution, why] = await Promise.all([get<Execution>(path, signal), get<Why>(`${path}/why`, signal)]);
    return { execution, why };
  }, `execution ${path}`, ended ? REST_MS : LIVE_MS);
  useEffect(() => void (loaded.data && setEnded(isEnded(loaded.data.execution.kind))), [loaded.data?.execution.kind]);
  return (
    <aside class="drawer" aria-label={`Host ${host}`}><div class="dh"><h2 class="cut m"><Text>{host}</Text></h2><span class="sp" /><a class="btn sm" href={url(`/fleet/hosts/${encodeURIComponent(host)}`)}>Open host</a><button type="button" class="x" aria-label="Close" onClick={close}><Icon is="close" /></button></div>
      <div class="db"><Shown of={loaded}>{({ execution, why }) => {
        const look = lookOf(execution.kind);
        return (
          <>
            <div class="why"><Icon is={signOf(look)} of={FAMILY_OF[look]} size={20} /><div><p class="strong">{execution.kind.replace(/_/g, " ")}{execution.exit_code !== null ? `, exit ${execution.exit_code}` : ""}{execution.signal ? `, signal ${execution.signal}` : ""}</p>{why.reasons.map((reason) => <p class="wrapt"><Text>{reason.text}</Text></p>)}</div></div>
            {execution.late != null && <p class="banner warn"><Icon is="late" of="warn" /><span><b class="strong">A result came late.</b> The execution had ended otherwise; what the host said is kept beside it.</span></p>}
            <dl class="kv gap"><dt>attempt</dt><dd>{execution.attempt} of {execution.max_attempts}</dd><dt>token</dt><dd class="m">{execution.token ?? "–"}</dd><dt>wave</dt><dd>{execution.wave ?? "not reached"}</dd><dt>got its go</dt><dd><Time at={execution.started_at} /></dd><dt>ended</dt><dd><Time at={execution.finished_at} />{execution.duration_seconds !== null ? `, took ${dur(execution.duration_seconds)}` : ""}</dd><dt>execution</dt><dd class="m">{short(execution.id)}<Copy text={execution.id} name="Copy the id" /> <a class="lnk" href={url(`/tasks/${execution.id}`)}>task</a></dd></dl>
            <LogView path={path} execution={execution} />
            <div class="gap"><Command>{`holdfast job why ${job.external_id ?? job.id} ${host}`}</Command></div>
          </>
        );
      }}</Shown></div></aside>
  );
}

function LogView({ path, execution }: { path: string; execution: Execution }): JSX.Element {
  const stream = param("log") === "stderr" || (param("log") === "" && execution.exit_code !== 0 && (execution.output.stderr?.bytes ?? 0) > 0) ? "stderr" : "stdout";
  const loaded = useLoad(async (signal) => (await ask<Log>("GET", `/api/v1${path}/logs?stream=${stream}`, undefined, signal)).body, `log ${path} ${stream} ${execution.attempt} ${execution.finished_at ?? ""}`, isEnded(execution.kind) ? 60_000 : LIVE_MS);
  return (
    <section class="gap"><div class="sec"><h2>Output</h2><span class="sp" /><Seg label="Stream of this host" value={stream} options={[["stdout", `Output ${execution.output.stdout ? bytes(execution.output.stdout.bytes) : ""}`], ["stderr", `Errors ${execution.output.stderr ? bytes(execution.output.stderr.bytes) : ""}`]]} onPick={(value) => setParams({ log: value })} /></div>
      <Shown of={loaded} rows={3}>{(log) => log.end === 0 ? <p class="dim">{isEnded(execution.kind) ? `Nothing was written to ${stream}.` : "Nothing was written yet."}</p> : <><Output text={textOf(log)} />{(log.next < log.end || log.gaps.length > 0) && <p class="sm sub">{log.next < log.end ? `The first ${bytes(log.next)} of ${bytes(log.end)}. ` : ""}{log.gaps.length ? `${percent(log.gaps.reduce((n, gap) => n + gap.size, 0) / log.end)} of it was not kept.` : ""}</p>}</>}</Shown></section>
  );
}
const textOf = (log: Log): string => log.text ?? new TextDecoder().decode(Uint8Array.from(atob(log.data_base64 ?? ""), (c) => c.charCodeAt(0)));
