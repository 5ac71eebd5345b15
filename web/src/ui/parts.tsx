// Small parts that screens share.
import { json } from "../lib/exact";
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { missing, Problem } from "../lib/api";
import { age, bytes, capital, clean, dur, time } from "../lib/format";
import { mark } from "../lib/live";
import { place, url } from "../lib/place";
import { Icon, type Family, type Sign } from "./marks";

type Click = (event: MouseEvent) => void;

/** A button. With `right`, it is off without that right and says why. */
export function Button(props: {
  children: ComponentChildren;
  onClick?: Click | (() => void);
  rank?: "pri" | "per" | "dan" | "danfill" | "gho" | "";
  small?: boolean;
  right?: string;
  off?: string | undefined;
  hint?: string;
  busy?: boolean;
  type?: "button" | "submit";
  name?: string;
  pressed?: boolean;
  /** Left out on a phone: it is in the menu of more acts there too. */
  low?: boolean;
}): JSX.Element {
  const what = props.name ?? (typeof props.children === "string" ? props.children.replace("…", "") : "This");
  const off = props.off ?? missing(props.right, what);
  return (
    <button
      type={props.type ?? "button"}
      class={`btn ${props.rank ?? ""} ${props.small ? "sm" : ""} ${props.low ? "lo" : ""}`}
      aria-disabled={off ? "true" : undefined}
      disabled={props.busy}
      title={off ?? props.hint}
      aria-label={props.name}
      aria-pressed={props.pressed}
      onClick={(event) => {
        if (off) {
          event.preventDefault();
          toast(off, "warn");
        } else props.onClick?.(event);
      }}
    >
      {props.children}
    </button>
  );
}

/** A bar of parts. Widths are set by the object model: the policy allows no inline style. */
export function Meter({
  parts,
  total,
  label,
}: {
  parts: [number, Family][];
  total: number;
  label?: string;
}): JSX.Element {
  return (
    <span class="meter" role={label ? "img" : undefined} aria-label={label}>
      {parts.map(([n, of]) =>
        n > 0 ? (
          <i class={`f-${of}`} style={{ width: `${Math.min(100, (100 * n) / Math.max(1, total))}%` }} />
        ) : null,
      )}
    </span>
  );
}

/** The time that is left of a lease, counted down by the page from a duration. */
export function Lease({ left, whole }: { left: number; whole: number }): JSX.Element {
  const shown = Math.max(0, left);
  return (
    <span class="lease">
      <Meter parts={[[shown, shown < whole / 3 ? "warn" : "work"]]} total={whole} />
      <span>{dur(shown, true)}</span>
    </span>
  );
}

export const Time = ({
  at,
  as = "time",
}: {
  at: string | null | undefined;
  as?: "time" | "age";
}): JSX.Element =>
  at ? (
    <time dateTime={at} title={as === "age" ? `${time(at)} · ${at}` : `${dur(age(at))} ago · ${at}`}>
      {as === "age" ? dur(age(at), true) : time(at)}
    </time>
  ) : (
    <span class="dim">–</span>
  );

/** Text of a machine, with control characters shown. */
export const Text = ({ children }: { children: string | null | undefined }): JSX.Element => (
  <>{clean(children ?? "")}</>
);

export function Copy({ text, name = "Copy" }: { text: string; name?: string }): JSX.Element {
  const [done, setDone] = useState(false);
  return (
    <button
      type="button"
      class="copy"
      title={name}
      aria-label={name}
      onClick={async (event) => {
        event.preventDefault();
        event.stopPropagation();
        try {
          await navigator.clipboard.writeText(text);
          setDone(true);
          setTimeout(() => setDone(false), 1_200);
        } catch {
          toast("The browser does not let this page copy.", "warn");
        }
      }}
    >
      <Icon is={done ? "check" : "copy"} of={done ? "good" : "dim"} size={12} />
    </button>
  );
}

/** The same thing as a command, to copy. */
export const Command = ({ children }: { children: string }): JSX.Element => (
  <p class="cl">
    <Icon is="command" />
    <span class="cut">{children}</span>
    <Copy text={children} name="Copy the command" />
  </p>
);

export function Empty(props: {
  sign: Sign;
  of?: Family;
  title: ComponentChildren;
  children?: ComponentChildren;
  command?: string;
  act?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <Icon is={props.sign} of={props.of ?? "dim"} size={20} />
      <b class="strong">{props.title}</b>
      {props.children && <p class="sub">{props.children}</p>}
      {props.command && (
        <code class="well one">
          <span class="cut">{props.command}</span>
          <Copy text={props.command} name="Copy the command" />
        </code>
      )}
      {props.act}
    </div>
  );
}

