// The search bar: chips while it rests, text while it is edited, completion of keys and values, errors at their place.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../lib/api";
import { num } from "../lib/format";
import { SEARCHED_MAX, SEARCH_KEYS } from "../lib/rules";
import { Icon } from "./marks";

/** A key, what it takes, and whether an index serves it. */
export type Keys = [string, string, boolean][];
type Key = keyof typeof SEARCH_KEYS;
/** What a key takes, in a few words, and the order in which keys are offered. */
const NOTES: Record<Key, string> = {
  status: "running, queued, blocked, paused, stuck, completed, failed, aborted",
  type: "of task, with * as any",
  queue: "name",
  project: "name",
  node: "that holds the lease",
  age: ">1h, <5m",
  created: "2026-11-01..now",
  updated: "time or range",
  due: "time or range",
  finished: "time or range",
  attempt: ">=3",
  priority: "critical, high, normal, low",
  version: ">3",
  error: '~"part of the text"',
  fingerprint: "of a cause of death",
  args: "args.user.id:42",
  tag: "of the task",
  meta: "meta.key:value",
  lock: "held, expired",
  held: "by whom",
  decision: "open",
  why: "what it waits at",
  job: "id of a job of the fleet",
  host: "name of a host of the fleet",
  id: "its beginning and *",
  sort: "-created, updated, -age",
};
const TASKS: Keys = (Object.keys(NOTES) as Key[]).map((key) => [key, NOTES[key], SEARCH_KEYS[key].indexed]);
export const EVENTS: Keys = [
  ["subject", "the beginning of an id or a name, with *", true],
  ["actor", '~"ann": who did it', true],
  ["kind", 'task.dead, ~"part"', true],
  ["task_id", "of one task", true],
  ["type", "of task, with * as any", true],
  ["project", "name", true],
  ["data", "data.queue:low", true],
  ["at", "2026-11-01..now", true],
  ["age", "<1h", true],
];
export const ACTS: Keys = [
  ["subject", "the beginning of an id or a name, with *", true],
  ["actor", '~"ann": who did it', true],
  ["operation", "tasks.intervene, tokens.*", true],
  ["reason", '~"part of the text"', true],
  ["project", "name", true],
  ["detail", "detail.key:value", true],
  ["at", "2026-11-01..now", true],
  ["age", "<7d", true],
  ["seq", ">100", true],
];

