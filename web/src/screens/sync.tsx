// Sync: whether peers hold the same state, how far they are behind, and the log of the exchange.
import type { JSX } from "preact";
import { ask, get, q, who, type Page } from "../lib/api";
import { dur, num, plural, time } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { second } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams, url } from "../lib/place";
import type { Node, Project } from "../lib/types";
import { confirm } from "../ui/confirm";
import { Icon } from "../ui/marks";
import { Button, Empty, Seg, Shown, Text, Title, scrollable } from "../ui/parts";
import { nameOfNode, nodeState } from "./nodes/state";
import { N } from "./queues";

interface SyncStatus {
  projectId: string;
  serverClock: number;
  serverTime: string;
  epoch: string;
  position: string;
  oldest: string;
  tasks: Record<string, number>;
  nodes: Record<string, number>;
  locks: { held: number; expired: number; soonestExpiryMs: number | null };
  conflicts: { open: number; total: number };
  interventions: { pending: number };
  decisions: { open: number };
  sync: Record<string, number>;
  lag: { maxMs: number; events: number; secondsUntilFalloff: number };
}
interface LogEntry {
  id: number;
  at: string;
  nodeId: string;
  op: string;
  taskId: string | null;
  mutationId: string | null;
  outcome: string;
  error: string | null;
  resolution: string | null;
  fromVersion: number | null;
  toVersion: number | null;
  clock: number;
}

const v2 = async <T,>(path: string, signal: AbortSignal): Promise<T> =>
  (await ask<T>("GET", `/api/v2/sync${path}`, undefined, signal)).body;

export function Sync(): JSX.Element {
  const projects = useLoad((signal) => get<Page<Project>>("/projects", signal), "projects", 10_000);
  const names = projects.data?.items.map((project) => project.id) ?? [];
  const project =
    param("project") || names[0] || who.value?.projects.find((name) => name !== "all") || "default";
  const loaded = useLoad(async (signal) => {
    const [status, nodes] = await Promise.all([
      v2<SyncStatus>(`/status/${q(project)}`, signal),
      get<Page<Node>>("/nodes?live=false&agents=false", signal),
    ]);
    return {
      status,
      peers: nodes.items.filter((node) => node.kind !== null && node.project === project),
      readAt: Date.now(),
    };
  }, `sync ${project}`);
  return (
    <div class="page">
      <Title
        acts={
          <>
            {names.length > 1 && (
              <Seg
                label="Project"
                value={project}
                onPick={(value) => setParams({ project: value })}
                options={names.slice(0, 5).map((name) => [name, name])}
              />
            )}
            <Button
              right="sync.repair"
              name="End expired runs"
              onClick={() =>
                confirm({
                  title: "End runs whose lease has ended?",
                  says: "It is the sweeper's own step, run now: the tasks are queued again with a higher fence.",
                  verb: "End expired runs",
                  keep: "Leave it to the sweeper",
                  path: "/../v2/sync/fix-expired-locks",
                  body: { projectId: project },
                  right: "sync.repair",
                  done: "Expired runs were ended.",
                  command: "holdfast sync fix-expired-locks",
                })
              }
            >
              End expired runs…
            </Button>
          </>
        }
      >
        Sync
      </Title>
      <Shown of={loaded}>
        {({ status, peers, readAt }) => <Body status={status} peers={peers} readAt={readAt} />}
      </Shown>
      <Log project={project} />
    </div>
  );
}

