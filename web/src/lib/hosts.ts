// Names of nodes. An agent's id is that of its host, which says nothing to a reader: its name is fetched once.
import { signal } from "@preact/signals";
import { get } from "./api";

const HOST = /^hst_[0-9a-f]{32}$/;
const TOGETHER = 8;
const PAUSE_MS = 250;
const KEPT = 100;
/** Names by id. A host that cannot be read has an empty one. */
const names = signal<Record<string, string>>({});
const wanted = new Set<string>();
let timer: ReturnType<typeof setTimeout> | undefined;

async function fetchSome(): Promise<void> {
  // The latest first: those of rows that have left the page meanwhile are forgotten.
  const ids = [...wanted].slice(-TOGETHER);
  for (const id of [...wanted].slice(0, -KEPT)) wanted.delete(id);
  const found = await Promise.all(
    ids.map((id) =>
      get<{ name: string }>(`/hosts/${id}`).then(
        (host) => host.name,
        () => "",
      ),
    ),
  );
  ids.forEach((id) => wanted.delete(id));
  names.value = { ...names.value, ...Object.fromEntries(ids.map((id, n) => [id, found[n] ?? ""])) };
  timer = wanted.size ? setTimeout(() => void fetchSome(), PAUSE_MS) : undefined;
}

/** A name that people gave stays whole; of an id the tail is shown until the name of its host is known. */
export function nodeName(id: string): string {
  if (HOST.test(id)) {
    const name = names.value[id];
    if (name) return name;
    if (name === undefined) {
      wanted.add(id);
      timer ??= setTimeout(() => void fetchSome(), 0);
    }
  }
  return id.replace(/^([a-z]{2,12}[-_])[0-9a-f]{12,}([0-9a-f]{8})$/, "$1…$2");
}
/** The page of a node: that of its host for an agent. */
export const nodePath = (id: string): string =>
  HOST.test(id) ? `/fleet/hosts/${id}` : `/nodes/${encodeURIComponent(id)}`;
