// Dead letters: grouped by cause, with examples inside, and a replay that starts with a canary.
import { json } from "../lib/exact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, missing, post, q, type Page, type Problem } from "../lib/api";
import { age, bytes, causeOf, dur, num, person, plural, short, time } from "../lib/format";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { go, param, setParams, url } from "../lib/place";
import { keepReason } from "../lib/prefs";
import { EXECUTION } from "../lib/rules";
import type { DryRun, Group, Operation, Task, TaskRow } from "../lib/types";
import { act, ReasonField, Refused } from "../ui/act";
import { Icon } from "../ui/marks";
import { Button, Command, Empty, Field, Json, Meter, Seg, Shown, Text, Time, Title, toast, scrollable } from "../ui/parts";
import { Spark } from "../ui/chart";
import { QueryBar } from "../ui/query";

type By = "cause" | "type" | "one";

export function DeadLetters(): JSX.Element {
  const by = (param("by") || (param("q") ? "one" : "cause")) as By;
  const cause = param("cause");
  const groups = useLoad((signal) => get<Page<Group>>("/dead-letters/groups?limit=200", signal), "groups", 1_000);
  const replays = useLoad((signal) => get<Page<Operation>>("/operations?limit=20", signal).then((page) => page.items.filter((run) => run.action === "replay")), "replays", 1_000, (runs) => runs.some((run) => run.state === "running")).data ?? [];
  const chosen = groups.data?.items.find((group) => group.fingerprint === cause);
  const total = groups.data?.items.reduce((sum, group) => sum + group.count, 0) ?? 0;
  return (
    <div class={chosen && by === "cause" ? "split" : "one"}>
      <div class="page">
        <Title sub="Tasks that rest in failed. They keep their payload and history until you replay or discard them." acts={total > 0 && <Button right="dead.replay" onClick={() => act("replay", { query: `status:failed -type:${EXECUTION}`, count: total })}>Replay all…</Button>}>
          {groups.data ? (total === 0 ? "No dead letters" : `${plural(total, "dead letter")}, ${plural(groups.data.items.length, "cause")}`) : "Dead letters"}</Title>
        <div class="row"><Seg label="Grouped" value={by} onPick={(value) => setParams({ by: value === "cause" ? null : value, cause: null })} options={[["cause", "By cause"], ["type", "By type"], ["one", "One by one"]]} /></div>
        {by === "one" ? <OneByOne /> : (
          <Shown of={groups}>{(page) => page.items.length === 0 ? <div class="wrap gap"><Empty sign="letters" title="No dead letters" command="holdfast dlq groups">A task comes here when its last attempt fails.</Empty></div>
            : by === "type" ? <ByType groups={page.items} /> : <ByCause groups={page.items} chosen={cause} />}</Shown>
        )}
        {replays.length > 0 && <><div class="sec"><h2>Replays</h2></div><ul class="wrap list">{replays.slice(0, 5).map((run) => <Replay run={run} />)}</ul></>}
      </div>
      {chosen && by === "cause" && <ReplaySheet key={chosen.fingerprint} group={chosen} onClose={() => setParams({ cause: null })} />}
    </div>
  );
}

