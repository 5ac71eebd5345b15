// Acts on tasks: the one dialog of all interventions, for one task or for many. It shows what would happen first.
import { parse } from "../lib/exact";
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, Problem, type Page } from "../lib/api";
import { capital, num, plural, short } from "../lib/format";
import { afterAct } from "../lib/live";
import { url } from "../lib/place";
import { keepReason, reasons } from "../lib/prefs";
import { ASKS, EXECUTION, EXECUTION_ACTS, FORCE_REASON_MIN, REASON_MAX, TASK_ACTS, TEXT_MAX, type Acts } from "../lib/rules";
import type { DryRun, Node, Operation, Task, TaskRow } from "../lib/types";
import { familyOf, Icon, type Family, type Sign } from "./marks";
import { Button, Command, Dialog, Field, Text, toast } from "./parts";

export type Verb = "abort" | "pause" | "resume" | "retry" | "reassign" | "release" | "force" | "replay" | "discard";

interface Kind {
  type: string;
  name: string;
  keep: string;
  danger?: boolean;
  right: string;
  needsReason: boolean;
  says: string;
}
export const KINDS: Record<Verb, Kind> = {
  abort: { type: "ABORT", name: "Abort", keep: "Keep it", danger: true, right: "tasks.intervene", needsReason: true, says: "It ends for good. There is no way back; a copy can be started." },
  pause: { type: "PAUSE", name: "Pause", keep: "Keep running", right: "tasks.intervene", needsReason: true, says: "It stops and keeps its last checkpoint. No attempt is spent." },
  resume: { type: "RESUME", name: "Resume", keep: "Leave it", right: "tasks.intervene", needsReason: true, says: "It may be claimed again." },
  retry: { type: "RETRY", name: "Retry", keep: "Leave it", right: "tasks.intervene", needsReason: true, says: "It is due now; a dead letter gets new attempts." },
  reassign: { type: "REASSIGN", name: "Reassign", keep: "Leave it", right: "tasks.intervene", needsReason: true, says: "Only the chosen node may claim it, for a while." },
  release: { type: "RELEASE_LOCK", name: "Release", keep: "Keep the lease", right: "tasks.intervene", needsReason: true, says: "It is taken from its runner and queued again. No attempt is spent." },
  force: { type: "FORCE_STATUS", name: "Force status", keep: "Leave it", danger: true, right: "tasks.force", needsReason: true, says: "Sets the status along legal steps, whatever the runner does." },
  replay: { type: "", name: "Replay", keep: "Leave them", right: "dead.replay", needsReason: false, says: "Dead letters get new attempts." },
  discard: { type: "", name: "Discard", keep: "Keep them", danger: true, right: "dead.discard", needsReason: true, says: "They end for good as aborted." },
};

/** The order in which acts are offered. */
const ORDER: Verb[] = ["pause", "resume", "retry", "reassign", "release", "abort", "force"];
/** What the task takes now, as the core rules. */
function actsOf(task: TaskRow | Task): Acts {
  const of = (task.type === EXECUTION ? EXECUTION_ACTS : TASK_ACTS)[task.status];
  const hold = task.held_by ? "held" : task.gate?.startsWith(ASKS) ? "asks" : "free";
  return of?.[hold] ?? of?.free ?? { takes: [], forced: [] };
}
/** The verbs for this task. A dead letter is discarded rather than aborted. */
export function verbsOf(task: TaskRow | Task): Verb[] {
  const { takes, forced } = actsOf(task);
  const verbs = ORDER.filter((verb) => (verb === "force" ? forced.length > 0 : takes.includes(KINDS[verb].type)));
  return task.status === "failed" ? verbs.map((verb) => (verb === "abort" ? "discard" : verb)) : verbs;
}

type Target = { task: TaskRow | Task } | { ids: string[] } | { query: string; count: number };
const acting = signal<{ verb: Verb; target: Target } | null>(null);
export const act = (verb: Verb, target: Target): void => void (acting.value = { verb, target });

export function ActDialog(): JSX.Element | null {
  const now = acting.value;
  if (!now) return null;
  const close = () => (acting.value = null);
  if ("task" in now.target && now.verb !== "discard") return <OneTask key={now.target.task.id + now.verb} verb={now.verb} task={now.target.task} onClose={close} />;
  const target = "task" in now.target ? { ids: [now.target.task.id] } : now.target;
  return <ManyTasks verb={now.verb} target={target} onClose={close} />;
}