function Body({ status, peers, readAt }: { status: SyncStatus; peers: Node[]; readAt: number }): JSX.Element {
  const behind = peers.filter((peer) => (peer.lag_events ?? 0) > 0 && peer.live);
  const open = status.conflicts.open;
  const since = (second.value - readAt) / 1000;
  const says = open
    ? `${plural(open, "conflict")} ${open === 1 ? "waits" : "wait"} for a person`
    : peers.length === 0
      ? "No peer has registered"
      : behind.length
        ? `${num(peers.length - behind.length)} of ${plural(peers.length, "peer")} are up to date`
        : peers.length === 1
          ? "The one peer is up to date"
          : `All ${num(peers.length)} peers are up to date`;
  const figures: [string, string, string][] = [
    ["Pushed", num(status.sync.pushes), `${num(status.sync.accepted)} accepted`],
    ["Conflicts", num(status.sync.conflicts), `${num(open)} open`],
    ["Repeats", num(status.sync.duplicates), "answered, not repeated"],
    [
      "Gaps and resets",
      num((status.sync.gaps ?? 0) + (status.sync.resets ?? 0)),
      `${num(status.sync.fenced)} fenced`,
    ],
    ["Furthest behind", dur(status.lag.maxMs / 1000, true), `${plural(status.lag.events, "event")}`],
  ];
  return (
    <>
      <div class="conv">
        <Icon
          is={open ? "conflict" : behind.length ? "late" : "completed"}
          of={open ? "person" : behind.length ? "warn" : "good"}
          size={20}
        />
        <div>
          <p class="big">{says}</p>
          <p class="sub">
            Clock {num(status.serverClock)} at position <span class="m">{status.position}</span>.{" "}
            {status.lag.secondsUntilFalloff < 86_400
              ? `The slowest falls off the feed in ${dur(status.lag.secondsUntilFalloff, true)}.`
              : "No peer is about to fall off the feed."}{" "}
            {status.interventions.pending
              ? `${plural(status.interventions.pending, "command")} on its way to a runner.`
              : ""}
          </p>
        </div>
        <span class="sp" />
        {open > 0 && (
          <a class="btn per" href={url("/conflicts")}>
            Settle
          </a>
        )}
      </div>
      <div class="answers gap">
        {figures.map(([name, value, note]) => (
          <div>
            <h3>{name}</h3>
            <span class="v">{value}</span>
            <span class="sm sub cut">{note}</span>
          </div>
        ))}
      </div>
      <div class="sec">
        <h2>Peers</h2>
        <span class="sub">{num(peers.length)}</span>
      </div>
      {peers.length === 0 ? (
        <div class="wrap">
          <Empty sign="sync" title="No peers" command="holdfast node join-token">
            Nodes that work offline register with a join token and exchange their changes here.
          </Empty>
        </div>
      ) : (
        <div class="wrap scroll" ref={scrollable}>
          <table class="t">
            <thead>
              <tr>
                <th>Peer</th>
                <th>Link</th>
                <th class="n">Heard</th>
                <th class="n c2">Behind</th>
                <th class="n c2">Runs</th>
                <th class="n c2">Starts</th>
                <th class="whyc c2">Can</th>
              </tr>
            </thead>
            <tbody>
              {peers.map((peer) => {
                const [word, sign, of] = nodeState(peer);
                return (
                  <tr data-row>
                    <td>
                      <a class="strong" href={url(`/nodes/${q(peer.id)}`)}>
                        <Text>{nameOfNode(peer)}</Text>
                      </a>{" "}
                      <span class="sub sm">{peer.kind}</span>
                    </td>
                    <td>
                      <span class="st">
                        <Icon is={sign} of={of} />
                        <span>{word}</span>
                      </span>
                    </td>
                    <td class="n">
                      {peer.seen_seconds_ago === null ? "–" : dur(peer.seen_seconds_ago + since, true)}
                    </td>
                    <td class="n c2">
                      <N value={peer.lag_events} />
                    </td>
                    <td class="n c2">
                      <N value={peer.running} />
                    </td>
                    <td class="n c2">
                      <N value={peer.incarnation} />
                    </td>
                    <td class="whyc c2 sub">{peer.capabilities?.join(", ")}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

/** An agent of the fleet registers as a node, but exchanges no tasks. */
const isAgent = (entry: LogEntry): boolean =>
  entry.taskId === null && /^hst_[0-9a-f]{32}$/.test(entry.nodeId);

/** A code of the protocol as words. */
const said = (code: string | null): string => (code ?? "").toLowerCase().replace(/_/g, " ");

const OUTCOMES = ["", "accepted", "conflict", "duplicate", "rejected"] as const;
const PAGE = 50;
/** Agents of the fleet are left out, so more are read than are shown. */
const READ = 1_000;
function Log({ project }: { project: string }): JSX.Element {
  const outcome = param("outcome");
  const loaded = useLoad(
    async (signal) => {
      const found: { entries: LogEntry[] } = await v2(
        `/log/${q(project)}?latest=true&limit=${READ}${outcome ? `&outcome=${q(outcome)}` : ""}`,
        signal,
      );
      return found.entries
        .filter((entry) => !isAgent(entry))
        .slice(-PAGE)
        .reverse();
    },
    `log ${project} ${outcome}`,
    2_000,
  );
  return (
    <>
      <div class="sec">
        <h2>Log</h2>
        <span class="sub">what nodes sent and what became of it</span>
        <span class="sp" />
        <Seg
          label="Outcome"
          value={outcome as (typeof OUTCOMES)[number]}
          onPick={(value) => setParams({ outcome: value })}
          options={OUTCOMES.map((name) => [name, name || "all"])}
        />
      </div>
      <Shown of={loaded} rows={4}>
        {(entries) =>
          entries.length === 0 ? (
            <div class="wrap">
              <Empty sign="sync" title="Nothing was exchanged">
                {outcome
                  ? "No entry has this outcome."
                  : "Each push, pull and claim of a node leaves a line here."}
              </Empty>
            </div>
          ) : (
            <div class="wrap scroll" ref={scrollable}>
              <table class="t">
                <thead>
                  <tr>
                    <th class="n c2">Clock</th>
                    <th class="c2">At</th>
                    <th>Node</th>
                    <th>Op</th>
                    <th>Outcome</th>
                    <th class="c2">Task</th>
                    <th class="whyc c2">Versions</th>
                  </tr>
                </thead>
                <tbody>
                  {entries.map((entry) => {
                    const bad = entry.outcome === "rejected" || entry.error !== null;
                    return (
                      <tr>
                        <td class="n m dim c2">{num(entry.clock)}</td>
                        <td class="c2">
                          <span title={entry.at}>{time(entry.at)}</span>
                        </td>
                        <td class="m">
                          <Text>{nodeName(entry.nodeId)}</Text>
                        </td>
                        <td>{entry.op}</td>
                        <td>
                          <span class="st">
                            <Icon
                              is={entry.outcome === "conflict" ? "conflict" : bad ? "aborted" : "check"}
                              of={entry.outcome === "conflict" ? "person" : bad ? "doubt" : "good"}
                              size={12}
                            />
                            <span>{entry.outcome}</span>
                          </span>
                        </td>
                        <td class="m c2">
                          <Text>{entry.taskId ?? "–"}</Text>
                        </td>
                        <td class="whyc c2">
                          <Text>
                            {[
                              entry.fromVersion !== null || entry.toVersion !== null
                                ? `${entry.fromVersion ?? 0} → ${entry.toVersion ?? "–"}`
                                : "",
                              said(entry.resolution),
                              said(entry.error),
                            ]
                              .filter(Boolean)
                              .join(" · ")}
                          </Text>
                        </td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
              <div class="tfoot">The latest {entries.length}, newest first</div>
            </div>
          )
        }
      </Shown>
    </>
  );
}