const QUIET_SECONDS = 3_600;
function ByCause({ groups, chosen }: { groups: Group[]; chosen: string }): JSX.Element {
  const trend = useLoad((signal) => get<{ causes: Record<string, number[]> }>("/dead-letters/trend", signal), "trend", 10_000).data?.causes ?? {};
  return (
    <div class="grp">
      <div class="gh0"><span /><span>Cause and type</span><span class="n">24 h, count</span><span class="n">Last, first</span><span /></div>
      {groups.map((group) => (
        <>
          <div class={`g1 ${group.fingerprint === chosen ? "on" : ""}`} data-row onClick={() => setParams({ cause: group.fingerprint === chosen ? null : group.fingerprint })}>
            <Icon is="failed" of="bad" /><div class="min"><p class="cut m"><a href={url(`/dead-letters?cause=${group.fingerprint}`)} onClick={(event) => event.preventDefault()}><Text>{group.error || "no message"}</Text></a>{age(group.last_at) > QUIET_SECONDS ? <span class="tag">quiet {dur(age(group.last_at), true)}</span> : age(group.last_at) < 300 ? <span class="tag bad">recent</span> : null}</p><p class="sm sub"><Text>{group.type}</Text>{group.error_type ? <> · <Text>{group.error_type}</Text></> : null}</p></div>
            <span class="cnt">{trend[group.fingerprint] && <span class="wide" title={`By hour, over 24 hours: ${trend[group.fingerprint]?.join(", ")}`}><Spark values={trend[group.fingerprint] ?? []} of="bad" /></span>}<b>{num(group.count)}</b></span><span class="n sm sub"><Time at={group.last_at} /><br /><span class="dim">since {time(group.first_at)}</span></span><Icon is={group.fingerprint === chosen ? "down" : "right"} of="dim" />
          </div>
          {group.fingerprint === chosen && <Examples group={group} />}
        </>
      ))}
    </div>
  );
}

function Examples({ group }: { group: Group }): JSX.Element {
  const loaded = useLoad((signal) => get<Page<Task>>(`/dead-letters/latest?fingerprint=${q(group.fingerprint)}&limit=5`, signal), `examples ${group.fingerprint}`, 2_000);
  return (
    <div class="ex"><Shown of={loaded} rows={3}>{(page) => (
      <><div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>Task</th><th>Died</th><th class="n">Tries</th><th>Payload</th></tr></thead><tbody>
        {page.items.map((task) => <tr><td class="m"><a href={url(`/tasks/${task.id}`)}>{short(task.id)}</a></td><td><Time at={task.finished_at} /></td><td class="n">{task.attempts} of {task.max_attempts}</td><td class="m dim whyc"><Text>{json(task.payload)}</Text></td></tr>)}</tbody></table></div>
        <p class="row sm sub"><span>{page.items.length} of {num(group.count)}. {place(page.items[0])}</span><span class="sp" /><a class="strong" href={url(`/tasks?q=${q(`status:failed fingerprint:${group.fingerprint}`)}`)}>Show all {num(group.count)}</a></p></>
    )}</Shown></div>
  );
}

function place(task: Task | undefined): string {
  const frames = [...(task?.failure?.traceback ?? "").matchAll(/File "([^"]+)", line (\d+), in (\S+)/g)];
  const last = frames.at(-1);
  return last ? `Died in ${last[1]?.split("/").pop()}:${last[2]}, ${last[3]}.` : "";
}

function ByType({ groups }: { groups: Group[] }): JSX.Element {
  const types = new Map<string, { count: number; causes: number; last: string }>();
  for (const group of groups) {
    const old = types.get(group.type) ?? { count: 0, causes: 0, last: "" };
    types.set(group.type, { count: old.count + group.count, causes: old.causes + 1, last: group.last_at > old.last ? group.last_at : old.last });
  }
  return (
    <div class="wrap gap scroll" ref={scrollable}><table class="t"><thead><tr><th>Type</th><th class="n">Count</th><th class="n">Causes</th><th class="n">Last</th><th /></tr></thead><tbody>
      {[...types].sort((a, b) => b[1].count - a[1].count).map(([type, found]) => <tr data-row><td><a class="strong" href={url(`/dead-letters?by=one&q=${q(`type:${type}`)}`)}><Text>{type}</Text></a></td><td class="n">{num(found.count)}</td><td class="n">{num(found.causes)}</td><td class="n"><Time at={found.last} /></td>
        <td class="n"><Button small right="dead.replay" name={`Replay ${type}`} onClick={() => act("replay", { query: `status:failed type:${type}`, count: found.count })}>Replay…</Button></td></tr>)}</tbody></table></div>
  );
}