interface Foreseen {
  effect: { from: string; to: string; fence: number } | null;
  runner: string | null;
  dependents: number | null;
  would_run_next: boolean | null;
}

function OneTask({ verb, task, onClose }: { verb: Verb; task: TaskRow | Task; onClose: () => void }): JSX.Element {
  const kind = KINDS[verb];
  const [reason, setReason] = useState("");
  const [args, setArgs] = useState<Record<string, unknown>>(verb === "force" ? forcedTo(actsOf(task).forced[0] ?? "queued") : {});
  const [seen, setSeen] = useState<Foreseen | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const body = { type: kind.type, args, expected_version: task.version };
  const ready = verb !== "reassign" || Boolean(args.to_node);
  useEffect(() => {
    if (!ready) return;
    let over = false;
    // A preview needs a reason too; this one is not kept.
    post<Foreseen>(`/tasks/${task.id}/interventions`, { ...body, reason: "preview of the Control Center", dry_run: true })
      .then((found) => !over && (setSeen(found), setWrong(null)))
      .catch((error: Problem) => !over && (setSeen(null), setWrong(error)));
    return () => {
      over = true;
    };
  }, [JSON.stringify(args), task.version]);
  const least = verb === "force" ? FORCE_REASON_MIN : 1;
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const done = await post<{ intervention: { state: string; id: string }; task: Task }>(`/tasks/${task.id}/interventions`, { ...body, reason });
      keepReason(reason);
      toast(<>{kind.name}: <a href={url(`/tasks/${task.id}`)}>{task.type} {short(task.id)}</a> is {done.task.status}{done.intervention.state === "applied" ? "" : `, the runner is notified (${done.intervention.state})`}.</>);
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  return (
    <Dialog label={`${kind.name} ${task.type}`} onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div><h2 class="big">{kind.name} {task.type}?</h2><p class="sub">{kind.says}</p></div>
        <Args verb={verb} task={task} args={args} onArgs={setArgs} />
        <Dry seen={seen} verb={verb} task={task} />
        {wrong && <Refused error={wrong} />}
        <ReasonField focus value={reason} onInput={setReason} needed={kind.needsReason} least={least} most={REASON_MAX} />
        <Foot kind={kind} count={null} bound={`Bound to version ${task.version}. If it changes you are asked again.`} busy={busy}
          off={!ready ? "Choose a node first." : seen === null ? (wrong ? "This cannot be done now." : "The effect is being read.") : reason.trim().length < least ? "Give a reason first." : undefined} onClose={onClose} />
        <Command>{`holdfast task ${verb} ${task.id}${verb === "force" ? ` --status ${String(args.status)}` : ""}${args.to_node ? ` --to ${String(args.to_node)}` : ""} --reason ${JSON.stringify(reason || "…")}`}</Command>
      </form>
    </Dialog>
  );
}