/** The tokens of a query: split at blanks outside quotes and brackets. */
export function tokens(text: string): string[] {
  return text.match(/-?\([^)]*\)|(?:[^\s"]|"(?:[^"\\]|\\.)*"?)+/g) ?? [];
}
const keyOf = (token: string): string => token.replace(/^-/, "").split(":")[0]?.split(".")[0] ?? "";
export const without = (text: string, key: string): string =>
  tokens(text)
    .filter((token) => keyOf(token) !== key)
    .join(" ");
export const valuesOf = (text: string, key: string): string[] =>
  tokens(text)
    .filter((token) => !token.startsWith("-") && keyOf(token) === key)
    .flatMap((token) => token.slice(token.indexOf(":") + 1).split(","));
/** The query with the values of one key replaced. */
export const withValues = (text: string, key: string, values: string[]): string =>
  [
    ...(values.length ? [`${key}:${values.map(quoted).join(",")}`] : []),
    ...tokens(text).filter((token) => token.startsWith("-") || keyOf(token) !== key),
  ].join(" ");
export const quoted = (value: string): string =>
  /^[\w.*@/+-]+$/.test(value) ? value : JSON.stringify(value);

interface Offer {
  text: string;
  note: string;
}

export function QueryBar(props: {
  value: string;
  onSearch: (text: string) => void;
  error?: Problem | undefined;
  counts?: Record<string, Record<string, number>>;
  label: string;
  keys?: Keys;
  example?: string;
}): JSX.Element {
  const keys = props.keys ?? TASKS;
  const [text, setText] = useState(props.value);
  const [editing, setEditing] = useState(false);
  const [at, setAt] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setText(props.value), [props.value]);
  const last = /(\S*)$/.exec(text)?.[1] ?? "";
  const offers = editing ? offersOf(last, props.counts ?? {}, keys) : [];
  const take = (offer: Offer) => {
    const next = text.slice(0, text.length - last.length) + offer.text;
    setText(next);
    setAt(-1);
    if (!next.endsWith(":")) search(next);
    else input.current?.focus();
  };
  const search = (wanted: string) => {
    props.onSearch(tokens(wanted).join(" "));
    input.current?.focus();
  };
  const wrongAt = typeof props.error?.body.at === "number" ? props.error.body.at : null;
  const scan = tokens(text)
    .map(keyOf)
    .find((key) => keys.some(([name, , indexed]) => name === key && !indexed));
  return (
    <div class="qwrap">
      <div
        class={`q ${props.error ? "err" : ""} ${editing ? "ed" : ""}`}
        onClick={() => {
          setEditing(true);
          setTimeout(() => input.current?.focus());
        }}
      >
        <Icon is="search" of="dim" />
        {!editing &&
          tokens(text).map((token) => (
            <Chip
              token={token}
              onDrop={() =>
                props.onSearch(
                  tokens(text)
                    .filter((one) => one !== token)
                    .join(" "),
                )
              }
            />
          ))}
        <input
          ref={input}
          data-search
          value={editing ? text : ""}
          placeholder={editing || !text ? (props.example ?? "status:failed type:email.* age:>1h") : ""}
          aria-label={props.label}
          spellcheck={false}
          autocomplete="off"
          role="combobox"
          aria-expanded={offers.length > 0}
          aria-controls="q-offers"
          aria-invalid={props.error ? "true" : undefined}
          onFocus={() => setEditing(true)}
          onBlur={() => {
            setEditing(false);
            if (text !== props.value) props.onSearch(tokens(text).join(" "));
          }}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setAt(-1);
          }}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              event.preventDefault();
              setAt((at + (event.key === "ArrowDown" ? 1 : offers.length)) % Math.max(1, offers.length));
            } else if (event.key === "Enter") {
              event.preventDefault();
              const offer = offers[at];
              if (offer) take(offer);
              else search(text);
            } else if (event.key === "Tab" && offers[Math.max(0, at)] && last) {
              event.preventDefault();
              take(offers[Math.max(0, at)] as Offer);
            } else if (event.key === "Escape") setText(props.value);
          }}
        />
        {!editing && <kbd class="k">/</kbd>}
      </div>
      {editing && (offers.length > 0 || scan) && (
        <ul class="offers" id="q-offers" role="listbox">
          {offers.map((offer, index) => (
            <li
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => {
                event.preventDefault();
                take(offer);
              }}
            >
              <code>{offer.text}</code>
              <span class="sp" />
              <span class="dim sm">{offer.note}</span>
            </li>
          ))}
          {scan && (
            <li class="note">
              <Icon is="stuck" of="warn" size={12} />
              <span class="sm sub">
                {scan} has no index: the newest {num(SEARCHED_MAX)} tasks are searched
              </span>
            </li>
          )}
        </ul>
      )}
      {props.error && !editing && (
        <p class="qerr" role="alert">
          {wrongAt !== null && (
            <code>
              {text.slice(0, wrongAt)}
              <b>{text.slice(wrongAt) || "▁"}</b>
            </code>
          )}{" "}
          {String(
            props.error.body.expected ? `expected ${String(props.error.body.expected)}` : props.error.message,
          )}
        </p>
      )}
    </div>
  );
}

function Chip({ token, onDrop }: { token: string; onDrop: () => void }): JSX.Element {
  const cut = token.indexOf(":");
  return (
    <span class={`tok ${token.startsWith("-") ? "not" : ""}`}>
      {cut > 0 ? (
        <>
          <i>{token.slice(0, cut + 1)}</i>
          {token.slice(cut + 1)}
        </>
      ) : (
        token
      )}
      <button
        type="button"
        aria-label={`Drop ${token}`}
        onClick={(event) => {
          event.stopPropagation();
          onDrop();
        }}
      >
        <Icon is="close" size={12} />
      </button>
    </span>
  );
}

function offersOf(last: string, counts: Record<string, Record<string, number>>, keys: Keys): Offer[] {
  const minus = last.startsWith("-") ? "-" : "";
  const bare = last.slice(minus.length);
  const cut = bare.indexOf(":");
  if (cut < 0)
    return keys
      .filter(([key]) => key.startsWith(bare))
      .slice(0, 8)
      .map(([key, note, indexed]) => ({
        text: `${minus}${key}:`,
        note: indexed ? note : `${note} · no index`,
      }));
  const key = bare.slice(0, cut);
  const given = bare.slice(cut + 1);
  const comma = given.lastIndexOf(",");
  const before = given.slice(0, comma + 1);
  const begun = given.slice(comma + 1);
  const known = counts[key] ?? {};
  const words = [...new Set([...Object.keys(known), ...(SEARCH_KEYS[key as Key]?.words ?? [])])];
  return words
    .filter((word) => word.startsWith(begun) && word !== begun)
    .sort((a, b) => (known[b] ?? 0) - (known[a] ?? 0))
    .slice(0, 8)
    .map((word) => ({
      text: `${minus}${key}:${before}${quoted(word)}`,
      note: known[word] === undefined ? "" : num(known[word]),
    }));
}
