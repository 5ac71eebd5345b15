// One dialog for acts that are no interventions on tasks: pause a queue, drain a node, revoke a lock.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, type Problem } from "../lib/api";
import { afterAct } from "../lib/live";
import { keepReason } from "../lib/prefs";
import { ReasonField, Refused } from "./act";
import { Button, Command, Dialog, Field, toast } from "./parts";

interface Question {
  title: string;
  says: ComponentChildren;
  more?: ComponentChildren;
  verb: string;
  keep: string;
  path: string;
  method?: "POST" | "PUT" | "PATCH" | "DELETE";
  body?: Record<string, unknown>;
  /** The reason goes into the address, as with DELETE: the call takes no body. */
  query?: boolean;
  params?: Record<string, string>;
  needsReason?: boolean;
  /** No way back: this text has to be typed. */
  typed?: string;
  danger?: boolean;
  right: string;
  done: string;
  command?: string;
  onDone?: (answer: unknown) => void;
}

const asked = signal<Question | null>(null);
export const confirm = (question: Question): void => void (asked.value = question);

export function ConfirmDialog(): JSX.Element | null {
  return (
    asked.value && <Ask key={asked.value.title} question={asked.value} onClose={() => (asked.value = null)} />
  );
}

function Ask({ question, onClose }: { question: Question; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const method = question.method ?? "POST";
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const bare = method === "DELETE" || question.query;
      const path = `/api/v1${question.path}${bare ? `?${new URLSearchParams({ ...question.params, reason }).toString()}` : ""}`;
      const answer = await ask<unknown>(method, path, bare ? undefined : { ...question.body, reason });
      keepReason(reason);
      toast(question.done);
      afterAct();
      onClose();
      question.onDone?.(answer.body);
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const off =
    question.needsReason && !reason.trim()
      ? "Give a reason first."
      : question.typed !== undefined && typed !== question.typed
        ? `Type ${question.typed} first.`
        : undefined;
  return (
    <Dialog label={question.title} onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">{question.title}</h2>
          <p class="sub">{question.says}</p>
        </div>
        {question.more}
        {wrong && <Refused error={wrong} />}
        <ReasonField focus value={reason} onInput={setReason} needed={question.needsReason ?? false} />
        {question.typed !== undefined && (
          <Field label={`Type ${question.typed}`}>
            <input class="inp m" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          </Field>
        )}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>{question.keep}</Button>
          <Button
            type="submit"
            rank={question.danger ? "danfill" : "pri"}
            right={question.right}
            name={question.verb}
            busy={busy}
            off={off}
          >
            {question.verb}
          </Button>
        </div>
        {question.command && (
          <Command>{`${question.command}${reason ? ` --reason ${JSON.stringify(reason)}` : ""}`}</Command>
        )}
      </form>
    </Dialog>
  );
}