function Args(props: { verb: Verb; task: TaskRow | Task; args: Record<string, unknown>; onArgs: (args: Record<string, unknown>) => void }): JSX.Element | null {
  const { verb, task, args, onArgs } = props;
  const [nodes, setNodes] = useState<Node[] | null>(null);
  const [text, setText] = useState("null");
  useEffect(() => {
    if (verb === "reassign") void get<Page<Node>>("/nodes?agents=false").then((page) => setNodes(page.items)).catch(() => undefined);
  }, [verb]);
  if (verb === "reassign")
    return (
      <div class="two">
        <Field label="To the node" help={nodes?.length === 0 ? "No node is there. A worker is one while it lives." : undefined}>
          <select class="inp" value={String(args.to_node ?? "")} onChange={(event) => onArgs({ ...args, to_node: event.currentTarget.value })}>
            <option value="" disabled>Choose…</option>
            {nodes?.map((node) => <option value={node.id}>{node.id}</option>)}
          </select>
        </Field>
        <Field label="Any node may claim it after" help="0: never">
          <input class="inp" type="number" min="0" placeholder="60 seconds" onInput={(event) => onArgs(event.currentTarget.value === "" ? { to_node: args.to_node } : { ...args, fallback_seconds: Number(event.currentTarget.value) })} />
        </Field>
      </div>
    );
  if (verb === "force")
    return (
      <div class="stack">
        <Field label="Status">
          <select class="inp" value={String(args.status)} onChange={(event) => onArgs(forcedTo(event.currentTarget.value))}>
            {actsOf(task).forced.map((status) => <option value={status}>{status}</option>)}
          </select>
        </Field>
        {args.status === "completed" && (
          <Field label="Result" help="JSON. The task ends with it." error={isJson(text) ? undefined : "This is not JSON."}>
            <textarea class="inp m" rows={3} value={text} onInput={(event) => {
              setText(event.currentTarget.value);
              if (isJson(event.currentTarget.value)) onArgs({ status: "completed", result: parse(event.currentTarget.value) });
            }} />
          </Field>
        )}
      </div>
    );
  if (verb === "retry")
    return (
      <Field label="After" help="Empty: at once">
        <input class="inp" type="number" min="0" placeholder="seconds" onInput={(event) => onArgs(event.currentTarget.value === "" ? {} : { delay_seconds: Number(event.currentTarget.value) })} />
      </Field>
    );
  return null;
}

/** The arguments of a force: completed has a result. */
const forcedTo = (status: string): Record<string, unknown> => (status === "completed" ? { status, result: null } : { status });
const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

function Dry({ seen, verb, task }: { seen: Foreseen | null; verb: Verb; task: TaskRow | Task }): JSX.Element | null {
  if (!seen) return null;
  const line = (sign: Sign, of: Family, what: ComponentChildren, value: ComponentChildren, note?: ComponentChildren) => (
    <li><Icon is={sign} of={of} /><span>{what}</span><b>{value}</b>{note && <small>{note}</small>}</li>
  );
  const effect = seen.effect;
  return (
    <ul class="dry" aria-label="What happens">
      {effect
        ? line((effect.to in { queued: 1, running: 1, paused: 1, failed: 1, completed: 1, aborted: 1, blocked: 1, stuck: 1 } ? effect.to : "queued") as Sign, familyOf(effect.to), "this task", effect.from === effect.to ? effect.to : `${effect.from} → ${effect.to}`,
            effect.fence > task.fence ? `Fence ${task.fence} becomes ${effect.fence}: what the old runner writes is refused.` : verb === "pause" && effect.from === effect.to ? "It is held back; its status stays." : undefined)
        : line("check", "idle", "this task", "stays as it is", "It already has this state.")}
      {seen.runner && line("nodes", "off", <><Text>{seen.runner}</Text> is notified</>, "at once", "Its handler is cancelled; what it does outside Holdfast is not undone.")}
      {Boolean(seen.dependents) && line("blocked", "idle", "tasks that wait for it", num(seen.dependents ?? 0))}
      {seen.would_run_next && line("running", "work", "runs next", "yes")}
    </ul>
  );
}

/** A refusal inside a dialog: it stays open and says why. */
export function Refused({ error }: { error: Problem }): JSX.Element {
  const changed = error.code === "version-conflict" || error.code === "precondition-failed";
  return (
    <p class={`banner ${changed ? "person" : "warn"}`} role="alert"><Icon is={changed ? "decision" : "stuck"} of={changed ? "person" : "warn"} />
      <span>{changed ? <><b class="strong">Someone was here first.</b> Nothing was sent. Close this and look again. </> : null}<Text>{error.message}</Text></span></p>
  );
}

export function ReasonField({ value, onInput, needed, least = 1, most = TEXT_MAX, focus = false }: { value: string; onInput: (text: string) => void; needed: boolean; least?: number; most?: number; focus?: boolean }): JSX.Element {
  const old = reasons();
  return (
    <Field label={needed ? "Reason" : "Reason, optional"} help={`${needed ? (least > 1 ? `At least ${least} characters. ` : "Needed. ") : ""}Kept with your name.`}>
      <input class="inp" name="reason" value={value} list="reasons" maxLength={most} autocomplete="off" autoFocus={focus} onInput={(event) => onInput(event.currentTarget.value)} />
      <datalist id="reasons">{old.map((text) => <option value={text} />)}</datalist>
    </Field>
  );
}

