// Another payload for a waiting or dead task.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Problem, ask, post } from "../../lib/api";
import { json, parse } from "../../lib/exact";
import { go } from "../../lib/place";
import type { Task as TaskView } from "../../lib/types";
import { Button, Dialog, Field, toast } from "../../ui/parts";

export function Edit({ task, onClose }: { task: TaskView; onClose: () => void }): JSX.Element {
  const [text, setText] = useState(json(task.payload, 2));
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState("");
  const dead = task.status === "failed";
  const send = async (event: { preventDefault: () => void }) => {
    event.preventDefault();
    try {
      const payload = parse(text);
      if (dead)
        await post(`/dead-letters/${task.id}/replay`, { payload, reason, expected_version: task.version });
      else
        await ask("PATCH", `/api/v1/tasks/${task.id}`, {
          payload,
          payload_mode: "whole",
          reason,
          expected_version: task.version,
        });
      toast(dead ? "The dead letter runs again with this payload." : "The payload was changed.");
      onClose();
      go(`/tasks/${task.id}`, { replace: true });
    } catch (error) {
      setWrong(error instanceof SyntaxError ? "This is not JSON." : (error as Problem).message);
    }
  };
  return (
    <Dialog label="Edit the payload" onClose={onClose} kind="wide">
      <form class="stack" onSubmit={(event) => void send(event)}>
        <div>
          <h2 class="big">{dead ? "Edit and replay" : "Edit the payload"}</h2>
          <p class="sub">Bound to version {task.version}.</p>
        </div>
        <Field label="Payload" error={wrong || undefined} help="JSON">
          <textarea
            class="inp m"
            rows={12}
            value={text}
            spellcheck={false}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </Field>
        <Field label="Reason, optional">
          <input class="inp" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </Field>
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>Leave it</Button>
          <Button type="submit" rank="pri" right={dead ? "dead.replay" : "tasks.edit"}>
            {dead ? "Replay with this payload" : "Change the payload"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
