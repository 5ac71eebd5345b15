// Tasks: find any task. Views, query, facets, a histogram, and a live table whose rows can be marked and changed.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, get, may, q, type Page, type Problem } from "../lib/api";
import { age, clean, clock, dur, minute, num, plural, short, tight, time } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { screenKeys } from "../lib/keys";
import { second } from "../lib/live";
import { useLoad } from "../lib/load";
import { go, param, setParams, url, withParams } from "../lib/place";
import type { Stats, TaskRow } from "../lib/types";
import { line } from "../lib/why";
import { act, type Verb } from "../ui/act";
import { familyOf, Icon, Status, STATUSES, type Sign } from "../ui/marks";
import { Pager } from "../ui/pager";
import { Button, Empty, Lease, Skeleton, Text, toast, Wrong, scrollable } from "../ui/parts";
import { dropPreset, SavePreset, usePresets } from "../ui/presets";
import { QueryBar, tokens, valuesOf, without, withValues } from "../ui/query";

interface Facets {
  count: number;
  capped: boolean;
  status: Record<string, number>;
  type: Record<string, number>;
  queue: Record<string, number>;
  from: string | null;
  to: string | null;
  buckets: Record<string, number>[];
}
const LIMIT = 50;
const SHOWN_MAX = 8;
const FACETS_MS = 2_000;
const VIEWS: [string, string][] = [
  ["All", ""],
  ["Active", "status:running,queued,stuck,paused,blocked"],
  ["Needs a look", "status:stuck,failed"],
  ["Waits for a person", "decision:open"],
  ["Recent", "sort:-updated"],
];

