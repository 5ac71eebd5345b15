// Operations: each bulk action is an object, with its count, its progress, and a stop.
import type { JSX } from "preact";
import { get, q, type Page } from "../lib/api";
import { age, capital, causeOf, dur, num, person, plural, time } from "../lib/format";
import { useLoad } from "../lib/load";
import { go, param, setParams, url } from "../lib/place";
import type { Operation } from "../lib/types";
import { confirm } from "../ui/confirm";
import { Icon, type Family, type Sign } from "../ui/marks";
import { Button, Command, Empty, Meter, Seg, Shown, Text, Title } from "../ui/parts";
import { tokens } from "../ui/query";

const stateOf = (run: Operation): [Sign, Family] =>
  run.state === "running"
    ? ["running", "work"]
    : run.state === "done"
      ? run.failed
        ? ["completed", "warn"]
        : ["completed", "good"]
      : ["paused", "hold"];
type Which = "all" | "running" | "stopped" | "failed";

export function Operations({ id }: { id: string }): JSX.Element {
  const which = (param("show") || "all") as Which;
  const loaded = useLoad(
    (signal) => get<Page<Operation>>("/operations?limit=100", signal),
    "operations",
    undefined,
    (page) => page.items.some((run) => run.state === "running"),
  );
  const all = loaded.data?.items ?? [];
  const of: Record<Which, Operation[]> = {
    all,
    running: all.filter((run) => run.state === "running"),
    stopped: all.filter((run) => run.state === "stopped"),
    failed: all.filter((run) => run.failed > 0),
  };
  // The address may name one that the list does not have: an older one, or none.
  const isListed = of[which].some((run) => run.id === id);
  const asked = useLoad(
    id && loaded.data && !isListed ? (signal) => get<Operation>(`/operations/${q(id)}`, signal) : null,
    isListed ? "" : `operation ${id} ${loaded.data !== undefined}`,
  );
  const [runs, stopped] = [of.running.length, of.stopped.length];
  return (
    <div class="page">
      <Title sub="Each bulk action is kept as an operation: it can be watched, stopped and resumed.">
        {!loaded.data
          ? "Operations"
          : all.length === 0
            ? "No operations"
            : runs
              ? `${plural(runs, "operation")} ${runs === 1 ? "runs" : "run"}${stopped ? `, ${stopped} stopped` : ""}`
              : stopped
                ? `${plural(stopped, "operation")} stopped`
                : "No operation is running"}
      </Title>
      <Shown of={loaded}>
        {() =>
          all.length === 0 && !id ? (
            <div class="wrap">
              <Empty
                sign="operations"
                title="No operations"
                command={'holdfast op run pause -q "type:email.*"'}
              >
                Mark tasks in a list, or replay a cause of dead letters: it runs here.
              </Empty>
            </div>
          ) : (
            <>
              <Seg
                label="Which"
                value={which}
                onPick={(value) => setParams({ show: value === "all" ? null : value })}
                options={(["all", "running", "stopped", "failed"] as Which[]).map((name) => [
                  name,
                  `${name === "failed" ? "With refusals" : name.charAt(0).toUpperCase() + name.slice(1)} ${of[name].length}`,
                ])}
              />
              {id && !isListed && (
                <Shown of={asked} rows={2}>
                  {(run) => (
                    <ul class="wrap gap list">
                      <One run={run} open />
                    </ul>
                  )}
                </Shown>
              )}
              <ul class="wrap gap list">
                {of[which].map((run) => (
                  <One run={run} open={run.id === id} />
                ))}
              </ul>
              <p class="sm sub gap">
                {of[which].length} of {all.length}. Every operation keeps its query, its count, its author and
                the reason.
              </p>
            </>
          )
        }
      </Shown>
    </div>
  );
}