function Foot(props: { kind: Kind; count: number | null; bound: string; busy: boolean; off: string | undefined; onClose: () => void }): JSX.Element {
  const { kind, count } = props;
  return (
    <div class="row acts">
      <span class="sm dim bound">{props.bound}</span><span class="sp" />
      <Button onClick={props.onClose}>{kind.keep}</Button>
      <Button type="submit" name={count === null ? kind.name : `${kind.name} ${num(count)} tasks`} rank={kind.danger ? "danfill" : "pri"} right={kind.right} busy={props.busy} off={props.off}>
        {count === null ? kind.name : `${kind.name} ${plural(count, "task")}`}
      </Button>
    </div>
  );
}

const TYPED_FROM = 100;

function ManyTasks({ verb, target, onClose }: { verb: Verb; target: { ids: string[] } | { query: string; count: number }; onClose: () => void }): JSX.Element {
  const kind = KINDS[verb];
  const action = verb === "retry" ? "replay" : verb;
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [rate, setRate] = useState("");
  const [node, setNode] = useState<Record<string, unknown>>({});
  const [dry, setDry] = useState<DryRun | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const which = "ids" in target ? { ids: target.ids } : { q: target.query };
  const body = { action, ...which, ...(verb === "reassign" ? { args: node } : {}) };
  const ready = verb !== "reassign" || Boolean(node.to_node);
  useEffect(() => {
    if (!ready) return;
    let over = false;
    post<DryRun>("/operations", { ...body, dry_run: true })
      .then((found) => !over && (setDry(found), setWrong(null)))
      .catch((error: Problem) => !over && setWrong(error));
    return () => {
      over = true;
    };
  }, [JSON.stringify(body)]);
  const count = dry?.eligible ?? 0;
  const mustType = (dry?.count ?? 0) > TYPED_FROM;
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const run = await post<Operation>("/operations", { ...body, reason, expect_count: dry?.count, ...(rate ? { rate_per_second: Number(rate) } : {}) });
      keepReason(reason);
      toast(<>{kind.name} of {plural(run.total, "task")}: <a href={url(`/operations/${run.id}`)}>operation {short(run.id)}</a></>);
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const off = !ready ? "Choose a node first." : !dry ? (wrong ? "This cannot be done now." : "The tasks are being counted.") : count === 0 ? "No task would change." : kind.needsReason && !reason.trim() ? "Give a reason first." : mustType && typed !== String(dry.count) ? "Type the number first." : undefined;
  return (
    <Dialog label={`${kind.name} many tasks`} onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div><h2 class="big">{kind.name} {dry ? plural(dry.count, "task") : "tasks"}?</h2><p class="sub">{kind.says}</p></div>
        {verb === "reassign" && <Args verb={verb} task={{} as TaskRow} args={node} onArgs={setNode} />}
        {dry && (
          <ul class="dry" aria-label="What happens">
            <li><Icon is={verb === "abort" || verb === "discard" ? "aborted" : verb === "pause" ? "paused" : "queued"} of="off" /><span>will be changed</span><b>{num(dry.eligible)}</b></li>
            {dry.skipped.map((skip) => <li><Icon is="aborted" of="dim" /><span>skipped: {capital(skip.reason.replace(/-/g, " ")).toLowerCase()}</span><b>{num(skip.count)}</b></li>)}
            {dry.skipped.length === 0 && <li><Icon is="check" of="dim" /><span>skipped</span><b class="dim">0</b></li>}
          </ul>
        )}
        {wrong && <Refused error={wrong} />}
        <div class="two">
          <ReasonField focus value={reason} onInput={setReason} needed={kind.needsReason} />
          {mustType && dry ? (
            <Field label="Type the number of tasks" help={num(dry.count)}><input class="inp m" inputMode="numeric" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} /></Field>
          ) : (
            <Field label="At most per second" help="Empty: as fast as it goes"><input class="inp" type="number" min="0.1" step="any" value={rate} onInput={(event) => setRate(event.currentTarget.value)} /></Field>
          )}
        </div>
        <Foot kind={kind} count={dry ? count : null} bound="Bound to this count. It runs as an operation that can be stopped." busy={busy} off={off} onClose={onClose} />
      </form>
    </Dialog>
  );
}
