// Where a person can go: the navigation, the palette and the keys follow this table.
import type { Sign } from "../ui/marks";

export interface Item {
  path: string;
  name: string;
  sign: Sign;
  count?: keyof Counts;
  kind?: "me" | "b";
  /** The key after `g` that goes there. */
  key?: string;
}
/** What has a count beside its name. */
export interface Counts {
  inbox: number;
  dead: number;
  conflicts: number;
  operations: number;
  jobs: number;
}
/** The navigation. A text begins a group of this name. */
export const NAV: (Item | string)[] = [
  { path: "/", name: "Overview", sign: "overview", key: "o" },
  { path: "/inbox", name: "Inbox", sign: "inbox", count: "inbox", kind: "me", key: "a" },
  "Work",
  { path: "/tasks", name: "Tasks", sign: "tasks", key: "t" },
  { path: "/dead-letters", name: "Dead letters", sign: "letters", count: "dead", kind: "b", key: "d" },
  { path: "/queues", name: "Queues", sign: "queues", key: "q" },
  { path: "/schedules", name: "Schedules", sign: "schedules", key: "h" },
  "Fleet",
  { path: "/fleet", name: "Jobs", sign: "jobs", count: "jobs", key: "f" },
  { path: "/fleet/hosts", name: "Hosts", sign: "hosts" },
  { path: "/nodes", name: "Nodes", sign: "nodes", key: "n" },
  "State",
  { path: "/sync", name: "Sync", sign: "sync", key: "s" },
  { path: "/conflicts", name: "Conflicts", sign: "conflicts", count: "conflicts", key: "c" },
  { path: "/locks", name: "Locks", sign: "locks", key: "l" },
  "Record",
  { path: "/events", name: "Events", sign: "events", key: "e" },
  { path: "/operations", name: "Operations", sign: "operations", count: "operations", key: "p" },
];
export const PLACES: Item[] = NAV.filter((item) => typeof item !== "string");
