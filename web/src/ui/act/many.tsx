// An act on many tasks.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem, post } from "../../lib/api";
import { capital, num, plural, short } from "../../lib/format";
import { afterAct } from "../../lib/live";
import { url } from "../../lib/place";
import { keepReason } from "../../lib/prefs";
import type { DryRun, Operation, TaskRow } from "../../lib/types";
import { Icon } from "../marks";
import { Dialog, Field, toast } from "../parts";
import { Args } from "./args";
import { Foot, ReasonField, Refused } from "./foot";
import { KINDS, Verb } from "./kinds";

const TYPED_FROM = 100;

export function ManyTasks({
  verb,
  target,
  onClose,
}: {
  verb: Verb;
  target: { ids: string[] } | { query: string; count: number };
  onClose: () => void;
}): JSX.Element {
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
      const run = await post<Operation>("/operations", {
        ...body,
        reason,
        expect_count: dry?.count,
        ...(rate ? { rate_per_second: Number(rate) } : {}),
      });
      keepReason(reason);
      toast(
        <>
          {kind.name} of {plural(run.total, "task")}:{" "}
          <a href={url(`/operations/${run.id}`)}>operation {short(run.id)}</a>
        </>,
      );
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const off = !ready
    ? "Choose a node first."
    : !dry
      ? wrong
        ? "This cannot be done now."
        : "The tasks are being counted."
      : count === 0
        ? "No task would change."
        : kind.needsReason && !reason.trim()
          ? "Give a reason first."
          : mustType && typed !== String(dry.count)
            ? "Type the number first."
            : undefined;
  return (
    <Dialog label={`${kind.name} many tasks`} onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">
            {kind.name} {dry ? plural(dry.count, "task") : "tasks"}?
          </h2>
          <p class="sub">{kind.says}</p>
        </div>
        {verb === "reassign" && <Args verb={verb} task={{} as TaskRow} args={node} onArgs={setNode} />}
        {dry && (
          <ul class="dry" aria-label="What happens">
            <li>
              <Icon
                is={
                  verb === "abort" || verb === "discard" ? "aborted" : verb === "pause" ? "paused" : "queued"
                }
                of="off"
              />
              <span>will be changed</span>
              <b>{num(dry.eligible)}</b>
            </li>
            {dry.skipped.map((skip) => (
              <li>
                <Icon is="aborted" of="dim" />
                <span>skipped: {capital(skip.reason.replace(/-/g, " ")).toLowerCase()}</span>
                <b>{num(skip.count)}</b>
              </li>
            ))}
            {dry.skipped.length === 0 && (
              <li>
                <Icon is="check" of="dim" />
                <span>skipped</span>
                <b class="dim">0</b>
              </li>
            )}
          </ul>
        )}
        {wrong && <Refused error={wrong} />}
        <div class="two">
          <ReasonField focus value={reason} onInput={setReason} needed={kind.needsReason} />
          {mustType && dry ? (
            <Field label="Type the number of tasks" help={num(dry.count)}>
              <input
                class="inp m"
                inputMode="numeric"
                value={typed}
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </Field>
          ) : (
            <Field label="At most per second" help="Empty: as fast as it goes">
              <input
                class="inp"
                type="number"
                min="0.1"
                step="any"
                value={rate}
                onInput={(event) => setRate(event.currentTarget.value)}
              />
            </Field>
          )}
        </div>
        <Foot
          kind={kind}
          count={dry ? count : null}
          bound="Bound to this count. It runs as an operation that can be stopped."
          busy={busy}
          off={off}
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}
