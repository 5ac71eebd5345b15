// A new block, with the hosts that it would have.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Problem, post } from "../../lib/api";
import { afterAct } from "../../lib/live";
import { keepReason } from "../../lib/prefs";
import { Refused } from "../../ui/act";
import { Button, Dialog, Field, Text, toast } from "../../ui/parts";
import { Preview } from "./group_edit";

export function AddBlock({ host = "", onClose }: { host?: string; onClose: () => void }): JSX.Element {
  const [form, setForm] = useState({
    selector: host,
    type: "*",
    hours: "2",
    effect: "refuse",
    running: "finish",
    lifted: "requeue",
    reason: "",
    rrule: "",
    window: "2",
    zone: "UTC",
  });
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const set = (name: keyof typeof form) => (event: { currentTarget: { value: string } }) =>
    setForm({ ...form, [name]: event.currentTarget.value });
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post("/blocks", {
        ...(host ? { host } : { selector: form.selector }),
        command_type: form.type,
        reason: form.reason,
        effect: form.effect,
        on_running: form.running,
        on_lift: form.lifted,
        ...(Number(form.hours) ? { expires_in_seconds: Number(form.hours) * 3_600 } : {}),
        ...(form.rrule.trim()
          ? {
              window: {
                rrule: form.rrule.trim(),
                duration_seconds: Number(form.window) * 3_600,
                timezone: form.zone,
              },
            }
          : {}),
      });
      keepReason(form.reason);
      toast("The block is in force from now on.");
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  return (
    <Dialog label="New block" onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">
            {host ? (
              <>
                Block <Text>{host}</Text>
              </>
            ) : (
              "New block"
            )}
          </h2>
          <p class="sub">Jobs that are planned, offered or about to start there are kept off at once.</p>
        </div>
        {!host && (
          <>
            <Field label="Hosts" help="A selector: zone=a, web-[001-010], *">
              <input
                class="inp m"
                required
                autoFocus
                spellcheck={false}
                value={form.selector}
                onInput={set("selector")}
              />
            </Field>
            <Preview selector={form.selector} />
          </>
        )}
        <div class="two">
          <Field label="Command types" help="* for all">
            <input class="inp m" value={form.type} onInput={set("type")} />
          </Field>
          <Field label="Ends after" help="Empty: never">
            <span class="inp">
              <input inputMode="decimal" value={form.hours} onInput={set("hours")} />
              <span class="u">hours</span>
            </span>
          </Field>
        </div>
        <div class="two">
          <Field label="What happens to commands">
            <select class="inp" value={form.effect} onChange={set("effect")}>
              <option value="refuse">refused</option>
              <option value="hold">held until it is lifted</option>
            </select>
          </Field>
          <Field label="Commands that run">
            <select class="inp" value={form.running} onChange={set("running")}>
              <option value="finish">finish</option>
              <option value="abort">are ended</option>
            </select>
          </Field>
        </div>
        {form.effect === "hold" && (
          <Field label="What it held, when it is lifted">
            <select class="inp" value={form.lifted} onChange={set("lifted")}>
              <option value="requeue">goes on, if its time is not over</option>
              <option value="drop">ends</option>
              <option value="reapprove">asks for another approval</option>
            </select>
          </Field>
        )}
        <details>
          <summary class="sm sub">Only at certain times</summary>
          <div class="three gap">
            <Field label="Repeats" help="FREQ=WEEKLY;BYDAY=SA;BYHOUR=22">
              <input class="inp m" value={form.rrule} onInput={set("rrule")} />
            </Field>
            <Field label="For">
              <span class="inp">
                <input inputMode="decimal" value={form.window} onInput={set("window")} />
                <span class="u">hours</span>
              </span>
            </Field>
            <Field label="Time zone">
              <input class="inp" value={form.zone} onInput={set("zone")} />
            </Field>
          </div>
        </details>
        <Field label="Reason" help="Shown wherever the block is.">
          <input class="inp" required value={form.reason} onInput={set("reason")} />
        </Field>
        {wrong && <Refused error={wrong} />}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>Cancel</Button>
          <Button rank="pri" type="submit" right="blocks.write" name="Add the block" busy={busy}>
            Add the block
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