/** What an address names and no list has: an old link, a slip of the hand. */
export const Gone = ({ what, name, why }: { what: string; name: string; why: string }): JSX.Element => (
  <p class="banner warn gap" role="status">
    <Icon is="search" of="warn" />
    <span>
      There is no {what} '<Text>{name}</Text>': {why}.
    </span>
  </p>
);
export const NoPage = (): JSX.Element => (
  <Empty
    sign="search"
    title={<h1>There is no such page</h1>}
    act={
      <a class="btn" href={url("/")}>
        To the overview
      </a>
    }
  />
);

const sentence = (text: string): string => (text ? `${capital(text)}${/[.!?…]$/.test(text) ? "" : "."}` : "");
/** The list that a page of one thing belongs to. */
const listOf = (path: string): string =>
  /^\/fleet\/(hosts|groups|blocks)\b/.exec(path)?.[0] ?? `/${path.split("/")[1] ?? ""}`;
const FIXES: Record<string, [string, string]> = {
  unavailable: ["The gateway does not answer", "holdfast doctor"],
  "store-unavailable": ["The store does not answer", "holdfast doctor"],
  "not-found": ["Not found", ""],
  forbidden: ["No access", "holdfast token list"],
  "invalid-query": ["The search cannot be read", ""],
};
/** An error in the place of what it kept away. */
export function Wrong(props: { error: Problem; retry?: () => void; isWhole?: boolean }): JSX.Element {
  const { error, retry } = props;
  const [title, command] = FIXES[error.code] ?? ["The gateway refused this", ""];
  return (
    <Empty
      sign={error.code === "not-found" ? "search" : "stuck"}
      of={error.code === "not-found" ? "dim" : "warn"}
      title={props.isWhole ? <h1>{title}</h1> : title}
      {...(command ? { command } : {})}
      act={
        error.code === "not-found" ? (
          <span class="row">
            <a class="btn" href={url(listOf(place.value.path))}>
              To the list
            </a>
            {retry && (
              <Button rank="gho" onClick={retry}>
                Try again
              </Button>
            )}
          </span>
        ) : (
          retry && <Button onClick={retry}>Try again</Button>
        )
      }
    >
      <Text>{sentence(error.message.replace(`${title}. `, ""))}</Text>
      <br />
      <code class="dim">{error.code}</code>
    </Empty>
  );
}

/** Rows in the shape of a list, after 200 ms. */
export const Skeleton = ({ rows = 6 }: { rows?: number }): JSX.Element => (
  <div class="skel" role="status" aria-label="Loading">
    {Array.from({ length: rows }, () => (
      <i />
    ))}
  </div>
);

/** What is there, or why not: data first, then the error, then a skeleton. */
export function Shown<T>(props: {
  of: { data: T | undefined; error: Problem | undefined; reload: () => void };
  children: (data: T) => ComponentChildren;
  rows?: number;
  /** It is all that the page has: what is said in its place is the heading. */
  isWhole?: boolean;
}): JSX.Element {
  const { data, error, reload } = props.of;
  if (data !== undefined)
    return (
      <>
        {error && !(error.code === "unavailable" && mark.value === "stale") && (
          <p class="banner warn">
            <Icon is="stuck" of="warn" />
            <span>
              <b class="strong">Not read again:</b> <Text>{error.message}</Text>
            </span>
          </p>
        )}
        {props.children(data)}
      </>
    );
  return error ? (
    <Wrong error={error} retry={reload} isWhole={props.isWhole ?? false} />
  ) : (
    <Skeleton rows={props.rows ?? 6} />
  );
}

