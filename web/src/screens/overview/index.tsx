// Overview: what needs a person, whether all is well, what is under way.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { dur, num, percent, plural, tight } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { url } from "../../lib/place";
import { EXTERNAL } from "../../lib/rules";
import { Chart, Spark, beginOf } from "../../ui/chart";
import { Icon } from "../../ui/marks";
import { Button, Empty, Shown, Title } from "../../ui/parts";
import { nodeState } from "../nodes/state";
import { FirstSteps } from "../steps";
import { BOARD_MS, Board, read } from "./board";
import { Feed } from "./feed";
import { rate, rateText, shownRate, sum } from "./figures";
import { canAct, needs } from "./needs";
import { UnderWay } from "./under_way";

const UNDER_WAY = ["running", "queued", "blocked", "paused", "stuck"];
/** The first three are named even if there is none. */
const ALWAYS = 3;

export function Overview(): JSX.Element {
  const loaded = useLoad(read, "overview", BOARD_MS, (board) =>
    board.operations.some((run) => run.state === "running"),
  );
  return (
    <div class="page over">
      <FirstSteps />
      <Shown of={loaded}>{(board) => <Body board={board} />}</Shown>
    </div>
  );
}

const NEEDS_SHOWN = 8;

function Body({ board }: { board: Board }): JSX.Element {
  const all = needs(board);
  const [more, setMore] = useState(false);
  const shown = more ? all : all.slice(0, NEEDS_SHOWN);
  const flow = board.flow;
  const per = (name: string) => rate(flow, name);
  const flows = Math.max(per("task.enqueued"), per("task.completed"));
  // Both have one unit, so that they can be compared.
  const unit = flows === 0 || flows >= 1 ? "s" : "m";
  const inUnit = (value: number): string => shownRate(unit === "s" ? value : value * 60);
  const failedHour = sum(flow, "task.failed");
  const endedHour = sum(flow, "task.completed") + failedHour;
  const there = board.nodes.filter((node) => node.live);
  const live = there.filter((node) => nodeState(node)[2] === "good").length;
  const oldest = Math.max(
    0,
    ...board.queues.map((queue) =>
      queue.paused_at || queue.name === EXTERNAL ? 0 : (queue.oldest_due_seconds ?? 0),
    ),
  );
  const active = UNDER_WAY.reduce((n, status) => n + Number(board.stats[status] ?? 0), 0);
  const isEmpty = active === 0 && Number(board.stats.completed ?? 0) === 0 && all.length === 0;
  return (
    <>
      <Title
        sub={
          isEmpty
            ? "No task has run yet."
            : all.length
              ? "Everything else is moving. Nothing acknowledged is lost."
              : "Everything is moving. Nothing acknowledged is lost."
        }
      >
        {all.length === 0
          ? "Nothing needs you"
          : `${plural(all.length, "thing")} ${all.length === 1 ? "needs" : "need"} ${canAct() ? "you" : "a person"}`}
      </Title>
      <div class="answers">
        <a href={url("/queues")}>
          <h3>Flow</h3>
          <span class="v">
            {flow ? inUnit(per("task.enqueued")) : num(Number(board.stats.running ?? 0))}
            <small>{flow ? `/${unit} in` : "running"}</small>
          </span>
          <span class="sm sub">
            {flow ? `${inUnit(per("task.completed"))}/${unit} out · ` : ""}
            {oldest > 1 ? `oldest waits ${dur(oldest, true)}` : "no due task waits"}
          </span>
          {flow && (
            <span class="ch">
              <Spark values={(flow.series["task.enqueued"] ?? []).slice(beginOf(flow))} of="idle" />
            </span>
          )}
        </a>
        <a href={url("/dead-letters")}>
          <h3>Failures</h3>
          <span class="v">
            {flow
              ? endedHour
                ? percent(failedHour / endedHour)
                : "0 %"
              : num(Number(board.stats.dead_letter_count ?? 0))}
            <small>{flow ? "in 1 h" : "dead letters"}</small>
          </span>
          <span class="sm sub">
            {plural(Number(board.stats.dead_letter_count ?? 0), "dead letter")},{" "}
            {plural(board.groups.length, "cause")}
          </span>
          {flow && (
            <span class="ch">
              <Spark values={(flow.series["task.failed"] ?? []).slice(beginOf(flow))} of="bad" />
            </span>
          )}
        </a>
        <a href={url("/inbox")}>
          <h3>Waiting for a person</h3>
          <span class="v">
            {num(board.decisions.length + board.conflicts.length + board.approvals.length)}
          </span>
          <span class="sm sub">
            <Parts>
              {[
                board.approvals.length ? plural(board.approvals.length, "approval") : "",
                plural(board.decisions.length, "decision"),
                plural(board.conflicts.length, "conflict"),
              ]}
            </Parts>
          </span>
          {board.decisions.length + board.conflicts.length + board.approvals.length > 0 && (
            <span class="ch">
              <Icon is="decision" of="person" />
            </span>
          )}
        </a>
        <a href={url("/nodes")}>
          <h3>Nodes</h3>
          <span class="v">
            {num(live)}
            <small>of {num(there.length)} on time</small>
          </span>
          <span class="sm sub">
            {plural(
              there.reduce((n, node) => n + (node.busy ?? 0), 0),
              "slot",
            )}{" "}
            busy
          </span>
          <span class="ch hb">
            {there.slice(0, 16).map((node) => (
              <i class={nodeState(node)[2] === "good" ? "" : "l"} />
            ))}
          </span>
        </a>
        <a href={url("/tasks?q=status:running,queued,blocked,paused,stuck")}>
          <h3>Under way</h3>
          <span class="v">{tight(active)}</span>
          <span class="sm sub">
            <Parts>
              {UNDER_WAY.filter((status, nth) => nth < ALWAYS || Number(board.stats[status] ?? 0) > 0).map(
                (status) => `${num(Number(board.stats[status] ?? 0))} ${status}`,
              )}
            </Parts>
          </span>
        </a>
      </div>
      <div class="cols">
        <section>
          <div class="sec">
            <h2>{canAct() ? "Needs you" : "Needs a person"}</h2>
            <span class="sub">ranked by what it holds up</span>
          </div>
          {isEmpty ? (
            <div class="wrap">
              <Empty sign="tasks" title="Enqueue a first task" command="holdfast enqueue TYPE key=value">
                A worker that has the type runs it. This page follows what happens.
              </Empty>
            </div>
          ) : all.length === 0 ? (
            <div class="wrap">
              <Empty sign="completed" of="good" title="Nothing needs you">
                Decisions, dead letters, conflicts, silent nodes and stuck tasks come here.
              </Empty>
            </div>
          ) : (
            <ul class="need">
              {shown.map((need) => (
                <li data-row>
                  <Icon is={need.sign} of={need.of} />
                  <div>
                    <p class="strong">
                      <a href={url(need.href)}>{need.title}</a>
                    </p>
                    <p class="s">{need.note}</p>
                  </div>
                  <span class="w">
                    <b>{need.figure}</b>
                    {need.unit}
                  </span>
                  <a class={`btn ${need.person ? "per" : ""}`} href={url(need.href)}>
                    {need.act}
                  </a>
                </li>
              ))}
              {all.length > shown.length && (
                <li class="morerow">
                  <span />
                  <Button small onClick={() => setMore(true)}>
                    {all.length - shown.length} more
                  </Button>
                </li>
              )}
            </ul>
          )}
        </section>
        <section>
          <UnderWay runs={board.operations} jobs={board.jobs} />
          <Feed />
        </section>
      </div>
      {flow && !isEmpty && (
        <div class="charts">
          <section>
            <div class="sec">
              <h2>Flow</h2>
              <span class="sub">tasks per second</span>
              <span class="sp" />
              <span class="lg">
                <i class="ln-in" />
                in {inUnit(per("task.enqueued"))}/{unit}
              </span>
              <span class="lg">
                <i class="ln-out" />
                out {inUnit(per("task.completed"))}/{unit}
              </span>
            </div>
            <Chart
              flow={flow}
              series={[
                ["task.enqueued", "ink-3"],
                ["task.completed", "work-fill"],
              ]}
              label="Tasks enqueued and completed, per second, over the last hour"
            />
          </section>
          <section>
            <div class="sec">
              <h2>Failed attempts</h2>
              <span class="sub">per second, before retries</span>
              <span class="sp" />
              <span class="lg">
                <i class="ln-bad" />
                failed {rateText(per("task.failed"))}
              </span>
            </div>
            <Chart
              flow={flow}
              series={[["task.failed", "bad-fill"]]}
              label="Failed attempts per second over the last hour"
            />
          </section>
        </div>
      )}
    </>
  );
}

/** Counts in a line that breaks between them only. */
const Parts = ({ children }: { children: string[] }): JSX.Element => (
  <>
    {children.filter(Boolean).map((one, n) => (
      <>
        {n > 0 ? " · " : ""}
        <span class="nw">{one}</span>
      </>
    ))}
  </>
);
