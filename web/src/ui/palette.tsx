// The command palette: go to a screen, open what has an id, search tasks, run something.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, may, q, type Page } from "../lib/api";
import { short } from "../lib/format";
import { helpOpen, paletteOpen, screenKeys } from "../lib/keys";
import { togglePause } from "../lib/live";
import { PLACES } from "../lib/nav";
import { go, withParams } from "../lib/place";
import { turnTheme } from "../lib/prefs";
import type { Node, Queue, TaskRow } from "../lib/types";
import { Icon, type Sign } from "./marks";
import { Dialog, Text } from "./parts";

interface Entry {
  group: string;
  sign: Sign;
  name: string;
  note: string;
  run: () => void;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** The end of an id, as lists show it. */
const SHORT = /^[0-9a-f]{8}$/i;
const SEARCH_MS = 150;

function fixed(): Entry[] {
  const screens: Entry[] = PLACES.map((item) => ({
    group: "Go to",
    sign: item.sign,
    name: item.name,
    note: item.key ? `g ${item.key}` : "",
    run: () => go(item.path),
  }));
  screens.push({
    group: "Go to",
    sign: "settings",
    name: "Settings",
    note: "doctor, tokens, roles",
    run: () => go("/settings"),
  });
  const acts: Entry[] = screenKeys.value.map((key) => ({
    group: "Actions",
    sign: "command",
    name: key.what,
    note: key.keys,
    run: key.run,
  }));
  acts.push(
    { group: "Actions", sign: "paused", name: "Pause the live view, or go on", note: "p", run: togglePause },
    { group: "Actions", sign: "settings", name: "Light or dark", note: "t", run: turnTheme },
    { group: "Actions", sign: "info", name: "All keys", note: "?", run: () => (helpOpen.value = true) },
  );
  return [...acts, ...screens];
}

async function find(text: string, signal: AbortSignal): Promise<Entry[]> {
  const some = <T,>(path: string): Promise<T[]> =>
    get<Page<T>>(path, signal)
      .then((page) => page.items)
      .catch(() => []);
  const [nodes, queues, tasks, ended] = await Promise.all([
    some<Node>("/nodes?live=false&agents=false"),
    some<Queue>("/queues"),
    /^[0-9a-f-]{4,36}$/i.test(text)
      ? some<TaskRow>(`/tasks?limit=5&q=${q(`id:${text}*`)}`)
      : Promise.resolve([]),
    SHORT.test(text)
      ? some<TaskRow>(`/tasks?limit=5&q=${q(`id:*${text.toLowerCase()}`)}`)
      : Promise.resolve([]),
  ]);
  const has = (name: string) => name.toLowerCase().includes(text.toLowerCase());
  return [
    ...[...tasks, ...ended].map(
      (task): Entry => ({
        group: "Go to",
        sign: "tasks",
        name: `${task.type} ${short(task.id)}`,
        note: task.status,
        run: () => go(`/tasks/${task.id}`),
      }),
    ),
    ...nodes
      .filter((node) => has(node.id))
      .slice(0, 4)
      .map(
        (node): Entry => ({
          group: "Go to",
          sign: "nodes",
          name: node.id,
          note: "node",
          run: () => go(`/nodes/${q(node.id)}`),
        }),
      ),
    ...queues
      .filter((queue) => has(queue.name))
      .slice(0, 4)
      .map(
        (queue): Entry => ({
          group: "Go to",
          sign: "queues",
          name: queue.name,
          note: "queue",
          run: () => go(withParams("/tasks", { q: `queue:${queue.name}` })),
        }),
      ),
  ];
}

export function Palette(): JSX.Element {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Entry[]>([]);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const close = () => (paletteOpen.value = false);
  const wanted = text.trim();
  useEffect(() => {
    setAt(0);
    if (UUID.test(wanted)) {
      close();
      go(`/tasks/${wanted}`);
      return;
    }
    if (!wanted || !may("tasks.read")) return setFound([]);
    const aborter = new AbortController();
    const timer = setTimeout(
      () => void find(wanted, aborter.signal).then(setFound, () => undefined),
      SEARCH_MS,
    );
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [wanted]);
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const entries = [
    ...fixed().filter((entry) => words.every((word) => entry.name.toLowerCase().includes(word))),
    ...found,
    ...(wanted
      ? [
          {
            group: "Search",
            sign: "search" as Sign,
            name: `Tasks with ${wanted.includes(":") ? wanted : `type:${wanted}*`}`,
            note: "search",
            run: () => go(withParams("/tasks", { q: wanted.includes(":") ? wanted : `type:${wanted}*` })),
          },
        ]
      : []),
  ]
    .sort(
      (a, b) =>
        ["Actions", "Go to", "Search"].indexOf(a.group) - ["Actions", "Go to", "Search"].indexOf(b.group),
    )
    .slice(0, 40);
  const run = (entry: Entry | undefined) => {
    close();
    entry?.run();
  };
  return (
    <Dialog label="Search or run" kind="pal" onClose={close}>
      <div class="pal-in">
        <Icon is="search" />
        <input
          autoFocus
          value={text}
          placeholder="Go to, run, or paste an id"
          aria-label="Search or run"
          role="combobox"
          aria-expanded="true"
          aria-controls="pal-list"
          aria-activedescendant={`pal-${at}`}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (by) {
              event.preventDefault();
              const next = (at + by + entries.length) % Math.max(1, entries.length);
              setAt(next);
              list.current?.querySelector(`#pal-${next}`)?.scrollIntoView({ block: "nearest" });
            } else if (event.key === "Enter") run(entries[at]);
          }}
        />
        <kbd class="k">esc</kbd>
      </div>
      <ul id="pal-list" role="listbox" ref={list} aria-label="What was found">
        {entries.map((entry, index) => (
          <>
            {entry.group !== entries[index - 1]?.group && (
              <li class="pal-h" role="presentation">
                {entry.group}
              </li>
            )}
            <li
              id={`pal-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseMove={() => setAt(index)}
              onClick={() => run(entry)}
            >
              <Icon is={entry.sign} />
              <span class="cut">
                <Text>{entry.name}</Text>
              </span>
              <span class="sp" />
              <span class="dim sm">{entry.note}</span>
            </li>
          </>
        ))}
      </ul>
      <p class="pal-f">
        <kbd class="k">↑</kbd>
        <kbd class="k">↓</kbd> move <kbd class="k">↵</kbd> open <span class="sp" />
        Paste any id
      </p>
    </Dialog>
  );
}
