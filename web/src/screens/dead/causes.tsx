// Dead letters by cause, with examples inside.
import type { JSX } from "preact";
import { type Page, get, q } from "../../lib/api";
import { json } from "../../lib/exact";
import { age, dur, num, short, time } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { setParams, url } from "../../lib/place";
import type { Group, Task } from "../../lib/types";
import { Spark } from "../../ui/chart";
import { Icon } from "../../ui/marks";
import { Shown, Text, Time, scrollable } from "../../ui/parts";

const QUIET_SECONDS = 3_600;

export function ByCause({ groups, chosen }: { groups: Group[]; chosen: string }): JSX.Element {
  const trend =
    useLoad(
      (signal) => get<{ causes: Record<string, number[]> }>("/dead-letters/trend", signal),
      "trend",
      10_000,
    ).data?.causes ?? {};
  return (
    <div class="grp">
      <div class="gh0">
        <span />
        <span>Cause and type</span>
        <span class="n">24 h, count</span>
        <span class="n">Last, first</span>
        <span />
      </div>
      {groups.map((group) => (
        <>
          <div
            class={`g1 ${group.fingerprint === chosen ? "on" : ""}`}
            data-row
            onClick={() => setParams({ cause: group.fingerprint === chosen ? null : group.fingerprint })}
          >
            <Icon is="failed" of="bad" />
            <div class="min">
              <p class="cut m">
                <a
                  href={url(`/dead-letters?cause=${group.fingerprint}`)}
                  onClick={(event) => event.preventDefault()}
                >
                  <Text>{group.error || "no message"}</Text>
                </a>
                {age(group.last_at) > QUIET_SECONDS ? (
                  <span class="tag">quiet {dur(age(group.last_at), true)}</span>
                ) : age(group.last_at) < 300 ? (
                  <span class="tag bad">recent</span>
                ) : null}
              </p>
              <p class="sm sub">
                <Text>{group.type}</Text>
                {group.error_type ? (
                  <>
                    {" "}
                    · <Text>{group.error_type}</Text>
                  </>
                ) : null}
              </p>
            </div>
            <span class="cnt">
              {trend[group.fingerprint] && (
                <span class="wide" title={`By hour, over 24 hours: ${trend[group.fingerprint]?.join(", ")}`}>
                  <Spark values={trend[group.fingerprint] ?? []} of="bad" />
                </span>
              )}
              <b>{num(group.count)}</b>
            </span>
            <span class="n sm sub">
              <Time at={group.last_at} />
              <br />
              <span class="dim">since {time(group.first_at)}</span>
            </span>
            <Icon is={group.fingerprint === chosen ? "down" : "right"} of="dim" />
          </div>
          {group.fingerprint === chosen && <Examples group={group} />}
        </>
      ))}
    </div>
  );
}

function Examples({ group }: { group: Group }): JSX.Element {
  const loaded = useLoad(
    (signal) => get<Page<Task>>(`/dead-letters/latest?fingerprint=${q(group.fingerprint)}&limit=5`, signal),
    `examples ${group.fingerprint}`,
    2_000,
  );
  return (
    <div class="ex">
      <Shown of={loaded} rows={3}>
        {(page) => (
          <>
            <div class="scroll" ref={scrollable}>
              <table class="t">
                <thead>
                  <tr>
                    <th>Task</th>
                    <th>Died</th>
                    <th class="n">Tries</th>
                    <th>Payload</th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((task) => (
                    <tr>
                      <td class="m">
                        <a href={url(`/tasks/${task.id}`)}>{short(task.id)}</a>
                      </td>
                      <td>
                        <Time at={task.finished_at} />
                      </td>
                      <td class="n">
                        {task.attempts} of {task.max_attempts}
                      </td>
                      <td class="m dim whyc">
                        <Text>{json(task.payload)}</Text>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            <p class="row sm sub">
              <span>
                {page.items.length} of {num(group.count)}. {place(page.items[0])}
              </span>
              <span class="sp" />
              <a class="strong" href={url(`/tasks?q=${q(`status:failed fingerprint:${group.fingerprint}`)}`)}>
                Show all {num(group.count)}
              </a>
            </p>
          </>
        )}
      </Shown>
    </div>
  );
}

function place(task: Task | undefined): string {
  const frames = [...(task?.failure?.traceback ?? "").matchAll(/File "([^"]+)", line (\d+), in (\S+)/g)];
  const last = frames.at(-1);
  return last ? `Died in ${last[1]?.split("/").pop()}:${last[2]}, ${last[3]}.` : "";
}