export function Seg<T extends string>(props: {
  value: T;
  options: [T, ComponentChildren][];
  onPick: (value: T) => void;
  label: string;
}): JSX.Element {
  return (
    <div class="seg" role="group" aria-label={props.label}>
      {props.options.map(([value, text]) => (
        <button type="button" aria-pressed={value === props.value} onClick={() => props.onPick(value)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export function Title({
  children,
  sub,
  acts,
}: {
  children: ComponentChildren;
  sub?: ComponentChildren;
  acts?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="ttl">
      <div>
        <h1>{children}</h1>
        {sub && <p class="sub">{sub}</p>}
      </div>
      <span class="sp" />
      {acts && <div class="row wrapf">{acts}</div>}
    </div>
  );
}

const watched = new WeakMap<Element, ResizeObserver>();
/** What scrolls can be reached by keyboard; what does not is no stop of it. */
export function scrollable(box: HTMLElement | null): void {
  if (!box || watched.has(box)) return;
  const look = () => {
    if (box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver(look);
  observer.observe(box);
  for (const child of box.children) observer.observe(child);
  watched.set(box, observer);
  look();
}

// -- JSON and large texts ----------------------------------------------------------------------------

const SHOWN_CHARS = 64_000;
/** A value as indented JSON with its keys quiet; a long one shows its head and a download. */
export function Json({ value, size }: { value: unknown; size?: number | null }): JSX.Element {
  const text = json(value, 2);
  const long = text.length > SHOWN_CHARS;
  const tokens = clean(long ? text.slice(0, 4_000) : text, true).split(/("(?:[^"\\]|\\.)*"(?:\s*:)?)/);
  return (
    <>
      {long && (
        <p class="row sm sub">
          <span>{bytes(size ?? text.length)}: the first 4,000 characters are shown.</span>
          <Download text={text} name="value.json" />
        </p>
      )}
      <pre class="well json" ref={scrollable}>
        {tokens.map((t) =>
          t.startsWith('"') && t.endsWith(":") ? (
            <span class="dim">{t}</span>
          ) : t.startsWith('"') ? (
            <b>{t}</b>
          ) : (
            t
          ),
        )}
      </pre>
    </>
  );
}

export function Download({ text, name }: { text: string; name: string }): JSX.Element {
  return (
    <Button
      small
      onClick={() => {
        const link = document.createElement("a");
        link.href = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
        link.download = name;
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
      }}
    >
      Download
    </Button>
  );
}

const ANSI_FAMILY: Record<number, string> = {
  30: "dim",
  31: "bad",
  32: "good",
  33: "hold",
  34: "work",
  35: "doubt",
  36: "work",
  37: "",
  90: "dim",
  91: "bad",
  92: "good",
  93: "hold",
  94: "work",
  95: "doubt",
  96: "work",
};
/** Output of a task: colours of terminals become families, all other control characters are shown. */
export function Output({ text }: { text: string }): JSX.Element {
  const parts: ComponentChildren[] = [];
  let kind = "";
  let bold = false;
  // eslint-disable-next-line no-control-regex
  for (const part of text.replace(/\r\n/g, "\n").split(/(\u001b\[[0-9;]*m)/)) {
    if (part.startsWith("\u001b[") && part.endsWith("m")) {
      for (const code of part.slice(2, -1).split(";").map(Number)) {
        if (code === 0) [kind, bold] = ["", false];
        else if (code === 1) bold = true;
        else if (code === 39) kind = "";
        else if (code in ANSI_FAMILY) kind = ANSI_FAMILY[code] ?? "";
      }
    } else if (part)
      parts.push(
        kind || bold ? (
          <span class={`${kind} ${bold ? "strong" : ""}`}>{clean(part, true)}</span>
        ) : (
          clean(part, true)
        ),
      );
  }
  return (
    <pre class="well out" ref={scrollable}>
      {parts}
    </pre>
  );
}

// -- toasts ------------------------------------------------------------------------------------------

interface Toast {
  id: number;
  text: ComponentChildren;
  kind: "good" | "warn" | "bad";
}
const toasts = signal<Toast[]>([]);
let toastIds = 0;
const TOAST_MS = 6_000;
export function toast(text: ComponentChildren, kind: Toast["kind"] = "good"): void {
  const id = ++toastIds;
  toasts.value = [...toasts.value.slice(-3), { id, text, kind }];
  setTimeout(() => (toasts.value = toasts.value.filter((one) => one.id !== id)), TOAST_MS);
}
export const Toasts = (): JSX.Element => (
  <div class="toasts" role="status" aria-live="polite">
    {toasts.value.map((one) => (
      <p key={one.id} class="toast">
        <Icon
          is={one.kind === "good" ? "completed" : one.kind === "warn" ? "stuck" : "failed"}
          of={one.kind}
        />
        <span>{one.text}</span>
      </p>
    ))}
  </div>
);

// -- dialogs -----------------------------------------------------------------------------------------

/** A native dialog: it keeps the focus, gives it back, and closes with escape. */
export function Dialog(props: {
  onClose: () => void;
  children: ComponentChildren;
  label: string;
  kind?: string;
}): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = ref.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      class={`dlg ${props.kind ?? ""}`}
      aria-label={props.label}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onMouseDown={(event) => event.target === ref.current && props.onClose()}
    >
      <div class="dlg-in">{props.children}</div>
    </dialog>
  );
}

export function Field(props: {
  label: string;
  help?: ComponentChildren;
  error?: string | undefined;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <label class="field">
      <span class="lab">{props.label}</span>
      {props.children}
      {props.error ? (
        <small class="bad" role="alert">
          {props.error}
        </small>
      ) : props.help ? (
        <small>{props.help}</small>
      ) : null}
    </label>
  );
}
