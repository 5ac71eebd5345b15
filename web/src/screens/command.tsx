// New command: where, what, how; the plan beside it is always there, and the act is bound to it.
import { json, parse } from "../lib/exact";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, type Page, type Problem } from "../lib/api";
import { digestShort, gathered, isOver, type HostGroup, type Job, type JobAnswer, type Selection } from "../lib/fleet";
import { clean, num, plural, spanText, time } from "../lib/format";
import { useLoad } from "../lib/load";
import { go, param, setParams, withParams } from "../lib/place";
import { keepReason } from "../lib/prefs";
import { Refused } from "../ui/act";
import { LeftOut } from "../ui/approval";
import { Icon } from "../ui/marks";
import { dropPreset, SavePreset, usePresets, type Preset } from "../ui/presets";
import { Button, Command, Empty, Field, Seg, Text, Title, toast } from "../ui/parts";

interface Type { label: string; says: string; help: string; repeats: boolean }
const TYPES: Record<string, Type> = {
  exec: { label: "The command, without a shell", says: "runs the words as they are", help: "apt-get install -y openssl. Pipes and redirections need shell.", repeats: false },
  restart: { label: "The unit to restart", says: "runs systemctl restart, no shell", help: "For example nginx", repeats: true },
  shell: { label: "A line for the shell", says: "runs in a shell, and always asks for approval", help: "df -h / | tail -1", repeats: false },
  facts: { label: "", says: "reports what the hosts are", help: "", repeats: true },
  ping: { label: "", says: "only answers", help: "", repeats: true },
  noop: { label: "", says: "runs nothing", help: "", repeats: true },
};
const FIELDS = ["selector", "type", "other", "command", "args", "name", "timeout", "waves", "at_once", "rest", "gate", "failed", "timed_out", "lost", "unreachable", "breach", "reason", "project"] as const;
type Form = Record<(typeof FIELDS)[number], string>;
const DEFAULTS: Form = { selector: "", type: "exec", other: "", command: "", args: "", name: "", timeout: "", waves: "1, 5%, rest", at_once: "50", rest: "", gate: "auto", failed: "0", timed_out: "2%", lost: "1%", unreachable: "10%", breach: "drain", reason: "", project: "" };
const PLAN_MS = 350;

const amount = (text: string): number | string | null => (text.trim() === "" ? null : /^\d+$/.test(text.trim()) ? Number(text) : text.replace(/\s/g, ""));
const wavesOf = (text: string): (number | string)[] => text.split(",").map((part) => amount(part)).filter((part): part is number | string => part !== null);

