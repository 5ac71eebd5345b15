// Schedules: a sentence before the cron text, the next firing, and what it runs.
import { parse } from "../lib/exact";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, get, type Page, type Problem } from "../lib/api";
import { sentence } from "../lib/cron";
import { age, dur, num, plural, time, until } from "../lib/format";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams, url } from "../lib/place";
import type { Schedule, TaskRow } from "../lib/types";
import { ReasonField, Refused } from "../ui/act";
import { confirm } from "../ui/confirm";
import { Icon, Status } from "../ui/marks";
import {
  Button,
  Command,
  Dialog,
  Empty,
  Field,
  Gone,
  Json,
  Shown,
  Text,
  Time,
  Title,
  toast,
  scrollable,
} from "../ui/parts";

export function Schedules(): JSX.Element {
  const loaded = useLoad((signal) => get<Page<Schedule>>("/schedules", signal), "schedules");
  const [adding, setAdding] = useState(false);
  const all = [...(loaded.data?.items ?? [])].sort((a, b) =>
    (a.next_at ?? "~").localeCompare(b.next_at ?? "~"),
  );
  const chosen = all.find((one) => one.name === param("name"));
  const next = all.find((one) => !one.paused && one.next_at);
  const held = all.filter((one) => one.paused).length;
  return (
    <div class={chosen ? "split" : "one"}>
      <div class="page">
        <Title
          acts={
            <Button rank="pri" right="schedules.write" onClick={() => setAdding(true)}>
              New schedule
            </Button>
          }
          sub={
            held
              ? `${held} paused.`
              : all.length
                ? "Each firing enqueues its task exactly once, also with several gateways."
                : undefined
          }
        >
          {!loaded.data
            ? "Schedules"
            : all.length === 0
              ? "No schedules"
              : `${plural(all.length, "schedule")}`}
          {loaded.data && next ? (
            <>
              , the next in <span class="nw">{dur(Math.max(0, until(next.next_at)), true)}</span>
            </>
          ) : null}
        </Title>
        {loaded.data && param("name") && !chosen && (
          <Gone what="schedule" name={param("name")} why="it was removed, or the link is wrong" />
        )}
        <Shown of={loaded}>
          {() =>
            all.length === 0 ? (
              <div class="wrap">
                <Empty
                  sign="schedules"
                  title="No schedules"
                  command={'holdfast schedule add NAME "30 2 * * *" TYPE'}
                >
                  A schedule enqueues a task at recurring times; code defines one with{" "}
                  <code>@queue.task(cron=…)</code>.
                </Empty>
              </div>
            ) : (
              <div class="wrap scroll" ref={scrollable}>
                <table class="t tall">
                  <thead>
                    <tr>
                      <th>Schedule</th>
                      <th>When</th>
                      <th class="n">Next in</th>
                      <th class="c2">Last</th>
                      <th class="c2">Declared by</th>
                    </tr>
                  </thead>
                  <tbody>
                    {all.map((one) => (
                      <tr
                        data-row
                        class={one === chosen ? "open" : ""}
                        onClick={() => setParams({ name: one === chosen ? null : one.name })}
                      >
                        <td>
                          <a class="strong" href={url(`/schedules?name=${encodeURIComponent(one.name)}`)}>
                            <Text>{one.name}</Text>
                          </a>
                          <br />
                          <span class="sm sub">
                            <Text>{one.type}</Text>
                          </span>
                        </td>
                        <td class="when">
                          {sentence(one.spec)}
                          {one.timezone !== "UTC" ? `, ${one.timezone}` : ""}
                          <br />
                          <span class="sm dim m">
                            <Text>{one.spec}</Text>
                          </span>
                        </td>
                        <td class="n">
                          {one.paused ? (
                            <span class="hold">paused</span>
                          ) : (
                            <>
                              {dur(Math.max(0, until(one.next_at)), true)}
                              <br />
                              <span class="sm dim">{time(one.next_at)}</span>
                            </>
                          )}
                        </td>
                        <td class="c2">
                          {one.fired_at ? <Time at={one.fired_at} /> : <span class="dim">not yet</span>}
                        </td>
                        <td class="c2 sub">{one.owner ?? "API"}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )
          }
        </Shown>
      </div>
      {chosen && <Sheet key={chosen.name} schedule={chosen} />}
      {adding && <Add onClose={() => setAdding(false)} />}
    </div>
  );
}

const inZone = (at: string, zone: string, options: Intl.DateTimeFormatOptions): string => {
  try {
    return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone }).format(new Date(at));
  } catch {
    return "–"; // The browser does not know the zone.
  }
};
const day = (at: string, zone: string): string =>
  inZone(at, zone, { weekday: "short", day: "numeric", month: "short" }).replace(",", "");
const hour = (at: string, zone: string): string =>
  inZone(at, zone, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

function Sheet({ schedule }: { schedule: Schedule }): JSX.Element {
  const place = `/schedules/${encodeURIComponent(schedule.name)}`;
  const runs =
    useLoad(
      (signal) =>
        get<Page<TaskRow>>(
          `/tasks?limit=10&q=${encodeURIComponent(`type:${schedule.type} meta.schedule:${JSON.stringify(schedule.name)}`)}`,
          signal,
        ),
      `runs ${schedule.name}`,
      2_000,
    ).data?.items ?? [];
  const upcoming =
    useLoad(
      (signal) => get<Schedule>(place, signal),
      `next ${schedule.name} ${schedule.version} ${schedule.next_at ?? ""}`,
      60_000,
    ).data?.upcoming ?? [];
  return (
    <aside class="sheet" aria-label={schedule.name}>
      <div class="row top">
        <div class="min">
          <h2 class="big cut">
            <Text>{schedule.name}</Text>
          </h2>
          <p class="sub">
            {sentence(schedule.spec)}, {schedule.timezone}
          </p>
        </div>
        <span class="sp" />
        <button type="button" class="x" aria-label="Close" onClick={() => setParams({ name: null })}>
          <Icon is="close" />
        </button>
      </div>
      <div class="row wrapf gap">
        <Button
          rank="pri"
          right="schedules.write"
          name="Run now"
          onClick={() =>
            confirm({
              title: `Run ${schedule.name} now?`,
              says: "Its task is enqueued once. The schedule stays as it is.",
              verb: "Run it once",
              keep: "Not now",
              path: `${place}/run`,
              right: "schedules.write",
              done: "Its task was enqueued.",
            })
          }
        >
          Run now…
        </Button>
        {schedule.paused ? (
          <Button
            right="schedules.write"
            name="Resume"
            onClick={() =>
              confirm({
                title: `Resume ${schedule.name}?`,
                says: "It fires at its next regular time.",
                verb: "Resume",
                keep: "Keep it paused",
                path: `${place}/resume`,
                body: { expected_version: schedule.version },
                right: "schedules.write",
                done: "It fires again.",
                command: `holdfast schedule resume ${schedule.name}`,
              })
            }
          >
            Resume…
          </Button>
        ) : (
          <Button
            right="schedules.write"
            name="Pause"
            onClick={() =>
              confirm({
                title: `Pause ${schedule.name}?`,
                says: "It does not fire until it is resumed. What was missed meanwhile is not made up.",
                verb: "Pause",
                keep: "Keep it",
                path: `${place}/pause`,
                body: { expected_version: schedule.version },
                right: "schedules.write",
                done: "It is paused.",
                command: `holdfast schedule pause ${schedule.name}`,
              })
            }
          >
            Pause…
          </Button>
        )}
        <Button
          rank="dan"
          right="schedules.write"
          name="Remove"
          onClick={() =>
            confirm({
              title: `Remove ${schedule.name}?`,
              says: "The schedule is gone; the tasks that it enqueued stay.",
              verb: "Remove the schedule",
              keep: "Keep it",
              path: place,
              method: "DELETE",
              danger: true,
              right: "schedules.write",
              done: "It was removed.",
              command: `holdfast schedule remove ${schedule.name}`,
              onDone: () => setParams({ name: null }, true),
            })
          }
        >
          Remove…
        </Button>
      </div>
      <dl class="kv gap">
        <dt>rule</dt>
        <dd class="m">
          <Text>{schedule.spec}</Text>
        </dd>
        <dt>runs</dt>
        <dd>
          <Text>{schedule.type}</Text> in <Text>{schedule.queue ?? "its queue"}</Text>
        </dd>
        <dt>priority</dt>
        <dd>{schedule.priority ?? "normal"}</dd>
        <dt>project</dt>
        <dd>{schedule.project}</dd>
        <dt>next</dt>
        <dd>{schedule.paused ? "–" : <Time at={schedule.next_at} />}</dd>
        <dt>last</dt>
        <dd>
          {schedule.fired_at ? (
            <>
              <Time at={schedule.fired_at} />{" "}
              <span class="dim">· {dur(age(schedule.fired_at), true)} ago</span>
            </>
          ) : (
            "not yet"
          )}
        </dd>
        <dt>version</dt>
        <dd>{num(schedule.version)}</dd>
      </dl>
      {upcoming.length > 0 && (
        <>
          <div class="sec">
            <h2>Next {upcoming.length}</h2>
            <span class="sp" />
            <span class="sm sub">UTC{schedule.timezone === "UTC" ? "" : " · there"}</span>
          </div>
          <ul class="next10">
            {upcoming.map((at) => (
              <li>
                <span>{day(at, "UTC")}</span>
                <span class="m">{hour(at, "UTC")}</span>
                {schedule.timezone !== "UTC" && <span class="m dim">{hour(at, schedule.timezone)}</span>}
                <span class="dim">{dur(Math.max(0, until(at)), true)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {runs.length > 0 && (
        <>
          <div class="sec">
            <h2>Last runs</h2>
          </div>
          <ul class="plain">
            {runs.map((task) => (
              <li class="row">
                <Status is={task.status} size={12} />
                <a class="m dim" href={url(`/tasks/${task.id}`)}>
                  {task.id.slice(-8)}
                </a>
                <span class="sp" />
                <span class="sm sub">
                  <Time at={task.created_at} />
                </span>
              </li>
            ))}
          </ul>
        </>
      )}
      <div class="sec">
        <h2>Payload</h2>
      </div>
      <Json value={schedule.payload} />
      <div class="gap">
        <Command>{`holdfast schedule run ${schedule.name}`}</Command>
      </div>
    </aside>
  );
}

function Add({ onClose }: { onClose: () => void }): JSX.Element {
  const [form, setForm] = useState({
    name: "",
    spec: "",
    type: "",
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
    payload: "{}",
  });
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const field = (name: keyof typeof form) => ({
    value: form[name],
    onInput: (event: { currentTarget: { value: string } }) =>
      setForm({ ...form, [name]: event.currentTarget.value }),
  });
  const types =
    useLoad((signal) => get<Page<{ name: string }>>("/types", signal), "types", 60_000).data?.items ?? [];
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      await ask("PUT", `/api/v1/schedules/${encodeURIComponent(form.name)}`, {
        spec: form.spec,
        type: form.type,
        timezone: form.timezone,
        payload: parse(form.payload || "null"),
        reason,
      });
      toast(`Schedule ${form.name} was added.`);
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  return (
    <Dialog label="New schedule" onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <h2 class="big">New schedule</h2>
        <div class="two">
          <Field label="Name">
            <input class="inp" required {...field("name")} />
          </Field>
          <Field label="Task type">
            <input class="inp" required list="types" {...field("type")} />
            <datalist id="types">
              {types.map((type) => (
                <option value={type.name} />
              ))}
            </datalist>
          </Field>
        </div>
        <div class="two">
          <Field label="When" help={form.spec ? sentence(form.spec) : "30 2 * * *, @daily, @every 5m"}>
            <input class="inp m" required {...field("spec")} />
          </Field>
          <Field label="Time zone">
            <input class="inp" required {...field("timezone")} />
          </Field>
        </div>
        <Field label="Payload" help="JSON">
          <textarea class="inp m" rows={3} {...field("payload")} />
        </Field>
        {wrong && <Refused error={wrong} />}
        <ReasonField value={reason} onInput={setReason} needed={false} />
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>Cancel</Button>
          <Button rank="pri" type="submit" right="schedules.write" name="Add the schedule">
            Add the schedule
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
