// A task: why it is where it is, its path, leases, attempts, events and versions.
import type { JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { type Page, Problem, get, post } from "../../lib/api";
import { jobOf } from "../../lib/fleet";
import { dur, short } from "../../lib/format";
import { runs, whole } from "../../lib/history";
import { nodeName } from "../../lib/hosts";
import { screenKeys } from "../../lib/keys";
import { useLoad } from "../../lib/load";
import { nameHere, url } from "../../lib/place";
import { EXECUTION } from "../../lib/rules";
import type { Event, Task as TaskView, Why } from "../../lib/types";
import { KINDS, type Verb, act, verbsOf } from "../../ui/act";
import { Icon, type Sign, familyOf } from "../../ui/marks";
import { Button, Copy, Shown, Text, toast } from "../../ui/parts";
import { Edit } from "./edit";
import { EventList } from "./events";
import { Lanes } from "./lanes";
import { PathBox } from "./path";
import { Side } from "./side";
import { Tabs } from "./tabs";
import { Versions } from "./versions";
import { WhyBox } from "./why";

interface Whole {
  task: TaskView;
  why: Why;
  events: Event[];
  readAt: number;
}

export function Task({ id }: { id: string }): JSX.Element {
  const loaded = useLoad<Whole>(async (signal) => {
    const [task, why, history] = await Promise.all([
      get<TaskView>(`/tasks/${id}`, signal),
      get<Why>(`/tasks/${id}/why`, signal),
      get<Page<Event>>(`/tasks/${id}/history`, signal),
    ]);
    return { task, why, events: history.items, readAt: Date.now() };
  }, `task ${id}`);
  return (
    <div class="page task">
      <Shown of={loaded} rows={10} isWhole>
        {(whole) => <Body {...whole} reload={loaded.reload} />}
      </Shown>
    </div>
  );
}

const KEYS: Record<string, string> = { pause: "⇧P", abort: "⇧A", retry: "⇧R", release: "⇧L" };

function Body({ task, why, events: kept, readAt, reload }: Whole & { reload: () => void }): JSX.Element {
  const events = whole(task, kept);
  useLayoutEffect(() => nameHere(task.type), [task.type]);
  const isExecution = task.type === EXECUTION;
  const verbs = verbsOf(task);
  const [editing, setEditing] = useState(false);
  useLayoutEffect(() => {
    screenKeys.value = verbs
      .filter((verb) => KEYS[verb])
      .map((verb) => ({
        keys: KEYS[verb] ?? "",
        what: `${KINDS[verb].name} this task`,
        run: () => act(verb, { task }),
      }));
    return () => void (screenKeys.value = []);
  });
  const first: Verb[] = verbs.slice(0, 3).filter((verb) => verb !== "abort");
  const rest = verbs.filter((verb) => !first.includes(verb) && verb !== "abort");
  return (
    <>
      <div class="ttl">
        <div>
          <h1 class="row">
            <Icon is={task.status as Sign} of={familyOf(task.status)} size={20} />
            <Text>{task.type}</Text>
          </h1>
          <p class="ids m dim">
            {task.id}
            <Copy text={task.id} name="Copy the id" />
            {task.client_id && (
              <span>
                named <Text>{task.client_id}</Text>
              </span>
            )}
          </p>
        </div>
        <span class="sp" />
        <div class="row wrapf taskacts">
          {jobOf(task) && (
            <a class="btn" href={url(`/fleet/jobs/${jobOf(task)}`)}>
              Open the job
            </a>
          )}
          {first.map((verb, index) => (
            <Button
              low={index === 2}
              right={KINDS[verb].right}
              name={KINDS[verb].name}
              onClick={() => act(verb, { task })}
            >
              {KINDS[verb].name}…{KEYS[verb] && <kbd class="k">{KEYS[verb]}</kbd>}
            </Button>
          ))}
          {verbs.includes("abort") && (
            <Button rank="dan" right="tasks.intervene" name="Abort" onClick={() => act("abort", { task })}>
              Abort…<kbd class="k">⇧A</kbd>
            </Button>
          )}
          {(!isExecution || rest.length > 0) && (
            <details class="menu">
              <summary class="btn" aria-label="More acts">
                <Icon is="more" />
              </summary>
              <div class="pop">
                {[...first.slice(2), ...rest].map((verb) => (
                  <button
                    type="button"
                    class={first.includes(verb) ? "onph" : ""}
                    onClick={() => act(verb, { task })}
                  >
                    {KINDS[verb].name}…
                  </button>
                ))}
                {!isExecution &&
                  task.status !== "completed" &&
                  task.status !== "aborted" &&
                  task.status !== "running" &&
                  task.status !== "stuck" && (
                    <button type="button" onClick={() => setEditing(true)}>
                      {task.status === "failed" ? "Edit and replay…" : "Edit the payload…"}
                    </button>
                  )}
                {!isExecution && (
                  <button type="button" onClick={() => void again(task)}>
                    Run a copy
                  </button>
                )}
              </div>
            </details>
          )}
        </div>
      </div>
      <WhyBox task={task} why={why} events={events} />
      <div class="lay side-r">
        <div class="col">
          <PathBox task={task} events={events} />
          <Lanes runs={runs(events)} events={events} />
          <Tabs task={task} events={events} />
          <EventList events={kept} isCut={kept.length < events.length} />
          {kept.length > 0 && <Versions events={kept} />}
        </div>
        <aside class="side">
          <Side task={task} readAt={readAt} />
        </aside>
      </div>
      {editing && (
        <Edit
          task={task}
          onClose={() => {
            setEditing(false);
            reload();
          }}
        />
      )}
    </>
  );
}

export async function again(task: TaskView): Promise<void> {
  try {
    const made = await post<{ id?: string; task?: TaskView }>(`/tasks/${task.id}/copy`, {});
    const id = made.task?.id ?? made.id;
    toast(
      <>
        A copy was enqueued: <a href={url(`/tasks/${id}`)}>{short(id ?? "")}</a>
      </>,
    );
  } catch (error) {
    toast((error as Problem).message, "bad");
  }
}

export const completed = (task: TaskView): string =>
  `It completed at attempt ${task.attempts} of ${task.max_attempts}, ${dur((Date.parse(task.finished_at ?? "") - Date.parse(task.created_at)) / 1000)} after it was enqueued`;

/** The reason with the names of hosts instead of their ids. */
export const named = (text: string): string => text.replace(/hst_[0-9a-f]{32}/g, nodeName);
