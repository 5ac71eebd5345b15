// An act on one task.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Problem, post } from "../../lib/api";
import { short } from "../../lib/format";
import { afterAct } from "../../lib/live";
import { url } from "../../lib/place";
import { keepReason } from "../../lib/prefs";
import { FORCE_REASON_MIN, REASON_MAX } from "../../lib/rules";
import type { Task, TaskRow } from "../../lib/types";
import { Command, Dialog, toast } from "../parts";
import { Args, forcedTo } from "./args";
import { Dry } from "./dry";
import { Foot, ReasonField, Refused } from "./foot";
import { KINDS, Verb, actsOf } from "./kinds";

export interface Foreseen {
  effect: { from: string; to: string; fence: number } | null;
  runner: string | null;
  dependents: number | null;
  would_run_next: boolean | null;
}

export function OneTask({
  verb,
  task,
  onClose,
}: {
  verb: Verb;
  task: TaskRow | Task;
  onClose: () => void;
}): JSX.Element {
  const kind = KINDS[verb];
  const [reason, setReason] = useState("");
  const [args, setArgs] = useState<Record<string, unknown>>(
    verb === "force" ? forcedTo(actsOf(task).forced[0] ?? "queued") : {},
  );
  const [seen, setSeen] = useState<Foreseen | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const body = { type: kind.type, args, expected_version: task.version };
  const ready = verb !== "reassign" || Boolean(args.to_node);
  useEffect(() => {
    if (!ready) return;
    let over = false;
    // A preview needs a reason too; this one is not kept.
    post<Foreseen>(`/tasks/${task.id}/interventions`, {
      ...body,
      reason: "preview of the Control Center",
      dry_run: true,
    })
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
      const done = await post<{ intervention: { state: string; id: string }; task: Task }>(
        `/tasks/${task.id}/interventions`,
        { ...body, reason },
      );
      keepReason(reason);
      toast(
        <>
          {kind.name}:{" "}
          <a href={url(`/tasks/${task.id}`)}>
            {task.type} {short(task.id)}
          </a>{" "}
          is {done.task.status}
          {done.intervention.state === "applied"
            ? ""
            : `, the runner is notified (${done.intervention.state})`}
          .
        </>,
      );
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
        <div>
          <h2 class="big">
            {kind.name} {task.type}?
          </h2>
          <p class="sub">{kind.says}</p>
        </div>
        <Args verb={verb} task={task} args={args} onArgs={setArgs} />
        <Dry seen={seen} verb={verb} task={task} />
        {wrong && <Refused error={wrong} />}
        <ReasonField
          focus
          value={reason}
          onInput={setReason}
          needed={kind.needsReason}
          least={least}
          most={REASON_MAX}
        />
        <Foot
          kind={kind}
          count={null}
          bound={`Bound to version ${task.version}. If it changes you are asked again.`}
          busy={busy}
          off={
            !ready
              ? "Choose a node first."
              : seen === null
                ? wrong
                  ? "This cannot be done now."
                  : "The effect is being read."
                : reason.trim().length < least
                  ? "Give a reason first."
                  : undefined
          }
          onClose={onClose}
        />
        <Command>{`holdfast task ${verb} ${task.id}${verb === "force" ? ` --status ${String(args.status)}` : ""}${args.to_node ? ` --to ${String(args.to_node)}` : ""} --reason ${JSON.stringify(reason || "…")}`}</Command>
      </form>
    </Dialog>
  );
}
