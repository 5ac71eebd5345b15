// New command: where, what, how; the plan beside it is always there, and the act is bound to it.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, q, type Problem } from "../lib/api";
import { clean, num, plural, time } from "../lib/format";
import { type JobAnswer } from "../lib/fleet";
import { go, param } from "../lib/place";
import { Refused } from "../ui/act";
import { Icon } from "../ui/marks";
import { Button, Empty, Field, Seg, Text, Title, toast } from "../ui/parts";

const TYPES: [string, string][] = [["exec", "The command, without a shell"], ["restart", "The unit to restart"], ["shell", "A line for the shell"], ["facts", ""], ["ping", ""], ["noop", ""]];
const PLAN_MS = 350;

export function NewCommand(): JSX.Element {
  const [form, setForm] = useState({ selector: param("selector") || "", type: "exec", command: "", name: "", waves: "1, 5%, rest", atOnce: "50", failed: "", timeout: "", reason: "", gate: "auto" });
  const [plan, setPlan] = useState<(JobAnswer & { at: string }) | null>(null);
  const [chosen, setChosen] = useState<{ count: number; folded: string } | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) => setForm({ ...form, [name]: event.currentTarget.value });
  const amount = (text: string): number | string => (/^\d+$/.test(text.trim()) ? Number(text) : text.trim());
  const body = {
    selector: form.selector, command_type: form.type, command: form.command, reason: form.reason, ...(form.name ? { external_id: form.name } : {}), ...(form.timeout ? { exec_timeout_seconds: Number(form.timeout) } : {}),
    rollout: { waves: form.waves.split(",").map((wave) => amount(wave)).filter((wave) => wave !== ""), ...(form.atOnce ? { max_in_flight: amount(form.atOnce) } : {}), ...(form.gate === "ask" ? { gate: "ask" } : {}), ...(form.failed ? { budget: { failed: amount(form.failed) } } : {}) },
  };
  const hint = TYPES.find(([name]) => name === form.type)?.[1] ?? "";
  const key = JSON.stringify({ ...body, reason: "" });
  useEffect(() => {
    setPlan(null);
    if (!form.selector.trim()) setChosen(null);
    if (!form.selector.trim() || (hint && !form.command.trim())) {
      if (form.selector.trim()) void get<{ count: number; folded: string }>(`/hosts/select?selector=${q(form.selector)}`).then(setChosen, () => setChosen(null));
      return setWrong(null);
    }
    let over = false;
    const timer = setTimeout(() => {
      get<{ count: number; folded: string }>(`/hosts/select?selector=${q(form.selector)}`).then((found) => !over && setChosen(found)).catch(() => !over && setChosen(null));
      post<JobAnswer>("/jobs", { ...body, dry_run: true }).then((found) => !over && (setPlan({ ...found, at: new Date().toISOString() }), setWrong(null))).catch((error: Problem) => !over && setWrong(error));
    }, PLAN_MS);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key]);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const made = await post<JobAnswer>("/jobs", body);
      toast(made.approval_state === "WAIT_APPROVAL" ? "It waits for approval." : "The first wave starts.");
      go(`/fleet/jobs/${made.job_id}`);
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const needs = plan?.approval_state === "WAIT_APPROVAL";
  const runs = plan ? plan.hosts - plan.excluded.length : 0;
  const waves = new Map<number, number>();
  for (const row of plan?.plan ?? []) waves.set(row.wave, (waves.get(row.wave) ?? 0) + 1);
  return (
    <form class="split" onSubmit={send}>
      <div class="page stack"><Title sub="Nothing runs before you have seen the plan.">New command</Title>
        <section class="panel"><header><span class="num1">1</span><h2>Where</h2><span class="sp" /><span class="sm sub">pinned when you ask; hosts that join later are not added</span></header><div class="in stack">
          <Field label="Hosts" help={chosen ? clean(chosen.folded).slice(0, 200) : "role=web & env=production ! @drained, web-[001-120], *"}><span class="inp"><input class="m" autoFocus required value={form.selector} spellcheck={false} autocomplete="off" onInput={set("selector")} /><span class="u">{chosen ? plural(chosen.count, "host") : ""}</span></span></Field></div></section>
        <section class="panel"><header><span class="num1">2</span><h2>What</h2><span class="sp" /><Seg label="Type" value={form.type} onPick={(type) => setForm({ ...form, type })} options={TYPES.map(([name]) => [name, name])} /></header><div class="in stack">
          {hint && <Field label={hint}><input class="inp m" value={form.command} spellcheck={false} onInput={set("command")} /></Field>}
          <div class="two"><Field label="Name, optional" help="The same name with the same body is the same job."><input class="inp" value={form.name} onInput={set("name")} /></Field><Field label="Timeout"><span class="inp"><input inputMode="numeric" placeholder="of the type" value={form.timeout} onInput={set("timeout")} /><span class="u">s</span></span></Field></div></div></section>
        <section class="panel"><header><span class="num1">3</span><h2>How</h2></header><div class="in stack">
          <div class="two"><Field label="Waves" help="Numbers or shares; the last is the rest."><input class="inp m" value={form.waves} onInput={set("waves")} /></Field><Field label="At once"><span class="inp"><input value={form.atOnce} onInput={set("atOnce")} /><span class="u">hosts</span></span></Field></div>
          <div class="two"><Field label="Failures that stop it" help="Empty: the default of the server"><input class="inp" placeholder="2%" value={form.failed} onInput={set("failed")} /></Field><Field label="Between waves"><select class="inp" value={form.gate} onChange={set("gate")}><option value="auto">goes on by itself</option><option value="ask">asks a person</option></select></Field></div>
          <Field label="Reason" help="Kept with your name."><input class="inp" value={form.reason} onInput={set("reason")} /></Field></div></section>
      </div>
      <aside class="sheet" aria-label="Plan"><div class="row"><h2 class="big">Plan</h2><span class="sub">{plan ? `of ${time(plan.at)}, nothing was changed` : ""}</span><span class="sp" />{plan && <code class="dim">{plan.digest.slice(3, 11)}</code>}</div>
        {wrong ? <div class="gap"><Refused error={wrong} /></div> : !plan ? <Empty sign="jobs" title={form.selector.trim() ? "Say what first" : "Say where first"}>The plan is here as soon as hosts and a command are chosen.</Empty> : (
          <div class="stack gap"><p class="big">{num(runs)} of {plural(plan.hosts, "host")}, {plural(waves.size || body.rollout.waves.length, "wave")}</p>
            <ul class="wv">{[...waves].sort((a, b) => a[0] - b[0]).map(([wave, n]) => <li><span class="num1">{wave}</span><b class="strong">{wave === 1 ? "Canary" : wave === waves.size ? "Rest" : `Wave ${wave}`}</b><span class="sub">{plan.plan.length < plan.hosts && wave === waves.size ? `${num(n)}+` : num(n)}</span><small>{form.gate === "ask" && wave > 1 ? <span class="person">asks a person first</span> : wave === 1 ? "starts at once" : "goes on by itself"}</small></li>)}</ul>
            {plan.excluded.length > 0 && <div><p class="lab">Left out <span class="dim">{plan.excluded.length}</span></p><ul class="dry">{plan.excluded.slice(0, 6).map((one) => <li><Icon is="host-blocked" of="idle" /><span><Text>{one.host}</Text></span><b>{one.reason}</b><small><Text>{one.detail}</Text></small></li>)}</ul></div>}
            <p class={`banner ${needs ? "person" : ""}`}><Icon is={needs ? "decision" : "completed"} of={needs ? "person" : "good"} /><span>{needs ? "It needs the approval of another person before its first wave." : "It needs no approval: the first wave starts at once."}</span></p></div>
        )}
        <div class="row gap"><Button rank="pri" type="submit" right="jobs.create" name={needs ? "Ask for approval" : "Run"} busy={busy} off={plan ? undefined : "There is no plan yet."}>{plan ? (needs ? `Ask for approval of ${num(runs)}` : `Run on ${plural(runs, "host")}`) : "Run"}</Button></div>
        <p class="sm sub gap">Bound to this plan. If hosts, blocks or the command change before it starts, the votes are void.</p>
      </aside>
    </form>
  );
}
