-- Agents: their rows, slots, runs, and when they were seen.

-- name: lock_agents
-- With the node, whose registration and state cannot change until the commit, and the host. Agents that another
-- transaction holds are left out.
-- index: holdfast_agent (primary key), holdfast_node (primary key), holdfast_host (primary key)
-- returns: {agent} node_incarnation node_state host_name host_state host_returned_at
WITH n AS MATERIALIZED (
    SELECT id, incarnation, state FROM holdfast_node WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id
)
SELECT {agent:a}, n.incarnation AS node_incarnation, n.state AS node_state, h.name AS host_name,
    h.state AS host_state, h.returned_at AS host_returned_at
FROM holdfast_agent a JOIN n ON n.id = a.host_id JOIN holdfast_host h ON h.id = a.host_id
WHERE a.host_id IN (SELECT value FROM json_each(:ids)) ORDER BY a.host_id;

-- name: hosts_of_agents
-- The names of their hosts. Without locks.
-- index: holdfast_agent (primary key), holdfast_node (primary key), holdfast_host (primary key)
-- returns: host_id host_name
SELECT a.host_id, h.name AS host_name
FROM holdfast_agent a JOIN holdfast_node n ON n.id = a.host_id JOIN holdfast_host h ON h.id = a.host_id
WHERE a.host_id IN (SELECT value FROM json_each(:ids));

-- name: write_agents
-- The newest sync of each agent.
-- index: holdfast_agent (primary key)
UPDATE holdfast_agent AS a SET seq = r.seq, block_epoch = r.block_epoch, is_closed = r.is_closed,
    seen_at = :now
FROM {rows: host_id text, seq integer, block_epoch integer, is_closed integer}
WHERE a.host_id = r.host_id;

-- name: put_agent
-- index: holdfast_agent (primary key)
INSERT INTO holdfast_agent ({agent}) SELECT {agent:r} FROM {rows: @agent} WHERE true
ON CONFLICT (host_id) DO UPDATE SET journal_id = excluded.journal_id, journal_token = excluded.journal_token,
    boot_id = excluded.boot_id, boot_token = excluded.boot_token, version = excluded.version,
    incarnation = excluded.incarnation, seq = excluded.seq, block_epoch = excluded.block_epoch,
    is_closed = excluded.is_closed, seen_at = excluded.seen_at;

-- name: get_agent
-- index: holdfast_agent (primary key)
-- returns: {agent}
SELECT {agent} FROM holdfast_agent WHERE host_id = :id;

-- name: any_agent
-- index: holdfast_agent (primary key)
-- returns: host_id
SELECT host_id FROM holdfast_agent LIMIT 1;

-- name: read_slots
-- index: holdfast_lease (primary key)
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
SELECT resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket
FROM holdfast_lease WHERE resource IN (SELECT value FROM json_each(:resources));

-- name: lock_slots
-- Slots that another transaction holds are left out.
-- index: holdfast_lease (primary key)
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
SELECT resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket
FROM holdfast_lease WHERE resource IN (SELECT value FROM json_each(:resources)) ORDER BY resource;

-- name: save_slots
-- Creates a row on first use. The fence never falls.
-- index: holdfast_lease (primary key)
INSERT INTO holdfast_lease (resource, fence, claim_id, owner, ttl_seconds, granted_at, expires_at, free_at, clock_at)
SELECT r.resource, r.fence, r.claim_id, r.owner, r.ttl_seconds, r.granted_at, r.expires_at, r.free_at, :now
FROM {rows: resource text, fence integer, claim_id text, owner text, ttl_seconds real,
    granted_at real, expires_at real, free_at real} WHERE true
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence, claim_id = excluded.claim_id, owner = excluded.owner,
    ttl_seconds = excluded.ttl_seconds, granted_at = excluded.granted_at, expires_at = excluded.expires_at,
    free_at = excluded.free_at, clock_at = max(holdfast_lease.clock_at, excluded.clock_at)
WHERE holdfast_lease.fence <= excluded.fence;

-- name: lock_named
-- The tasks that agents name, each only if it is one of the host that names it. Tasks that another transaction
-- holds are left out.
-- index: holdfast_task (primary key), holdfast_execution (primary key)
-- returns: task
SELECT {task:t} FROM {rows: task_id text, host_id text}
JOIN holdfast_execution e ON e.task_id = r.task_id AND e.host_id = r.host_id
JOIN holdfast_task t ON t.id = e.task_id
ORDER BY t.id;

-- name: runs_of
-- index: holdfast_execution (primary key)
-- returns: {execution}
SELECT {execution} FROM holdfast_execution WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: jobs_of_runs
-- index: holdfast_job (primary key)
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE id IN (SELECT value FROM json_each(:ids));

