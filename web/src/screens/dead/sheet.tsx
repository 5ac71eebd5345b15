// The sheet that replays one cause: canary, rate, a patch of the payloads, a dry run.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Problem, get, missing, post } from "../../lib/api";
import { json } from "../../lib/exact";
import { age, bytes, dur, num, plural, short, time } from "../../lib/format";
import { afterAct } from "../../lib/live";
import { useLoad } from "../../lib/load";
import { go, url } from "../../lib/place";
import { keepReason } from "../../lib/prefs";
import type { DryRun, Group, Operation, Task } from "../../lib/types";
import { ReasonField, Refused, act } from "../../ui/act";
import { Icon } from "../../ui/marks";
import { Button, Command, Field, Json, Text, toast } from "../../ui/parts";
import { Patched, PatchField, patchOf } from "./patch";

/** How long the page waits for the next key before it asks again. */
const TYPED_MS = 400;
const inShell = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function ReplaySheet({ group, onClose }: { group: Group; onClose: () => void }): JSX.Element {
  const query = `status:failed fingerprint:${group.fingerprint}`;
  const [canary, setCanary] = useState("5");
  const [rate, setRate] = useState("20");
  const [stop, setStop] = useState("20");
  const [reason, setReason] = useState("");
  const [dry, setDry] = useState<(DryRun & { at: string }) | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const sample = useLoad(
    (signal) => get<Task>(`/tasks/${group.sample_id}`, signal),
    `sample ${group.sample_id}`,
    60_000,
  ).data;
  const [patch, setPatch] = useState("");
  const [fields, badPatch] = patchOf(patch);
  const args = fields ? { args: { patch: fields } } : {};
  useEffect(() => {
    let over = false;
    const ask = () =>
      post<DryRun>("/operations", { action: "replay", q: query, dry_run: true, ...args })
        .then((found) => !over && (setDry({ ...found, at: new Date().toISOString() }), setWrong(null)))
        .catch((error: Problem) => !over && setWrong(error));
    const timer = badPatch ? undefined : setTimeout(() => void ask(), patch ? TYPED_MS : 0);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [group.fingerprint, group.count, patch]);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const run = await post<Operation>("/operations", {
        action: "replay",
        q: query,
        reason,
        expect_count: dry?.count,
        ...args,
        ...(Number(canary) ? { canary: Number(canary) } : {}),
        ...(Number(rate) ? { rate_per_second: Number(rate) } : {}),
        ...(Number(stop) ? { stop_on_fail_share: Number(stop) / 100 } : {}),
      });
      keepReason(reason);
      toast(
        <>
          Replay of {plural(run.total, "task")}:{" "}
          <a href={url(`/operations/${run.id}`)}>operation {short(run.id)}</a>
        </>,
      );
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
      <div class="row top">
        <div class="min">
          <h2 class="big">Replay {plural(group.count, "task")}</h2>
          <p class="m sub cut">
            <Text>{group.error}</Text>
          </p>
        </div>
        <span class="sp" />
        <button type="button" class="x" aria-label="Close" onClick={onClose}>
          <Icon is="close" />
        </button>
      </div>
      <form class="stack gap" onSubmit={send}>
        <div class="two">
          <Field label="Canary first" help="The rest waits until these have ended.">
            <span class="inp">
              <input
                inputMode="numeric"
                value={canary}
                onInput={(event) => setCanary(event.currentTarget.value)}
              />
              <span class="u">tasks</span>
            </span>
          </Field>
          <Field label="Then at most">
            <span class="inp">
              <input
                inputMode="decimal"
                value={rate}
                onInput={(event) => setRate(event.currentTarget.value)}
              />
              <span class="u">per second</span>
            </span>
          </Field>
        </div>
        <Field label="Stop at" help="Refused or dead again. One of the canary stops it at once.">
          <span class="inp">
            <input inputMode="numeric" value={stop} onInput={(event) => setStop(event.currentTarget.value)} />
            <span class="u">% failed again</span>
          </span>
        </Field>
        <PatchField value={patch} onInput={setPatch} wrong={badPatch} />
        <div>
          <p class="lab">
            Dry run <span class="dim">{dry ? `${time(dry.at)}, nothing was changed` : "…"}</span>
          </p>
          {dry && (
            <ul class="dry">
              <li>
                <Icon is="queued" of="idle" />
                <span>will be queued again</span>
                <b>{num(dry.eligible)}</b>
              </li>
              {dry.skipped.map((skip) => (
                <li>
                  <Icon is="aborted" of="dim" />
                  <span>skipped: {skip.reason.replace(/-/g, " ")}</span>
                  <b>{num(skip.count)}</b>
                </li>
              ))}
              {takes !== null && (
                <li>
                  <Icon is="schedules" of="dim" />
                  <span>takes about</span>
                  <b>{dur(Math.max(1, takes), true)}</b>
                </li>
              )}
            </ul>
          )}
          {fields && dry?.example && <Patched example={dry.example} />}
        </div>
        {age(group.last_at) < 600 && (
          <p class="banner warn">
            <Icon is="stuck" of="warn" />
            <span>
              It still fails: the last one {dur(age(group.last_at), true)} ago. The canary will show it first.
            </span>
          </p>
        )}
        {wrong && <Refused error={wrong} />}
        <ReasonField value={reason} onInput={setReason} needed={false} />
        <div class="row">
          <Button
            rank="pri"
            type="submit"
            right="dead.replay"
            name="Start the replay"
            busy={busy}
            off={
              badPatch ? badPatch : !dry || dry.eligible === 0 ? "No task would be queued again." : undefined
            }
          >
            {first && first < (dry?.eligible ?? 0)
              ? `Start canary of ${first}`
              : `Replay ${plural(dry?.eligible ?? 0, "task")}`}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
          <span class="sp" />
          <Button
            rank="dan"
            right="dead.discard"
            name="Discard"
            onClick={() => act("discard", { query, count: group.count })}
          >
            Discard…
          </Button>
        </div>
        <Command>{`holdfast op run replay -q 'fingerprint:${group.fingerprint}'${fields ? ` --patch ${inShell(json(fields))}` : ""}${Number(canary) ? ` --canary ${canary}` : ""}${Number(rate) ? ` --rate ${rate}` : ""}${Number(stop) ? ` --stop-on-fail-share ${Number(stop) / 100}` : ""}${reason ? ` --reason ${JSON.stringify(reason)}` : ""}`}</Command>
        {sample && (
          <div>
            <p class="row lab">
              <span>An example</span>
              <span class="dim">{bytes(sample.payload_bytes)}</span>
              <span class="sp" />
              <a href={url(`/tasks/${sample.id}`)}>
                {missing("dead.replay", "Edit") ? "Open" : "Open to edit and replay"}
              </a>
            </p>
            <Json value={sample.payload} />
          </div>
        )}
      </form>
    </aside>
  );
}
