// One registry of keys: it feeds the handler, the sheet behind `?` and the tips.
import { signal } from "@preact/signals";
import { togglePause } from "./live";
import { PLACES } from "./nav";
import { go } from "./place";
import { turnTheme } from "./prefs";

interface Key {
  keys: string;
  what: string;
  run: () => void;
}

export const paletteOpen = signal(false);
export const helpOpen = signal(false);

const always: Key[] = [
  ...PLACES.flatMap(({ key, name, path }) =>
    key ? [{ keys: `g ${key}`, what: name, run: () => go(path) }] : [],
  ),
  {
    keys: "/",
    what: "Search",
    run: () => document.querySelector<HTMLInputElement>("[data-search]")?.focus(),
  },
  { keys: "?", what: "All keys", run: () => (helpOpen.value = !helpOpen.value) },
  { keys: "p", what: "Pause the live view, or go on", run: togglePause },
  { keys: "t", what: "Light or dark", run: turnTheme },
  { keys: "j", what: "Next row", run: () => move(1) },
  { keys: "k", what: "Row before", run: () => move(-1) },
  { keys: "Enter", what: "Open the row", run: () => linkOf(current())?.click() },
  {
    keys: " ",
    what: "Mark the row",
    run: () => current()?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click(),
  },
];
/** Keys of the screen that is open. */
export const screenKeys = signal<Key[]>([]);
export const allKeys = (): Key[] => [...screenKeys.value, ...always];

const rows = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>("[data-row]")];
const current = (): HTMLElement | null => document.querySelector("[data-row].at");
/** A row is a link itself, or has one. */
const linkOf = (row: HTMLElement | null): HTMLElement | null =>
  row?.matches("a[href]") ? row : (row?.querySelector<HTMLElement>("a[href]") ?? null);
function move(by: number): void {
  const all = rows();
  const at = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + by))];
  all[at]?.classList.remove("at");
  next?.classList.add("at");
  next?.scrollIntoView({ block: "nearest" });
}

// A menu closes when something in it was chosen, and when the person goes on elsewhere.
document.addEventListener("click", (event) => {
  const target = event.target as Element | null;
  for (const menu of document.querySelectorAll<HTMLDetailsElement>("details.menu[open]"))
    if (!menu.contains(target) || target?.closest(".pop button, .pop a")) menu.open = false;
});

let pending = "";
let pendingTimer: ReturnType<typeof setTimeout> | undefined;
const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
  (target as HTMLInputElement).type !== "checkbox";

document.addEventListener("keydown", (event) => {
  if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    paletteOpen.value = !paletteOpen.value;
    return;
  }
  if (event.key === "Escape" && isTyping(event.target)) (event.target as HTMLElement).blur();
  if (
    event.metaKey ||
    event.ctrlKey ||
    event.altKey ||
    isTyping(event.target) ||
    document.querySelector("dialog[open]")
  )
    return;
  const pressed = pending
    ? `${pending} ${event.key}`
    : event.shiftKey && /^[A-Z]$/.test(event.key)
      ? `⇧${event.key}`
      : event.key;
  pending = "";
  clearTimeout(pendingTimer);
  if (pressed === "g") {
    pending = "g";
    pendingTimer = setTimeout(() => (pending = ""), 1_200);
    return;
  }
  const key = allKeys().find((one) => one.keys === pressed);
  if (!key) return;
  if (
    (pressed === "Enter" || pressed === " ") &&
    (!current() || (event.target as HTMLElement).closest("a, button, input"))
  )
    return;
  event.preventDefault();
  key.run();
});