export function Tasks(): JSX.Element {
  const query = param("q");
  const after = param("after");
  const list = useLoad(async (signal) => {
    const answer = await ask<Page<TaskRow> & { scope?: string }>(
      "GET",
      `/api/v1/tasks?limit=${LIMIT}&q=${q(query)}${after ? `&after=${q(after)}` : ""}`,
      undefined,
      signal,
    );
    return { ...answer.body, ms: answer.ms, readAt: Date.now() };
  }, `tasks ${query} ${after}`);
  const facets = useLoad((signal) => facetsOf(query, signal), `facets ${query}`, FACETS_MS).data;
  const total = useLoad((signal) => get<Stats>("/stats", signal), "stats", FACETS_MS).data;
  const search = (text: string) => setParams({ q: text, after: null });
  const saved = usePresets("view");
  const [saving, setSaving] = useState(false);
  const own = saved.find((one) => one.body.q === query);
  const isNew = query !== "" && !own && !VIEWS.some(([, text]) => text === query);
  const [marked, setMarked] = useState<Set<string>>(new Set());
  useEffect(() => setMarked(new Set()), [query, after]);
  const rows = list.data?.items ?? [];
  const isBadQuery = list.error?.body.at !== undefined;
  const bulk = (verb: Verb) => marked.size && act(verb, { ids: [...marked] });
  useLayoutEffect(() => {
    screenKeys.value = [
      { keys: "⇧P", what: "Pause the marked tasks", run: () => bulk("pause") },
      { keys: "⇧R", what: "Replay the marked dead letters", run: () => bulk("replay") },
      { keys: "⇧A", what: "Abort the marked tasks", run: () => bulk("abort") },
      { keys: "y", what: "Copy as command", run: () => void copy(query) },
    ];
    return () => void (screenKeys.value = []);
  });
  const inStore = total
    ? STATUSES.reduce(
        (sum, status) =>
          sum +
          Number(
            (status === "failed"
              ? Object.values(total.by_queue ?? {}).reduce((n, queue) => n + (queue.failed ?? 0), 0)
              : total[status]) ?? 0,
          ),
        0,
      )
    : null;
  return (
    <div class="page tasks">
      <h1 class="vh">Tasks</h1>
      <div class="views">
        {VIEWS.map(([name, text]) => (
          <a href={url(withParams("/tasks", { q: text }))} aria-current={text === query ? "page" : undefined}>
            {name}
            {text === "" && inStore !== null ? <span class="c">{tight(inStore)}</span> : null}
          </a>
        ))}
        {saved.map((one) => (
          <a
            class="own"
            href={url(withParams("/tasks", { q: String(one.body.q) }))}
            aria-current={one === own ? "page" : undefined}
            title={`${String(one.body.q)} · kept by ${one.changed_by.replace(/^user:/, "")}`}
          >
            <span class="cut">
              <Text>{one.name}</Text>
            </span>
            {one === own && facets ? (
              <span class="c">
                {num(facets.count)}
                {facets.capped ? "+" : ""}
              </span>
            ) : null}
          </a>
        ))}
        {own && may("presets.write") && (
          <button
            type="button"
            class="x"
            aria-label={`Remove the view ${own.name}`}
            title="Remove this view"
            onClick={() => dropPreset(own)}
          >
            <Icon is="close" size={12} />
          </button>
        )}
        {isNew && !isBadQuery && (
          <Button small rank="gho" right="presets.write" name="Save view" onClick={() => setSaving(true)}>
            <Icon is="plus" />
            Save view
          </Button>
        )}
      </div>
      {saving && (
        <SavePreset kind="view" body={{ q: query }} known={saved} onClose={() => setSaving(false)} />
      )}
      <div class="row top qrow">
        <QueryBar
          value={query}
          onSearch={search}
          error={isBadQuery ? list.error : undefined}
          label="Search tasks"
          counts={facets ? { status: facets.status, type: facets.type, queue: facets.queue } : {}}
        />
        <span class="wide">
          <Button onClick={() => void copy(query)}>
            <Icon is="command" />
            Copy as command
          </Button>
        </span>
      </div>
      <div class="chips">
        {STATUSES.map((status) => {
          const on = valuesOf(query, "status").includes(status);
          return (
            <button
              type="button"
              aria-pressed={on}
              onClick={() => search(withValues(query, "status", on ? [] : [status]))}
            >
              <Icon is={status} of={familyOf(status)} />
              {facets ? tight(facets.status[status] ?? 0) : ""}
              <span class="vh">{status}</span>
            </button>
          );
        })}
      </div>
      <div class="lay facets">
        <FacetBar query={query} facets={facets} onSearch={search} />
        <div class="wrap">
          {facets && facets.count > 1 && (
            <Histogram
              facets={facets}
              onPick={(from, to) =>
                search(
                  withValues(query, "created", [`${from}..${to}`]).replace(/created:"([^"]*)"/, "created:$1"),
                )
              }
            />
          )}
          {isBadQuery ? (
            <Empty sign="search" title="The search cannot be read">
              <Text>{(list.error as Problem).message}</Text>
            </Empty>
          ) : list.error && !list.data ? (
            <Wrong error={list.error} retry={list.reload} />
          ) : !list.data ? (
            <Skeleton rows={12} />
          ) : rows.length === 0 ? (
            <Nothing query={query} inStore={inStore} onSearch={search} />
          ) : (
            <Table rows={rows} readAt={list.data.readAt} marked={marked} onMark={setMarked} />
          )}
          {list.data && rows.length > 0 && (
            <div class="tfoot">
              <span>
                {after ? "" : `1 to ${rows.length} of `}
                <b class="strong">{facets ? `${num(facets.count)}${facets.capped ? "+" : ""}` : "…"}</b> that
                match{inStore !== null ? `, of ${num(inStore)} in the store` : ""}
              </span>
              <span class="dim">
                {Math.round(list.data.ms)} ms
                {list.data.scope && query
                  ? `, among the ${list.data.scope.replace(/^newest-/, "newest ").replace(/\d+/, (n) => num(Number(n)))}`
                  : ", all keys indexed"}
              </span>
              <span class="sp" />
              <Pager isFirst={!after} next={list.data.next ? { after: list.data.next } : null} />
            </div>
          )}
        </div>
      </div>
      {marked.size > 0 && (
        <div class="bulk" role="toolbar" aria-label="Marked tasks">
          <b class="strong">{marked.size} selected</b>
          {facets && facets.count > marked.size && query && !facets.capped && (
            <button type="button" class="lnk" onClick={() => act("pause", { query, count: facets.count })}>
              Pause all {num(facets.count)} that match
            </button>
          )}
          <i class="v" />
          <Button right="tasks.intervene" onClick={() => bulk("pause")}>
            <Icon is="paused" of="hold" />
            Pause…<kbd class="k">⇧P</kbd>
          </Button>
          <Button right="tasks.intervene" onClick={() => bulk("resume")}>
            Resume…
          </Button>
          <Button right="dead.replay" onClick={() => bulk("replay")}>
            Replay…<kbd class="k">⇧R</kbd>
          </Button>
          <Button right="tasks.intervene" onClick={() => bulk("reassign")}>
            Reassign…
          </Button>
          <Button rank="dan" right="tasks.intervene" onClick={() => bulk("abort")}>
            Abort…<kbd class="k">⇧A</kbd>
          </Button>
          <button type="button" class="x" aria-label="Mark none" onClick={() => setMarked(new Set())}>
            <Icon is="close" />
          </button>
        </div>
      )}
    </div>
  );
}

async function copy(query: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(`holdfast task list${query ? ` -q ${JSON.stringify(query)}` : ""}`);
    toast("Copied: the same list as a command.");
  } catch {
    toast("The browser does not let this page copy.", "warn");
  }
}