function bodyOf(form: Form): { body: Record<string, unknown>; wrong: string } {
  let args: unknown = undefined;
  let wrong = "";
  if (form.args.trim())
    try {
      args = parse(form.args);
    } catch {
      wrong = "Arguments are no JSON object.";
    }
  const type = form.type === "other" ? form.other.trim() : form.type;
  return {
    wrong,
    body: {
      selector: form.selector.trim(), command_type: type, command: TYPES[form.type]?.label === "" ? "" : form.command, reason: form.reason, ...(form.name.trim() ? { external_id: form.name.trim() } : {}), ...(args !== undefined ? { args } : {}),
      ...(form.project ? { project: form.project } : {}), ...(Number(form.timeout) ? { exec_timeout_seconds: Number(form.timeout) } : {}),
      rollout: {
        waves: wavesOf(form.waves), ...(amount(form.at_once) !== null ? { max_in_flight: amount(form.at_once) } : {}), ...(Number(form.rest) ? { bake_seconds: Number(form.rest) } : {}), gate: form.gate, on_breach: form.breach,
        budget: { failed: amount(form.failed), timeout: amount(form.timed_out), lost: amount(form.lost), unreachable: amount(form.unreachable) },
      },
    },
  };
}
/** What a template keeps of a request: not the name, which stands for one job. */
const templateOf = ({ external_id: _, ...body }: Record<string, unknown>): Record<string, unknown> => body;
/** The form that a job was made with. */
function formOf(job: Job): Partial<Form> {
  const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));
  const known = job.command_type in TYPES;
  return {
    selector: job.selector ?? "", type: known ? job.command_type : "other", other: known ? "" : job.command_type, command: job.command, args: Object.keys(job.args).length ? json(job.args) : "", timeout: text(job.exec_timeout_seconds), waves: job.rollout.waves.join(", "),
    at_once: text(job.rollout.max_in_flight), rest: job.rollout.bake_seconds ? text(job.rollout.bake_seconds) : "", gate: job.rollout.gate, breach: job.rollout.on_breach, failed: text(job.rollout.budgets.failed), timed_out: text(job.rollout.budgets.timeout), lost: text(job.rollout.budgets.lost), unreachable: text(job.rollout.budgets.unreachable), project: job.project === "default" ? "" : job.project,
  };
}
/** The form of a template: it has the fields of a request for a job. */
function formOfBody(body: Record<string, unknown>): Form {
  const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));
  const rollout = (body.rollout ?? {}) as Record<string, unknown>;
  const budget = (rollout.budget ?? {}) as Record<string, unknown>;
  const type = text(body.command_type) || "exec";
  const known = type in TYPES;
  return {
    ...DEFAULTS, selector: text(body.selector), type: known ? type : "other", other: known ? "" : type, command: text(body.command), args: body.args ? json(body.args) : "", timeout: text(body.exec_timeout_seconds), reason: text(body.reason), project: text(body.project),
    waves: Array.isArray(rollout.waves) ? rollout.waves.join(", ") : DEFAULTS.waves, at_once: text(rollout.max_in_flight) || DEFAULTS.at_once, rest: text(rollout.bake_seconds), gate: text(rollout.gate) || "auto", breach: text(rollout.on_breach) || "drain", failed: text(budget.failed), timed_out: text(budget.timeout), lost: text(budget.lost), unreachable: text(budget.unreachable),
  };
}
function Templates({ all, onPick }: { all: Preset[]; onPick: (template: Preset) => void }): JSX.Element | null {
  if (all.length === 0) return null;
  const close = (event: Event) => (event.currentTarget as Element).closest("details")?.removeAttribute("open");
  return (
    <details class="menu"><summary class="btn">From template<Icon is="down" size={12} /></summary><div class="pop">
      {all.map((one) => <div class="row popr"><button type="button" onClick={(event) => { close(event); onPick(one); }}><Text>{one.name}</Text><span class="dim sm"><Text>{String(one.body.command_type ?? "")}</Text></span></button><button type="button" class="x" aria-label={`Remove the template ${one.name}`} onClick={(event) => { close(event); dropPreset(one); }}><Icon is="close" size={12} /></button></div>)}</div></details>
  );
}
/** The plan as a command: every field that the form sends has its option. */
function commandLine(form: Form): string {
  const type = form.type === "other" ? form.other : form.type;
  const quote = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);
  const options: [string, string][] = [
    ["type", type === "exec" ? "" : type], ["hosts", form.selector.trim()], ["external-id", form.name.trim()], ["project", form.project], ["timeout", Number(form.timeout) ? `${form.timeout}s` : ""],
    ["waves", form.waves.replace(/\s/g, "")], ["max-in-flight", form.at_once.replace(/\s/g, "")], ["bake", Number(form.rest) ? `${form.rest}s` : ""], ["gate", form.gate === "auto" ? "" : form.gate],
    ["max-fail", form.failed.trim() || "none"], ["max-timeout", form.timed_out.trim() || "none"], ["max-lost", form.lost.trim() || "none"], ["max-unreachable", form.unreachable.trim() || "none"], ["on-breach", form.breach === "drain" ? "" : form.breach], ["reason", form.reason.trim()],
  ];
  return ["holdfast run", ...options.filter(([, value]) => value).map(([name, value]) => `--${name} ${quote(value)}`), "--plan", TYPES[form.type]?.label === "" || !form.command ? "" : `-- ${/^[\w@%+=:,./ -]+$/.test(form.command) ? form.command : quote(form.command)}`].join(" ").trim();
}

