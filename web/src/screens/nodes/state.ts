// What a node is and how it is, from its row.
import { nodeName } from "../../lib/hosts";
import type { Node as NodeView } from "../../lib/types";
import type { Family, Sign } from "../../ui/marks";

/** The state of a node: word, mark, family. */
export function nodeState(node: NodeView): [string, Sign, Family] {
  if (node.state === "quarantined") return ["quarantined", "stuck", "doubt"];
  if (node.state === "revoked") return ["revoked", "aborted", "off"];
  if (!node.live) return ["gone", "late", "idle"];
  if (isLate(node.seen_seconds_ago ?? 0, node.heartbeat_seconds)) return ["late", "late", "warn"];
  if (node.state === "draining") return ["draining", "paused", "hold"];
  if (node.state === "cordoned") return ["cordoned", "aborted", "off"];
  return ["live", "completed", "good"];
}
/** What a node is. A process of the store that serves no queue takes no task: a gateway. */
export const kindOf = (node: NodeView): string =>
  node.kind ?? (node.queues.length === 0 && node.types.length === 0 ? "gateway" : "worker");
/** The name that people know a node by: an agent is known by its host. */
export const nameOfNode = (node: NodeView): string =>
  typeof node.labels?.host === "string" ? node.labels.host : nodeName(node.id);

export const labelsOf = (node: NodeView): string =>
  Object.entries(node.labels ?? {})
    .map(([name, value]) => `${name}=${String(value)}`)
    .join(" ");

const LATE_HEARTBEATS = 2;
/** Whether a silence is longer than that of a node which is on time. */
export const isLate = (silence: number, heartbeat: number | null): boolean =>
  heartbeat !== null && silence > LATE_HEARTBEATS * heartbeat;