async function facetsOf(query: string, signal: AbortSignal): Promise<Facets> {
  const read = (text: string) => get<Facets>(`/tasks/facets?q=${q(text)}`, signal);
  const bare = without(without(query, "sort"), "status");
  if (bare === without(query, "sort")) return read(bare);
  // The statuses are counted without the choice of statuses, so that another one can be chosen.
  const [all, others] = await Promise.all([read(without(query, "sort")), read(bare)]);
  return { ...all, status: others.status };
}

function FacetBar({
  query,
  facets,
  onSearch,
}: {
  query: string;
  facets: Facets | undefined;
  onSearch: (text: string) => void;
}): JSX.Element {
  const toggle = (key: string, value: string) => {
    const now = valuesOf(query, key);
    onSearch(
      withValues(query, key, now.includes(value) ? now.filter((one) => one !== value) : [...now, value]),
    );
  };
  const group = (name: string, key: "type" | "queue") => {
    const chosen = new Set(valuesOf(query, key).map((one) => one.replace(/^"|"$/g, "")));
    const found = Object.entries(facets?.[key] ?? {}).sort((a, b) => b[1] - a[1]);
    const shown = found.filter(([value], index) => index < SHOWN_MAX || chosen.has(value));
    return found.length === 0 ? null : (
      <>
        <h3>{name}</h3>
        {shown.map(([value, n]) => (
          <button
            type="button"
            class={chosen.has(value) ? "on" : ""}
            aria-pressed={chosen.has(value)}
            onClick={() => toggle(key, value)}
          >
            <span class="cut">
              <Text>{value}</Text>
            </span>
            <span class="c">{tight(n)}</span>
          </button>
        ))}
        {found.length > shown.length && <p class="dim sm">{found.length - shown.length} more</p>}
      </>
    );
  };
  const chosen = valuesOf(query, "status");
  return (
    <aside class="fac" aria-label="Narrow the list">
      <h3>Status</h3>
      {STATUSES.map((status) => (
        <button
          type="button"
          class={chosen.includes(status) ? "on" : ""}
          aria-pressed={chosen.includes(status)}
          onClick={() => toggle("status", status)}
        >
          <Icon is={status as Sign} of={familyOf(status)} />
          {status}
          <span class="c">{facets ? tight(facets.status[status] ?? 0) : ""}</span>
        </button>
      ))}
      {group("Type", "type")}
      {group("Queue", "queue")}
      {facets?.capped && <p class="dim sm">Counted over the newest {num(facets.count)}.</p>}
    </aside>
  );
}

const STACK = ["completed", "running", "queued", "blocked", "aborted", "paused", "stuck", "failed"];
const AXIS = [0, 0.25, 0.5, 0.75, 1];
const DAY_MS = 86_400_000;
/** A time on an axis of this length: seconds matter in minutes, days in weeks. */
const stamp = (at: number, length: number): string =>
  length > DAY_MS ? time(new Date(at).toISOString()) : length > 600_000 ? minute(at) : clock(at);
function Histogram({
  facets,
  onPick,
}: {
  facets: Facets;
  onPick: (from: string, to: string) => void;
}): JSX.Element {
  const [drag, setDrag] = useState<[number, number] | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const n = facets.buckets.length;
  const most = Math.max(
    1,
    ...facets.buckets.map((bucket) => Object.values(bucket).reduce((a, b) => a + b, 0)),
  );
  const [from, to] = [Date.parse(facets.from ?? ""), Date.parse(facets.to ?? "")];
  const at = (event: PointerEvent) => {
    const place = box.current?.getBoundingClientRect();
    return place
      ? Math.max(0, Math.min(n - 1, Math.floor(((event.clientX - place.left) / place.width) * n)))
      : 0;
  };
  const edge = (index: number) =>
    new Date(from + ((to - from) * index) / n).toISOString().replace(/\.\d+Z/, "Z");
  return (
    <div class="hist">
      <p class="row">
        <b class="strong">
          {facets.capped
            ? `${num(facets.count)}+ tasks match`
            : `${plural(facets.count, "task")} ${facets.count === 1 ? "matches" : "match"}`}
        </b>
        <span class="sub">created, by status now</span>
        <span class="sub wide">· drag to narrow</span>
      </p>
      <div
        class="bars"
        ref={box}
        role="img"
        aria-label={`${facets.count} tasks by the time of their creation`}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrag([at(event), at(event)]);
        }}
        onPointerMove={(event) => drag && setDrag([drag[0], at(event)])}
        onPointerUp={() => {
          if (drag) onPick(edge(Math.min(...drag)), edge(Math.max(...drag) + 1));
          setDrag(null);
        }}
      >
        {facets.buckets.map((bucket, index) => (
          <span class={drag && index >= Math.min(...drag) && index <= Math.max(...drag) ? "sel" : ""}>
            {STACK.map((status) =>
              bucket[status] ? (
                <i class={`f-${familyOf(status)}`} style={{ height: `${(100 * bucket[status]) / most}%` }} />
              ) : null,
            )}
          </span>
        ))}
      </div>
      <p class="ax" aria-hidden="true">
        {AXIS.map((share) => (
          <span>{stamp(from + (to - from) * share, to - from)}</span>
        ))}
      </p>
    </div>
  );
}

