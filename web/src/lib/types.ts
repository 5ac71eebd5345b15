// The objects of the API (docs/reference/objects.md), as far as screens read them.

interface Progress {
  done: number | null;
  note: string;
  phase: string;
  iteration: number;
}
export interface TaskRow {
  id: string;
  status: string;
  project: string;
  type: string;
  queue: string;
  priority: string;
  held_by: string | null;
  gate: string | null;
  version: number;
  fence: number;
  attempts: number;
  max_attempts: number;
  deaths: number;
  created_at: string;
  updated_at: string;
  due_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  node: string | null;
  claim_id: string | null;
  lease_remaining_seconds: number | null;
  progress: Progress | null;
  payload_bytes: number | null;
  result_bytes: number | null;
  error: string | null;
  fingerprint: string | null;
  waiting_on: number;
  idempotency_key: string | null;
  tags: string[];
  failure_kind?: string | null;
  payload_preview?: string | null;
  result_preview?: string | null;
}
interface Failure {
  kind: string;
  message: string;
  error_type: string;
  traceback: string;
  fingerprint: string;
  cause: string | null;
  node: string | null;
}
interface Dependency {
  id: string;
  policy: string;
  status: string | null;
  settled: boolean;
}
export interface Task extends TaskRow {
  client_id: string | null;
  desired: string | null;
  lease_until: string | null;
  progress_due_at: string | null;
  assigned_to: string | null;
  assigned_until: string | null;
  payload: unknown;
  result: unknown;
  checkpoint: unknown;
  metadata: Record<string, unknown>;
  metrics: Record<string, unknown>;
  options: Record<string, unknown>;
  limits: string[];
  failure: Failure | null;
  job_id: string | null;
  depends_on: Dependency[];
  dependents: string[];
}
interface Reason {
  code: string;
  text: string;
  data: Record<string, unknown>;
}
export interface Why {
  task_id: string;
  status: string;
  reasons: Reason[];
}
export interface Event {
  position: string;
  kind: string;
  at: string;
  task_id: string | null;
  type: string | null;
  project: string | null;
  version: number | null;
  data: Record<string, unknown>;
}
export interface Checkpoint {
  id: string;
  fence: number;
  attempt: number;
  nth: number;
  type: string;
  note: string;
  data: unknown;
  created_at: string;
}
export interface Intervention {
  type: string;
  id: string;
  task_id: string;
  args: Record<string, unknown>;
  reason: string;
  actor: string;
  state: string;
  effect: { from: string; to: string; fence: number } | null;
  target_node: string | null;
  target_fence: number | null;
  issued_at: string;
  delivered_at: string | null;
  ended_at: string | null;
  detail: unknown;
}
export interface Group {
  fingerprint: string;
  count: number;
  type: string;
  error: string;
  error_type: string;
  first_at: string;
  last_at: string;
  sample_id: string;
}
export interface Queue {
  name: string;
  counts: Record<string, number>;
  oldest_due_seconds: number | null;
  paused_at: string | null;
  paused_by: string | null;
  reason: string | null;
  version: number;
}
export interface Schedule {
  name: string;
  spec: string;
  timezone: string;
  type: string;
  payload: unknown;
  queue: string | null;
  priority: string | null;
  next_at: string | null;
  fired_at: string | null;
  paused: boolean;
  owner: string | null;
  project: string;
  version: number;
  upcoming?: string[];
}
export interface Node {
  id: string;
  project: string | null;
  kind: string | null;
  state: string | null;
  live: boolean;
  incarnation: number | null;
  capabilities: string[] | null;
  labels: Record<string, unknown> | null;
  registered_at: string | null;
  started_at: string | null;
  seen_at: string | null;
  seen_seconds_ago: number | null;
  lease_seconds: number | null;
  heartbeat_seconds: number | null;
  heartbeats: number[] | null;
  skew_seconds: number | null;
  running: number | null;
  lag_events: number | null;
  workers: number;
  busy: number;
  queues: string[];
  types: string[];
  skipped: Record<string, string>;
  deaf_handlers: number;
  abandoned_threads: number;
  troubles: number;
}
export interface LockRow {
  resource: string;
  held: boolean;
  owner: string | null;
  fence: number;
  claim_id: string | null;
  ttl_seconds: number | null;
  held_seconds: number | null;
  remaining_seconds: number | null;
}
export interface Lock extends LockRow {
  waiters: { owner: string; claim_id: string; waited_seconds: number }[];
  audit: { at: string; action: string; actor: string; reason: string; fence: number; owner: string }[];
}
export interface DecisionRow {
  id: string;
  task_id: string;
  job_id: string | null;
  project: string;
  key: string;
  question: string;
  options: unknown[];
  schema: unknown;
  default: unknown;
  assignees: string[];
  deadline_at: string | null;
  remaining_seconds: number | null;
  state: string;
  choice: unknown;
  data: unknown;
  by: string | null;
  reason: string | null;
  at: string | null;
  version: number;
}
export interface Decision extends DecisionRow {
  checkpoint: { type: string; note: string; data: unknown; created_at: string } | null;
}
export interface ConflictRow {
  id: string;
  project: string;
  task_id: string;
  client_id: string | null;
  kind: string;
  state: string;
  node: string;
  mutation_id: string;
  base_version: number;
  server_version: number;
  resolution: string | null;
  settled_by: string | null;
  reason: string | null;
  created_at: string;
  version: number;
}
export interface Conflict extends ConflictRow {
  server: unknown;
  client: unknown;
  base: unknown;
  server_written_at: string | null;
  server_written_by: string | null;
}
export interface Operation {
  id: string;
  action: string;
  q: string | null;
  cause: string;
  args: Record<string, unknown>;
  state: string;
  total: number;
  done: number;
  failed: number;
  failed_again: number;
  errors: { reason: string; count: number }[];
  detail: string;
  rate_per_second: number | null;
  canary: number | null;
  stop_on_fail_share: number | null;
  actor: string;
  reason: string;
  created_at: string;
  updated_at: string;
  version: number;
}
export interface DryRun {
  count: number;
  eligible: number;
  skipped: { reason: string; count: number }[];
  /** Of a replay with a patch: the payload of the first task. Null if it is long. */
  example?: { id: string; before: unknown; after: unknown } | null;
}
export interface Token {
  id: string;
  kind: string;
  name: string;
  principal: string;
  roles: string[];
  projects: string[];
  scopes: string[] | null;
  node_id: string | null;
  uses_left: number | null;
  state: string;
  created_by: string;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  token?: string | null;
}
export interface AuditRow {
  seq: number;
  at: string;
  actor: string;
  operation: string;
  project: string;
  subject: string;
  reason: string;
  before_version: number | null;
  after_version: number | null;
  detail: unknown;
  request_id: string;
  prev_hash: string;
  hash: string;
}
export interface Project {
  id: string;
  strategy: string;
  overrides: Record<string, string>;
  clock: number;
  version: number;
}
export type Stats = Record<string, unknown> & { by_queue?: Record<string, Record<string, number>> };
