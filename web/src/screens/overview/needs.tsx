// What needs a person, ranked by what is held up.
import type { ComponentChildren } from "preact";
import { may } from "../../lib/api";
import { isOver, isPaused, jobPath, jobWhy, nameOf, notWell } from "../../lib/fleet";
import { age, dur, num, person, plural, short, time } from "../../lib/format";
import { nodeName } from "../../lib/hosts";
import { withParams } from "../../lib/place";
import type { Family, Sign } from "../../ui/marks";
import { Text } from "../../ui/parts";
import { nodeState } from "../nodes/state";
import { Board, RECENT_SECONDS } from "./board";

interface Need {
  sign: Sign;
  of: Family;
  title: ComponentChildren;
  note: ComponentChildren;
  figure: string;
  unit: string;
  href: string;
  act: string;
  person?: boolean;
  rank: number;
}

export function needs(board: Board): Need[] {
  const all: Need[] = [];
  for (const decision of board.decisions) {
    const left = decision.remaining_seconds;
    all.push({
      sign: "decision",
      of: "person",
      title: <Text>{decision.question}</Text>,
      note: `${plural(decision.options.length, "option")}. ${decision.default != null && left !== null ? `Without an answer: “${String(decision.default)}”.` : "It holds no worker."}`,
      figure: left === null ? "–" : dur(left, true),
      unit: left === null ? "no deadline" : "to deadline",
      href: `/inbox/${decision.id}`,
      act: "Decide",
      person: true,
      rank: left === null ? 3e5 : left,
    });
  }
  for (const one of board.approvals)
    all.push({
      sign: "decision",
      of: "person",
      title: (
        <>
          Approve <Text>{nameOf(one.job)}</Text> on {plural(one.job.hosts, "host")}
        </>
      ),
      note: `${person(one.requested_by)} asks.${one.remaining_seconds !== null ? " Without an answer it expires." : ""}`,
      figure: one.remaining_seconds === null ? "–" : dur(one.remaining_seconds, true),
      unit: one.remaining_seconds === null ? "no deadline" : "to deadline",
      href: `/inbox/${one.job_id}`,
      act: "Review",
      person: true,
      rank: one.remaining_seconds ?? 3e5,
    });
  for (const job of board.jobs.filter(
    (one) => isPaused(one) || (one.halt && !isOver(one)) || (one.break_glass && !isOver(one)),
  ))
    all.push({
      sign: "host-paused",
      of: "hold",
      title: (
        <>
          Job <Text>{nameOf(job)}</Text>{" "}
          {isPaused(job) ? "is paused" : job.halt ? "stops" : "skipped its approval"}
        </>
      ),
      note: <Text>{jobWhy(job)}</Text>,
      figure: num(job.hosts - Object.values(job.ended).reduce((a, b) => a + b, 0)),
      unit: "hosts left",
      href: jobPath(job),
      act: "Open",
      rank: 900,
    });
  const retried = new Set(board.jobs.map((job) => job.parent_job_id));
  for (const job of board.jobs.filter(
    (one) =>
      isOver(one) &&
      notWell(one) > 0 &&
      !retried.has(one.id) &&
      age(one.finished_at ?? one.created_at) < RECENT_SECONDS,
  ))
    all.push({
      sign: "host-failed",
      of: "bad",
      title: (
        <>
          {plural(notWell(job), "host")} of job <Text>{nameOf(job)}</Text> did not succeed
        </>
      ),
      note: `${num(job.ended.SUCCESS ?? 0)} of ${num(job.hosts)} succeeded. A retry is a new job, for these hosts only.`,
      figure: num(notWell(job)),
      unit: notWell(job) === 1 ? "host" : "hosts",
      href: `${jobPath(job)}?act=retry`,
      act: "Retry failed…",
      rank: 5e3 - notWell(job),
    });
  const silent = board.hosts;
  if (silent.length)
    all.push({
      sign: "host-unreachable",
      of: "warn",
      title: (
        <>
          {silent.length === 1_000 ? "1,000 or more hosts" : plural(silent.length, "host")}{" "}
          {silent.length === 1 ? "is" : "are"} out of reach
        </>
      ),
      note: (
        <Text>{`${silent
          .slice(0, 4)
          .map((host) => host.name)
          .join(
            ", ",
          )}${silent.length > 4 ? " and more" : ""}. Commands wait for them until their time is over.`}</Text>
      ),
      figure: dur(Math.max(...silent.map((host) => host.agent?.seen_seconds_ago ?? 0)), true),
      unit: "silent",
      href: "/fleet/hosts?show=silent",
      act: "Open",
      rank: 3e3,
    });
  for (const group of board.groups)
    all.push({
      sign: "failed",
      of: "bad",
      title: (
        <>
          {plural(group.count, "dead letter")} with one cause in{" "}
          <code>
            <Text>{group.type}</Text>
          </code>
        </>
      ),
      note: <Text>{`${group.error}. Last ${dur(age(group.last_at), true)} ago.`}</Text>,
      figure: num(group.count),
      unit: "tasks",
      href: withParams("/dead-letters", { cause: group.fingerprint }),
      act: "Replay…",
      rank: 5e3 - group.count,
    });
  for (const node of board.nodes) {
    const [word, , of] = nodeState(node);
    if (of === "warn" || of === "doubt")
      all.push({
        sign: "late",
        of: "warn",
        title: (
          <>
            Node <Text>{node.id}</Text> is {word}
          </>
        ),
        note:
          node.busy || node.running
            ? `It holds ${plural(node.running ?? node.busy, "lease")}; its tasks run elsewhere when they end.`
            : "It holds no lease.",
        figure: dur(node.seen_seconds_ago, true),
        unit: "silent",
        href: `/nodes/${encodeURIComponent(node.id)}`,
        act: "Open",
        rank: 2e3,
      });
  }
  for (const task of board.stuck)
    all.push({
      sign: "stuck",
      of: "warn",
      title: (
        <>
          <Text>{task.type}</Text> <span class="m">{short(task.id)}</span> is stuck
        </>
      ),
      note: (
        <>
          The lease is renewed, but it makes no progress. <Text>{task.node ?? ""}</Text>
        </>
      ),
      figure: dur(age(task.updated_at), true),
      unit: "no progress",
      href: `/tasks/${task.id}`,
      act: "Open",
      rank: 1e3,
    });
  for (const conflict of board.conflicts)
    all.push({
      sign: "conflict",
      of: "person",
      title: (
        <>
          Two writers disagree about{" "}
          <code>
            <Text>{conflict.client_id ?? short(conflict.task_id)}</Text>
          </code>
        </>
      ),
      note: (
        <Text>{`${nodeName(conflict.node)} wrote on version ${conflict.base_version}, the server has ${conflict.server_version}.`}</Text>
      ),
      figure: dur(age(conflict.created_at), true),
      unit: "open",
      href: `/conflicts/${conflict.id}`,
      act: "Settle",
      person: true,
      rank: 4e3,
    });
  for (const queue of board.queues.filter((one) => one.paused_at))
    all.push({
      sign: "paused",
      of: "hold",
      title: (
        <>
          Queue <Text>{queue.name}</Text> is paused, {plural(queue.counts.queued ?? 0, "task")}{" "}
          {queue.counts.queued === 1 ? "waits" : "wait"}
        </>
      ),
      note: (
        <Text>{`${person(queue.paused_by)}, ${time(queue.paused_at)}${queue.reason ? `: “${queue.reason}”` : ""}`}</Text>
      ),
      figure: dur(age(queue.paused_at), true),
      unit: "paused",
      href: "/queues",
      act: "Resume…",
      rank: 2e5,
    });
  for (const run of board.operations.filter(
    (one) => one.state === "stopped" && one.done + one.failed < one.total,
  ))
    all.push({
      sign: "paused",
      of: "hold",
      title: (
        <>
          {run.action} of {plural(run.total, "task")} is stopped
        </>
      ),
      note: <Text>{run.detail || run.reason || "It can go on."}</Text>,
      figure: num(run.total - run.done - run.failed),
      unit: "left",
      href: `/operations/${run.id}`,
      act: "Open",
      rank: 4e5,
    });
  return all.sort((a, b) => a.rank - b.rank);
}

/** Whether a role of this person may do something about any need. */
export const canAct = (): boolean =>
  ["tasks.intervene", "decisions.decide", "jobs.approve"].some((right) => may(right));