-- name: next_parked
-- The first tasks that are due at each of these gates, in order, without those that have left the window of their
-- rollout and those whose jobs wait. Tasks that another transaction holds are left out.
-- index: holdfast_task_gate, holdfast_execution (primary key), holdfast_job (primary key)
-- returns: task
SELECT {task:t} FROM json_each(:gates) g
JOIN holdfast_task t ON t.id IN (
    SELECT x.id FROM holdfast_task x
    JOIN holdfast_execution e ON e.task_id = x.id AND e.away = 0
    JOIN holdfast_job j ON j.id = e.job_id AND j.status <> 'PAUSED' AND j.approval_state NOT IN ('WAIT_APPROVAL', 'VOID')
    WHERE x.status = 'queued' AND x.gate = g.value AND x.due_at <= :now
    ORDER BY x.priority, x.due_at LIMIT :limit)
ORDER BY g.key, t.priority, t.due_at;

-- name: write_runs
-- Everything but the place in the job and what the end of a task writes.
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution AS e SET token = r.token, fence = r.fence, taken_json = r.taken_json, outcome = r.outcome,
    detail = r.detail, exit_code = r.exit_code, signal = r.signal, output_json = r.output_json,
    late_json = r.late_json, go_at = r.go_at, block_id = r.block_id
FROM {rows: task_id text, token integer, fence integer, taken_json text, outcome text, detail text, exit_code integer,
    signal integer, output_json text, late_json text, go_at real, block_id text}
WHERE e.task_id = r.task_id;

-- name: see_agents
-- index: holdfast_agent (primary key)
UPDATE holdfast_agent SET seen_at = max(seen_at, :now) WHERE host_id IN (SELECT value FROM json_each(:ids));

-- name: lost_agents
-- Of these, the nodes that were declared lost.
-- index: holdfast_node (primary key)
-- returns: id project state
SELECT id, project, state FROM holdfast_node WHERE id IN (SELECT value FROM json_each(:ids)) AND lost_at IS NOT NULL ORDER BY id;

-- name: see_nodes
-- Without those whose rows another transaction holds: it writes their times too, or the next batch does.
-- index: holdfast_node (primary key)
UPDATE holdfast_node SET seen_at = max(seen_at, :now), lost_at = NULL
WHERE id IN (SELECT id FROM holdfast_node WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id);

-- name: serve_agents
-- Says that agents are served. A pause that was longer than `silent` seconds was an outage, which ends now.
-- index: holdfast_fleet_service (primary key)
-- returns: since
INSERT INTO holdfast_fleet_service (id, served_at, since, grace_seconds) VALUES (1, :now, 0, :grace)
ON CONFLICT (id) DO UPDATE SET
    since = CASE WHEN holdfast_fleet_service.served_at < excluded.served_at - :silent
        THEN excluded.served_at ELSE holdfast_fleet_service.since END,
    served_at = max(holdfast_fleet_service.served_at, excluded.served_at), grace_seconds = excluded.grace_seconds
RETURNING since;

-- name: agents_news
-- What each host has to do: how many executions could be offered to it, when the first is due, and what became of the
-- one that has its slot. A host without an agent has no row.
-- index: holdfast_agent (primary key), holdfast_task_gate, holdfast_execution (primary key), holdfast_job (primary key), holdfast_lease (primary key), holdfast_task (primary key), holdfast_project (primary key)
-- returns: host_id waiting due_at fence claim_id status incarnation node_state host_state block_epoch
SELECT a.host_id,
    (SELECT count(*) FROM holdfast_task x JOIN holdfast_execution e ON e.task_id = x.id AND e.away = 0
        JOIN holdfast_job j ON j.id = e.job_id AND j.status <> 'PAUSED' AND j.approval_state NOT IN ('WAIT_APPROVAL', 'VOID')
        WHERE x.status = 'queued' AND x.gate = :prefix || a.host_id) AS waiting,
    (SELECT min(x.due_at) FROM holdfast_task x JOIN holdfast_execution e ON e.task_id = x.id AND e.away = 0
        JOIN holdfast_job j ON j.id = e.job_id AND j.status <> 'PAUSED' AND j.approval_state NOT IN ('WAIT_APPROVAL', 'VOID')
        WHERE x.status = 'queued' AND x.gate = :prefix || a.host_id) AS due_at,
    l.fence, l.claim_id, t.status, n.incarnation, n.state AS node_state, h.state AS host_state,
    coalesce(p.block_epoch, 0) AS block_epoch
FROM holdfast_agent a
JOIN holdfast_node n ON n.id = a.host_id
JOIN holdfast_host h ON h.id = a.host_id
LEFT JOIN holdfast_project p ON p.id = a.project
LEFT JOIN holdfast_lease l ON l.resource = :slot || a.host_id
LEFT JOIN holdfast_task t ON t.id = l.claim_id
WHERE a.host_id IN (SELECT value FROM json_each(:ids));

-- name: count_slots
-- Slots of hosts that are held.
-- index: holdfast_lease_held
-- returns: n
SELECT count(*) AS n FROM holdfast_lease WHERE claim_id IS NOT NULL AND resource >= :first AND resource < :last;