function OneByOne(): JSX.Element {
  const query = param("q");
  const after = param("after");
  const loaded = useLoad((signal) => get<Page<TaskRow>>(`/dead-letters?limit=50&q=${q(query)}${after ? `&after=${q(after)}` : ""}`, signal), `dead ${query} ${after}`);
  const bad = loaded.error?.body.at !== undefined ? loaded.error : undefined;
  return (
    <>
      <div class="row gap"><QueryBar value={query} onSearch={(text) => setParams({ q: text, after: null, by: "one" }, false)} label="Search dead letters" error={bad} /></div>
      {!bad && <Shown of={loaded}>{(page) => (
        <div class="wrap gap">{page.items.length === 0 ? <Empty sign="letters" title="No dead letter matches" act={query ? <Button onClick={() => setParams({ q: null, by: "one" })}>Drop the search</Button> : undefined} /> : (
          <div class="scroll" ref={scrollable}><table class="t"><thead><tr><th>Type</th><th>Id</th><th class="n">Died</th><th class="n">Tries</th><th class="whyc">Error</th><th /></tr></thead><tbody>
            {page.items.map((task) => <tr data-row key={task.id}><td><a class="strong" href={url(`/tasks/${task.id}`)}><Text>{task.type}</Text></a></td><td class="m dim">{short(task.id)}</td><td class="n"><Time at={task.finished_at} as="age" /></td><td class="n">{task.attempts}/{task.max_attempts}</td><td class="whyc m"><Text>{task.error ?? ""}</Text></td>
              <td class="n"><Button small right="tasks.intervene" name={`Retry ${short(task.id)}`} onClick={() => act("retry", { task })}>Retry…</Button></td></tr>)}</tbody></table></div>
        )}<div class="tfoot"><span class="sp" /><Button small off={after ? undefined : "This is the newest page."} onClick={() => history.back()}>Newer</Button><Button small off={page.next ? undefined : "There are no older ones."} onClick={() => setParams({ after: page.next }, false)}>Older</Button></div></div>
      )}</Shown>}
    </>
  );
}

function Replay({ run }: { run: Operation }): JSX.Element {
  const left = run.total - run.done - run.failed;
  return (
    <li class="oprow"><Icon is={run.state === "running" ? "running" : run.state === "done" ? "completed" : "paused"} of={run.state === "running" ? "work" : run.state === "done" ? "good" : "hold"} />
      <div class="min"><p class="cut"><a class="strong" href={url(`/operations/${run.id}`)}><Text>{causeOf(run) ?? plural(run.total, "task")}</Text></a></p><p class="sm sub">by {person(run.actor)}, {time(run.created_at)} · <Text>{run.detail || (run.state === "running" ? `${run.rate_per_second ? `${run.rate_per_second} per second` : "as fast as it goes"}${run.stop_on_fail_share ? `, stops at ${Math.round(run.stop_on_fail_share * 100)} % failed again` : ""}` : left ? `${left} were not touched` : "Done")}</Text></p></div>
      <Meter parts={[[run.done, "good"], [run.failed, "bad"]]} total={run.total} /><span class="n sub">{num(run.done + run.failed)} of {num(run.total)}</span></li>
  );
}

