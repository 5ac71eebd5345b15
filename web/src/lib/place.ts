// Where the page is served, and where the person is: the URL holds all state of a view.
import { signal } from "@preact/signals";

const meta = document.querySelector<HTMLMetaElement>("meta[name=holdfast]");
export const base = meta?.dataset.base ?? "";
export const workerUrl = meta?.dataset.worker ?? "";

interface Place {
  /** As the address has it: a part of it is decoded once, where it is read. */
  path: string;
  params: URLSearchParams;
}

const here = (): Place => ({
  path: location.pathname.slice(base.length) || "/",
  params: new URLSearchParams(location.search),
});

/** A part of a path as text. What is no UTF-8 stays as it was typed. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = signal<Place>(here());

/** The name of what this page shows, for the bar and the title of the tab: an id says nothing to a reader. */
export const named = signal<{ path: string; name: string }>({ path: "", name: "" });
export const nameHere = (name: string): void => {
  if (named.peek().path !== place.peek().path || named.peek().name !== name)
    named.value = { path: place.peek().path, name };
};

export const url = (path: string): string => base + path;

/** Builds a path with parameters; those that are empty are left out. */
export function withParams(path: string, params: Record<string, string | null | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) if (value) search.set(name, value);
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

export function go(path: string, { replace = false, keep = false } = {}): void {
  const to = url(path);
  if (to !== location.pathname + location.search)
    history[replace ? "replaceState" : "pushState"](null, "", to);
  place.value = here();
  if (!replace && !keep) window.scrollTo(0, 0);
}

/** Changes parameters of this view. Each choice of a person is a step that Back undoes; `replace` is for what
    the page changes by itself or while a person types. */
export function setParams(changes: Record<string, string | null | undefined>, replace = false): void {
  const params = new URLSearchParams(place.value.params);
  for (const [name, value] of Object.entries(changes)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  const text = params.toString();
  go(text ? `${place.value.path}?${text}` : place.value.path, { replace, keep: true });
}

export const param = (name: string): string => place.value.params.get(name) ?? "";

window.addEventListener("popstate", () => (place.value = here()));
document.addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
  if (
    !link ||
    event.defaultPrevented ||
    event.button !== 0 ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey
  )
    return;
  if (link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
  if (!link.pathname.startsWith(`${base}/`) || link.pathname.startsWith(`${base}/api/`)) return;
  event.preventDefault();
  go(link.pathname.slice(base.length) + link.search);
});