function One({ run, open }: { run: Operation; open: boolean }): JSX.Element {
  const [sign, of] = stateOf(run);
  const touched = run.done + run.failed;
  const left = run.total - touched;
  const took = (Date.parse(run.updated_at) - Date.parse(run.created_at)) / 1000;
  const pace = run.rate_per_second ?? (touched && took > 1 ? touched / took : null);
  const note =
    run.state === "running" && run.detail
      ? capital(run.detail)
      : run.state === "running"
        ? [
            pace ? `${pace >= 10 ? Math.round(pace) : pace.toFixed(1)} per second` : "as fast as it goes",
            run.failed ? `${num(run.failed)} refused` : "nothing refused",
            run.failed_again ? `${num(run.failed_again)} failed again` : "",
            pace && left ? `about ${dur(left / pace, true)} left` : "",
          ]
            .filter(Boolean)
            .join(" · ")
        : run.state === "done"
          ? `Done in ${dur(took)}${run.failed ? ` · ${num(run.failed)} refused` : ""}`
          : capital(run.detail) || "Stopped by a person";
  const here = `/operations${open ? "" : `/${run.id}`}${location.search}`;
  const toggle = () => go(here, { keep: true });
  const question = (verb: "stop" | "resume") =>
    confirm(
      verb === "stop"
        ? {
            title: `Stop after ${num(touched)}?`,
            says: `No further task is changed. ${num(left)} stay as they are; it can go on later from there.`,
            verb: `Stop after ${num(touched)}`,
            keep: "Let it run",
            path: `/operations/${run.id}/stop`,
            danger: true,
            right: "operations.run",
            done: "The operation is stopped.",
            command: `holdfast op stop ${run.id}`,
          }
        : {
            title: `Go on with ${plural(left, "task")}?`,
            says: "It goes on with the tasks that are left, at the same pace.",
            verb: "Go on",
            keep: "Leave it stopped",
            path: `/operations/${run.id}/resume`,
            right: "operations.run",
            done: "The operation goes on.",
            command: `holdfast op resume ${run.id}`,
          },
    );
  return (
    <li class={open ? "on" : ""}>
      <div
        class="op"
        data-row
        onClick={(event) => !(event.target as HTMLElement).closest("a,button") && toggle()}
      >
        <Icon is={sign} of={of} />
        <div class="min">
          <p class="cut">
            <a class="strong" href={url(here)}>
              {run.action.charAt(0).toUpperCase() + run.action.slice(1)}
            </a>{" "}
            <Text>{causeOf(run) ?? plural(run.total, "chosen task")}</Text>
          </p>
          <p class="sm sub cut">
            by {person(run.actor)}, {time(run.created_at)}
            {run.reason ? (
              <>
                {" "}
                · “<Text>{run.reason}</Text>”
              </>
            ) : null}
          </p>
        </div>
        <div class="min">
          <Meter
            parts={[
              [run.done, "good"],
              [run.failed, "bad"],
            ]}
            total={run.total}
            label={`${touched} of ${run.total}`}
          />
          <p class={`sm ${run.state === "stopped" ? "hold" : "sub"} cut`}>
            <Text>{note}</Text>
          </p>
        </div>
        <span class="n strong">
          {num(touched)} of {num(run.total)}
        </span>
        <span class="n">
          {run.state === "running" ? (
            <Button right="operations.run" name="Stop" onClick={() => question("stop")}>
              Stop…
            </Button>
          ) : run.state === "stopped" && left > 0 ? (
            <Button right="operations.run" name="Go on" onClick={() => question("resume")}>
              Go on…
            </Button>
          ) : (
            <span class="dim sm">final</span>
          )}
        </span>
      </div>
      {open && (
        <div class="opd">
          <div>
            <h3>Of {num(run.total)} that matched</h3>
            <ul class="dry">
              <li>
                <Icon is="completed" of="good" />
                <span>changed</span>
                <b>{num(run.done)}</b>
              </li>
              <li>
                <Icon is="failed" of={run.failed ? "bad" : "dim"} />
                <span>refused</span>
                <b>{num(run.failed)}</b>
                {run.errors.length > 0 && (
                  <small>{run.errors.map((error) => `${num(error.count)} ${error.reason}`).join(", ")}</small>
                )}
              </li>
              {run.failed_again > 0 && (
                <li>
                  <Icon is="letters" of="bad" />
                  <span>failed again</span>
                  <b>{num(run.failed_again)}</b>
                  <small>of those changed</small>
                </li>
              )}
              <li>
                <Icon is="queued" of="idle" />
                <span>not yet</span>
                <b>{num(left)}</b>
              </li>
            </ul>
          </div>
          <div>
            <h3>How it runs</h3>
            <dl class="kv">
              <dt>pace</dt>
              <dd>
                {run.rate_per_second ? `at most ${run.rate_per_second} per second` : "as fast as it goes"}
              </dd>
              <dt>canary</dt>
              <dd>{run.canary ?? "none"}</dd>
              <dt>stops at</dt>
              <dd>
                {run.stop_on_fail_share
                  ? `${Math.round(run.stop_on_fail_share * 100)} % ${run.action === "replay" ? "failed again or refused" : "refused"}`
                  : "no share"}
              </dd>
              <dt>began</dt>
              <dd>
                {time(run.created_at)}, {dur(age(run.created_at), true)} ago
              </dd>
            </dl>
          </div>
          <div class="wide1">
            <p class="row wrapf">
              {run.q ? (
                tokens(run.q).map((token) => <span class="tok">{token}</span>)
              ) : (
                <span class="sub">chosen one by one</span>
              )}
              <span class="sub sm">bound to {num(run.total)} as counted when it began</span>
            </p>
            <Command>{`holdfast op show ${run.id}`}</Command>
          </div>
        </div>
      )}
    </li>
  );
}