export function NewCommand(): JSX.Element {
  const [form, setForm] = useState<Form>(() => Object.fromEntries(FIELDS.map((name) => [name, param(name) || DEFAULTS[name]])) as Form);
  const [plan, setPlan] = useState<(JobAnswer & { at: string; key: string }) | null>(null);
  const [chosen, setChosen] = useState<Selection | null>(null);
  const [where, setWhere] = useState<Problem | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [all, setAll] = useState(false);
  const templates = usePresets("template");
  const [saving, setSaving] = useState(false);
  const like = param("like");
  const before = useLoad(like ? (signal) => get<Job>(`/jobs/${encodeURIComponent(like)}`, signal) : null, `like ${like}`, 600_000).data;
  useEffect(() => void (before && setForm((old) => ({ ...old, ...formOf(before) }))), [before?.id]);
  const groups = useLoad((signal) => get<Page<HostGroup>>(withParams("/groups", { limit: "100", project: form.project }), signal).then((page) => page.items).catch(() => [] as HostGroup[]), `groups ${form.project}`, 60_000).data ?? [];
  const set = (name: keyof Form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  const type = TYPES[form.type];
  const needsCommand = form.type !== "other" && type?.label !== "";
  const { body, wrong: malformed } = bodyOf(form);
  const key = json({ ...body, reason: "" });
  const isReady = form.selector.trim() !== "" && (!needsCommand || form.command.trim() !== "") && (form.type !== "other" || form.other.trim() !== "") && !malformed;
  // The address holds the form: it can be sent to someone, and back brings it again.
  useEffect(() => {
    const timer = setTimeout(() => setParams(Object.fromEntries(FIELDS.map((name) => [name, form[name] === DEFAULTS[name] ? null : form[name]]))), PLAN_MS);
    return () => clearTimeout(timer);
  }, [JSON.stringify(form)]);
  useEffect(() => {
    let over = false;
    const selector = form.selector.trim();
    if (!selector) return setChosen(null), setWhere(null);
    const timer = setTimeout(() => {
      get<Selection>(withParams("/hosts/select", { selector, project: form.project })).then((found) => !over && (setChosen(found), setWhere(null))).catch((error: Problem) => !over && (setChosen(null), setWhere(error)));
    }, PLAN_MS / 2);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [form.selector, form.project]);
  useEffect(() => {
    if (!isReady) return setPlan(null), setWrong(null);
    let over = false;
    const timer = setTimeout(() => {
      post<JobAnswer>("/jobs", { ...body, dry_run: true }).then((found) => !over && (setPlan({ ...found, at: new Date().toISOString(), key }), setWrong(null))).catch((error: Problem) => !over && (setPlan(null), setWrong(error)));
    }, PLAN_MS);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key]);
  const isFresh = plan?.key === key;
  const send = async (event: Event) => {
    event.preventDefault();
    if (!plan || !isFresh) return;
    setBusy(true);
    try {
      const made = await post<JobAnswer>("/jobs", body);
      keepReason(form.reason);
      toast(made.approval_state === "WAIT_APPROVAL" ? "It waits for approval." : "The first wave starts.");
      go(`/fleet/jobs/${made.job_id}`);
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const needs = plan?.approval_state === "WAIT_APPROVAL";
  const runs = plan ? plan.hosts - plan.excluded.length : 0;
  return (
    <><form class="split newc" onSubmit={send}>
      <div class="page stack"><Title sub={before ? <>As <Text>{before.external_id ?? before.command}</Text>{isOver(before) ? "" : ", which still runs"}. Nothing runs before you have seen the plan.</> : "Nothing runs before you have seen the plan."} acts={<Templates all={templates} onPick={(one) => { setForm(formOfBody(one.body)); toast(<>The form of <b class="strong"><Text>{one.name}</Text></b>. Nothing runs yet.</>); }} />}>New command</Title>
        <section class="panel"><header><span class="num1">1</span><h2>Where</h2><span class="sp" /><span class="sm sub hid">pinned when you ask; hosts that join later are not added</span></header><div class="in stack">
          <Field label="Hosts" error={where?.message} help={chosen ? undefined : "role=web & env=production ! @drained, web-[001-120], *"}><span class="inp"><Icon is="search" of="dim" /><input class="m" autoFocus required value={form.selector} spellcheck={false} autocomplete="off" aria-invalid={where ? "true" : undefined} onInput={set("selector")} /><span class={`u ${chosen ? "strong ink" : ""}`}>{chosen ? plural(chosen.count, "host") : ""}</span></span></Field>
          {groups.length > 0 && <p class="row wrapf sm"><span class="dim">Groups</span>{groups.slice(0, 8).map((group) => <button type="button" class="tok" title={group.selector} onClick={() => setForm({ ...form, selector: form.selector.trim() ? `${form.selector.trim()}&@${group.name}` : `@${group.name}` })}>@<Text>{group.name}</Text></button>)}</p>}
          {chosen && <Spread hosts={chosen.hosts} />}
          {chosen && chosen.count > 0 && <p class="row top"><code class={`sub min wrapt ${all ? "allh" : "cut"}`}>{clean(chosen.folded)}</code>{chosen.folded.length > 90 && <><span class="sp" /><button type="button" class="lnk nw" onClick={() => setAll(!all)}>{all ? "Show less" : `Show all ${num(chosen.count)}`}</button></>}</p>}
          {chosen?.count === 0 && <p class="sm bad">No host matches. A job needs at least one.</p>}</div></section>
        <section class="panel"><header><span class="num1">2</span><h2>What</h2><span class="sp" /><Seg label="Type" value={form.type} onPick={(next) => setForm({ ...form, type: next })} options={[...Object.keys(TYPES).map((name) => [name, name] as [string, string]), ["other", "other"]]} /></header><div class="in stack">
          {form.type === "other" && <Field label="Command type" help="A type of the settings of the server"><input class="inp m" value={form.other} spellcheck={false} onInput={set("other")} /></Field>}
          {(needsCommand || form.type === "other") && <Field label={type?.label || "Command"} help={type?.help}><input class="inp m" value={form.command} spellcheck={false} autocomplete="off" onInput={set("command")} /></Field>}
          <div class="two"><Field label="Name, optional" help="The same name with the same body is the same job."><input class="inp" value={form.name} onInput={set("name")} /></Field><Field label="Timeout"><span class="inp"><input inputMode="numeric" placeholder="default" value={form.timeout} onInput={set("timeout")} /><span class="u">s</span></span></Field></div>
          {form.type === "other" && <Field label="Arguments" help="A JSON object" error={malformed || undefined}><input class="inp m" value={form.args} placeholder='{"release": "1.4"}' onInput={set("args")} /></Field>}
          {type && <p class="row sm sub"><Icon is={type.repeats ? "completed" : "info"} of={type.repeats ? "good" : "dim"} /><span><b class="strong">{form.type}</b> {type.says}. {type.repeats ? "It may be repeated: a host that is lost is retried." : "It runs at most once on each host; a host that is lost is not retried."}</span></p>}</div></section>
        <section class="panel"><header><span class="num1">3</span><h2>How</h2></header><div class="in stack">
          <div class="three"><Field label="Waves" help="Numbers or shares of the hosts, in order."><input class="inp m" value={form.waves} onInput={set("waves")} /></Field><Field label="At once"><span class="inp"><input value={form.at_once} onInput={set("at_once")} /><span class="u">hosts</span></span></Field><Field label="Rest between"><span class="inp"><input inputMode="numeric" placeholder="0" value={form.rest} onInput={set("rest")} /><span class="u">s</span></span></Field></div>
          <fieldset class="four"><legend class="lab">Budgets <span class="dim">of hosts; one more stops the job</span></legend>{([["failed", "Failed"], ["timed_out", "Timed out"], ["lost", "Lost"], ["unreachable", "Out of reach"]] as [keyof Form, string][]).map(([name, word]) => <Field label={word}><span class="inp"><input value={form[name]} placeholder="no limit" onInput={set(name)} /><span class="u">{typeof amount(form[name]) === "string" && chosen ? num(Math.floor((Number.parseFloat(form[name]) * chosen.count) / 100)) : ""}</span></span></Field>)}</fieldset>
          <div class="two"><Field label="Between waves"><select class="inp" value={form.gate} onChange={set("gate")}><option value="auto">continue</option><option value="ask">ask a person</option></select></Field><Field label="When a budget is full"><select class="inp" value={form.breach} onChange={set("breach")}><option value="drain">stop; running hosts finish</option><option value="pause">pause until a person resumes</option><option value="abort">stop and end running hosts</option></select></Field></div>
          <Field label="Reason" help="Kept with your name."><input class="inp" value={form.reason} onInput={set("reason")} /></Field></div></section>
      </div>
      <aside class="sheet plan" aria-label="Plan"><div class="row"><h2 class="big">Plan</h2><span class="sub">{plan ? `at ${time(plan.at)}, nothing was changed` : ""}</span><span class="sp" />{plan && <code class="dim" title={plan.digest}>{digestShort(plan.digest)}</code>}</div>
        {wrong ? <div class="gap"><Refused error={wrong} /></div> : !plan ? <Empty sign="jobs" title={!form.selector.trim() ? "Say where first" : where ? "Say where it can be read" : isReady ? "The plan is being made" : "Say what first"}>{isReady && !where ? "It reads the hosts, their blocks and the rules of approval." : "The plan is here as soon as hosts and a command are chosen."}</Empty> : <Planned plan={plan} form={form} runs={runs} needs={needs} />}
        <div class="planact"><Button rank="pri" type="submit" right="jobs.create" name={needs ? "Ask for approval" : "Run"} busy={busy} off={plan && isFresh ? (runs > 0 ? undefined : "No host would run it.") : "There is no plan yet."}>{plan ? (needs ? `Ask for approval of ${num(runs)}` : `Run on ${plural(runs, "host")}`) : "Run"}</Button>
          <Button right="presets.write" name="Save as template" off={isReady ? undefined : "Say where and what first."} onClick={() => setSaving(true)}>Save as template…</Button>
          <p class="sm sub">{needs ? "Bound to this plan. If hosts, blocks or the command change before it starts, the votes are void." : "The hosts are chosen again when you run it."}</p>{isReady && <Command>{commandLine(form)}</Command>}</div>
      </aside>
    </form>
      {saving && <SavePreset kind="template" body={templateOf(body)} known={templates} first={form.name} onClose={() => setSaving(false)} />}</>
  );
}

/** How the hosts spread over the starts of their names. */
function Spread({ hosts }: { hosts: string[] }): JSX.Element | null {
  const found = new Map<string, number>();
  for (const host of hosts) {
    const name = /^[^-._0-9]*[0-9]*(?=[-._])|^[^0-9]*/.exec(host)?.[0] || host;
    found.set(name, (found.get(name) ?? 0) + 1);
  }
  if (found.size < 2 || found.size > 12) return null;
  return <div class="spread">{[...found].sort((a, b) => b[1] - a[1]).map(([name, n]) => <div style={{ flexGrow: n }}><i class="f-idle" /><span class="cut"><b class="strong">{clean(name)}</b> {num(n)}</span></div>)}</div>;
}

function Planned({ plan, form, runs, needs }: { plan: JobAnswer; form: Form; runs: number; needs: boolean }): JSX.Element {
  const { waves } = plan;
  let start = 0;
  return (
    <div class="stack gap"><p class="big">{num(runs)} of {plural(plan.hosts, "host")}, {plural(waves.length, "wave")}</p>
      <ol class="wv plans">{waves.map((size, n) => {
        const from = start;
        start += size;
        const word = n === 0 && waves.length > 1 ? "Canary" : n === waves.length - 1 && n > 0 ? "Rest" : `Wave ${n + 1}`;
        return <li><span class="num1">{n + 1}</span><b class="strong">{word}</b><span>{num(size)}</span><Scale from={from} size={size} of={plan.hosts} /><small>{n === 0 ? (waves.length > 1 ? "any failure stops the job" : "all together") : form.gate === "ask" ? <span class="person">asks a person first</span> : Number(form.rest) ? `starts ${spanText(Number(form.rest))} after the wave before` : "starts after the wave before"}</small></li>;
      })}</ol>
      {plan.excluded.length > 0 && <div><p class="lab">Left out <span class="dim">{num(plan.excluded.length)}{gathered(plan.excluded).length > 8 ? ", the first reasons" : ""}</span></p><LeftOut excluded={plan.excluded} /></div>}
      <p class={`banner ${needs ? "person" : ""}`}><Icon is={needs ? "decision" : "completed"} of={needs ? "person" : "good"} /><span>{needs ? "It needs the approval of another person before its first wave." : "It needs no approval: the first wave starts at once."}</span></p>
      {plan.folded && <details class="foldd"><summary class="sm sub">The {plural(plan.hosts, "host")}</summary><code class="wrapt sub">{clean(plan.folded)}</code></details>}</div>
  );
}
const Scale = ({ from, size, of }: { from: number; size: number; of: number }): JSX.Element => <span class="meter scale"><i class="none" style={{ width: `${(100 * from) / Math.max(1, of)}%` }} /><i class="f-idle" style={{ width: `${Math.max(0.6, (100 * size) / Math.max(1, of))}%` }} /></span>;
