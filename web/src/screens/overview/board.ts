// What the overview shows, read at once.
import { type Page, everywhere, get } from "../../lib/api";
import type { HostRow, JobRow, OpenApproval } from "../../lib/fleet";
import type {
  ConflictRow,
  DecisionRow,
  Group,
  Node,
  Operation,
  Queue,
  Stats,
  TaskRow,
} from "../../lib/types";

export interface Flow {
  seconds: number;
  from: string;
  series: Record<string, (number | null)[]>;
}

export interface Board {
  stats: Stats;
  queues: Queue[];
  nodes: Node[];
  groups: Group[];
  decisions: DecisionRow[];
  conflicts: ConflictRow[];
  stuck: TaskRow[];
  operations: Operation[];
  flow: Flow | null;
  approvals: OpenApproval[];
  hosts: HostRow[];
  jobs: JobRow[];
}

export const BOARD_MS = 1_000;

/** A job that ended before is history: its page still offers the retry. */
export const RECENT_SECONDS = 86_400;

export async function read(signal: AbortSignal): Promise<Board> {
  const items = <T>(path: string): Promise<T[]> =>
    get<Page<T>>(path, signal)
      .then((page) => page.items)
      .catch((error: { status?: number }) => {
        if (error.status === 403) return [];
        throw error;
      });
  const [
    stats,
    queues,
    nodes,
    groups,
    decisions,
    conflicts,
    stuck,
    operations,
    flow,
    approvals,
    jobs,
    hosts,
  ] = await Promise.all([
    get<Stats>("/stats", signal),
    items<Queue>("/queues"),
    items<Node>("/nodes?live=false&agents=false"),
    items<Group>("/dead-letters/groups?limit=20"),
    items<DecisionRow>("/decisions?q=state:open&limit=50"),
    items<ConflictRow>("/conflicts?q=state:open&limit=50"),
    items<TaskRow>("/tasks?q=status:stuck&limit=20"),
    items<Operation>("/operations?limit=20"),
    everywhere() ? get<Flow>("/flow?minutes=60", signal).catch(() => null) : Promise.resolve(null),
    items<OpenApproval>("/approvals?limit=20"),
    items<JobRow>("/jobs?limit=20"),
    items<HostRow>("/hosts?silent=true&limit=1000").catch(() => []),
  ]);
  return {
    stats,
    queues,
    nodes,
    groups,
    decisions,
    conflicts,
    stuck,
    operations,
    flow,
    approvals,
    jobs,
    hosts,
  };
}