function ReplaySheet({ group, onClose }: { group: Group; onClose: () => void }): JSX.Element {
  const query = `status:failed fingerprint:${group.fingerprint}`;
  const [canary, setCanary] = useState("5");
  const [rate, setRate] = useState("20");
  const [stop, setStop] = useState("20");
  const [reason, setReason] = useState("");
  const [dry, setDry] = useState<(DryRun & { at: string }) | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const sample = useLoad((signal) => get<Task>(`/tasks/${group.sample_id}`, signal), `sample ${group.sample_id}`, 60_000).data;
  useEffect(() => {
    let over = false;
    post<DryRun>("/operations", { action: "replay", q: query, dry_run: true }).then((found) => !over && (setDry({ ...found, at: new Date().toISOString() }), setWrong(null))).catch((error: Problem) => !over && setWrong(error));
    return () => {
      over = true;
    };
  }, [group.fingerprint, group.count]);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const run = await post<Operation>("/operations", {
        action: "replay", q: query, reason, expect_count: dry?.count, ...(Number(canary) ? { canary: Number(canary) } : {}), ...(Number(rate) ? { rate_per_second: Number(rate) } : {}), ...(Number(stop) ? { stop_on_fail_share: Number(stop) / 100 } : {}),
      });
      keepReason(reason);
      toast(<>Replay of {plural(run.total, "task")}: <a href={url(`/operations/${run.id}`)}>operation {short(run.id)}</a></>);
      afterAct();
      go(`/operations/${run.id}`);
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const first = Math.min(Number(canary) || 0, dry?.eligible ?? 0);
  const takes = dry && Number(rate) ? dry.eligible / Number(rate) : null;
  return (
    <aside class="sheet" aria-label="Replay this cause">
      <div class="row top"><div class="min"><h2 class="big">Replay {plural(group.count, "task")}</h2><p class="m sub cut"><Text>{group.error}</Text></p></div><span class="sp" /><button type="button" class="x" aria-label="Close" onClick={onClose}><Icon is="close" /></button></div>
      <form class="stack gap" onSubmit={send}>
        <div class="two"><Field label="Canary first" help="The rest waits until these have ended."><span class="inp"><input inputMode="numeric" value={canary} onInput={(event) => setCanary(event.currentTarget.value)} /><span class="u">tasks</span></span></Field>
          <Field label="Then at most"><span class="inp"><input inputMode="decimal" value={rate} onInput={(event) => setRate(event.currentTarget.value)} /><span class="u">per second</span></span></Field></div>
        <Field label="Stop at" help="Refused or dead again. One of the canary stops it at once."><span class="inp"><input inputMode="numeric" value={stop} onInput={(event) => setStop(event.currentTarget.value)} /><span class="u">% failed again</span></span></Field>
        <div><p class="lab">Dry run <span class="dim">{dry ? `${time(dry.at)}, nothing was changed` : "…"}</span></p>
          {dry && <ul class="dry"><li><Icon is="queued" of="idle" /><span>will be queued again</span><b>{num(dry.eligible)}</b></li>{dry.skipped.map((skip) => <li><Icon is="aborted" of="dim" /><span>skipped: {skip.reason.replace(/-/g, " ")}</span><b>{num(skip.count)}</b></li>)}{takes !== null && <li><Icon is="schedules" of="dim" /><span>takes about</span><b>{dur(Math.max(1, takes), true)}</b></li>}</ul>}</div>
        {age(group.last_at) < 600 && <p class="banner warn"><Icon is="stuck" of="warn" /><span>It still fails: the last one {dur(age(group.last_at), true)} ago. The canary will show it first.</span></p>}
        {wrong && <Refused error={wrong} />}
        <ReasonField value={reason} onInput={setReason} needed={false} />
        <div class="row"><Button rank="pri" type="submit" right="dead.replay" name="Start the replay" busy={busy} off={!dry || dry.eligible === 0 ? "No task would be queued again." : undefined}>{first && first < (dry?.eligible ?? 0) ? `Start canary of ${first}` : `Replay ${plural(dry?.eligible ?? 0, "task")}`}</Button><Button onClick={onClose}>Cancel</Button><span class="sp" />
          <Button rank="dan" right="dead.discard" name="Discard" onClick={() => act("discard", { query, count: group.count })}>Discard…</Button></div>
        <Command>{`holdfast op run replay -q 'fingerprint:${group.fingerprint}'${Number(canary) ? ` --canary ${canary}` : ""}${Number(rate) ? ` --rate ${rate}` : ""}${Number(stop) ? ` --stop-on-fail-share ${Number(stop) / 100}` : ""}${reason ? ` --reason ${JSON.stringify(reason)}` : ""}`}</Command>
        {sample && <div><p class="row lab"><span>An example</span><span class="dim">{bytes(sample.payload_bytes)}</span><span class="sp" /><a href={url(`/tasks/${sample.id}`)}>{missing("dead.replay", "Edit") ? "Open" : "Open to edit and replay"}</a></p><Json value={sample.payload} /></div>}
      </form>
    </aside>
  );
}