function Table({
  rows,
  readAt,
  marked,
  onMark,
}: {
  rows: TaskRow[];
  readAt: number;
  marked: Set<string>;
  onMark: (ids: Set<string>) => void;
}): JSX.Element {
  const seen = useRef(new Map<string, string>());
  const lastMarked = useRef(-1);
  const since = (second.value - readAt) / 1000;
  const changed = useMemo(() => {
    const now = new Set<string>();
    for (const task of rows) {
      const before = seen.current.get(task.id);
      if (before !== undefined && before !== `${task.status} ${task.version}`) now.add(task.id);
    }
    seen.current = new Map(rows.map((task) => [task.id, `${task.status} ${task.version}`]));
    return now;
  }, [rows]);
  const mark = (index: number, event: MouseEvent) => {
    const next = new Set(marked);
    const [from, to] =
      event.shiftKey && lastMarked.current >= 0
        ? [Math.min(index, lastMarked.current), Math.max(index, lastMarked.current)]
        : [index, index];
    const on = !marked.has(rows[index]?.id ?? "");
    for (const task of rows.slice(from, to + 1))
      if (on) next.add(task.id);
      else next.delete(task.id);
    lastMarked.current = index;
    onMark(next);
  };
  const all = rows.every((task) => marked.has(task.id));
  return (
    <div class="scroll" ref={scrollable}>
      <table class="t tasktable">
        <thead>
          <tr>
            <th class="ckc">
              <input
                type="checkbox"
                aria-label="Mark this page"
                checked={all}
                onChange={() => onMark(all ? new Set() : new Set(rows.map((task) => task.id)))}
              />
            </th>
            <th>Status</th>
            <th>Type</th>
            <th class="c2">Id</th>
            <th class="c2">Node</th>
            <th class="n c3">Ver</th>
            <th class="n c3">Fence</th>
            <th class="c2">Lease</th>
            <th class="n">Try</th>
            <th class="n">Age</th>
            <th class="whyc">Why</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((task, index) => {
            const left = task.lease_remaining_seconds;
            return (
              <tr
                key={task.id}
                data-row
                class={marked.has(task.id) ? "sel" : ""}
                onClick={(event) => {
                  if (!(event.target as HTMLElement).closest("a,button,input") && !getSelection()?.toString())
                    go(`/tasks/${task.id}`);
                }}
              >
                <td class="ckc">
                  <input
                    type="checkbox"
                    aria-label={`Mark ${task.type} ${short(task.id)}`}
                    checked={marked.has(task.id)}
                    onClick={(event) => mark(index, event)}
                  />
                </td>
                <td class={changed.has(task.id) ? "flash" : ""}>
                  <Status is={task.status} />
                </td>
                <td>
                  <a class="strong" href={url(`/tasks/${task.id}`)}>
                    <Text>{task.type}</Text>
                  </a>
                  <span class="pid m dim"> {short(task.id)}</span>
                </td>
                <td class="m dim c2">{short(task.id)}</td>
                <td class="c2 nodec cut">
                  {task.node ? <Text>{nodeName(task.node)}</Text> : <span class="dim">–</span>}
                </td>
                <td class="n c3">{task.version}</td>
                <td class="n c3 m dim">{task.fence}</td>
                <td class="c2">
                  {left !== null ? (
                    <Lease left={left - since} whole={Math.max(15, left)} />
                  ) : (
                    <span class="dim">–</span>
                  )}
                </td>
                <td class="n">
                  {task.attempts}/{task.max_attempts}
                </td>
                <td class="n" title={task.created_at}>
                  {dur(age(task.created_at), true)}
                </td>
                <td class="whyc" title={clean(line(task))}>
                  <Text>{line(task)}</Text>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Nothing({
  query,
  inStore,
  onSearch,
}: {
  query: string;
  inStore: number | null;
  onSearch: (text: string) => void;
}): JSX.Element {
  if (!query)
    return (
      <Empty sign="tasks" title="No tasks yet" command="holdfast enqueue TYPE key=value">
        A task is a call of a named function that a worker runs later. Enqueue one, here or in your program.
      </Empty>
    );
  const last = tokens(query).at(-1) ?? "";
  return (
    <Empty
      sign="search"
      title={`Nothing matches${inStore !== null ? `, in ${num(inStore)} tasks` : ""}`}
      act={<Button onClick={() => onSearch(tokens(query).slice(0, -1).join(" "))}>Drop {last}</Button>}
    >
      The search is <code>{query}</code>.
    </Empty>
  );
}
