// Jobs of the fleet: those that live as rows with a bar and one line of why, those that have ended as a table.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { get, may, type Page, type Problem } from "../lib/api";
import {
  commandOf,
  endedBar,
  endedOf,
  isOver,
  isPaused,
  jobMark,
  jobPath,
  jobWhy,
  nameOf,
  waitsForVotes,
  type JobRow,
} from "../lib/fleet";
import { age, dur, num, person, plural, short } from "../lib/format";
import { screenKeys } from "../lib/keys";
import { useLoad } from "../lib/load";
import { go, param, setParams, url, withParams } from "../lib/place";
import { Icon } from "../ui/marks";
import { Button, Empty, Meter, Shown, Text, Time, Title, Wrong } from "../ui/parts";

const LIVE_MS = 1_000;
const ENDED_MS = 2_000;
const PAGE = 50;
const LIVE = ["RUNNING", "PAUSED", "HALTING", "WAIT_APPROVAL", "NEW"];
const VIEWS: [string, string, string[]][] = [
  ["", "Ended", []],
  ["well", "Succeeded", ["SUCCESS"]],
  ["bad", "Failed", ["FAILED", "PARTIAL"]],
  ["stopped", "Stopped", ["CANCELLED"]],
  ["refused", "Not approved", ["REJECTED", "EXPIRED"]],
];

export function Jobs(): JSX.Element {
  const live = useLoad(
    async (signal) =>
      (
        await Promise.all(LIVE.map((status) => get<Page<JobRow>>(`/jobs?status=${status}&limit=50`, signal)))
      ).flatMap((page) => page.items),
    "live jobs",
    LIVE_MS,
  );
  const jobs = live.data ?? [];
  useLayoutEffect(() => {
    screenKeys.value = [{ keys: "c", what: "New command", run: () => go("/fleet/new") }];
    return () => void (screenKeys.value = []);
  }, []);
  const running = jobs.filter((job) => !waitsForVotes(job) && !isPaused(job)).length;
  const paused = jobs.filter(isPaused).length;
  const waiting = jobs.filter(waitsForVotes).length;
  const says = [
    running && `${plural(running, "job")} ${running === 1 ? "runs" : "run"}`,
    paused && `${num(paused)} paused`,
    waiting && `${num(waiting)} ${waiting === 1 ? "waits" : "wait"} for approval`,
  ]
    .filter(Boolean)
    .join(", ");
  return (
    <div class="page jobs">
      <Title
        sub="One command on many hosts. A host runs one command at a time, and the outcome of each host is recorded, also when it is unknown."
        acts={
          may("jobs.create") ? (
            <a class="btn pri" href={url("/fleet/new")}>
              New command<kbd class="k">c</kbd>
            </a>
          ) : undefined
        }
      >
        {live.data ? says || "No job is running" : "Fleet jobs"}
      </Title>
      <Shown of={live} rows={3}>
        {(found) =>
          found.length === 0 ? null : (
            <div class="wrap jl">
              {found.map((job) => (
                <Row key={job.id} job={job} />
              ))}
            </div>
          )
        }
      </Shown>
      <Ended isNothing={live.data?.length === 0} />
    </div>
  );
}

function Row({ job }: { job: JobRow }): JSX.Element {
  const [sign, of, word] = jobMark(job);
  const ended = endedOf(job);
  return (
    <a class="jr" data-row href={url(jobPath(job))}>
      <span title={word}>
        <Icon is={sign} of={of} />
        <span class="vh">{word}</span>
      </span>
      <div class="min">
        <p class="cut">
          <b class="strong">
            <Text>{nameOf(job)}</Text>
          </b>{" "}
          <span class="sub">{plural(job.hosts, "host")}</span>
        </p>
        <p class="sm sub cut m">
          <Text>{commandOf(job)}</Text>
        </p>
      </div>
      <div class="min">
        <Meter
          parts={endedBar(job)}
          total={job.hosts}
          label={`${num(ended)} of ${num(job.hosts)} hosts have ended`}
        />
        <p class={`sm cut ${of === "person" || of === "hold" ? of : "sub"}`} title={jobWhy(job)}>
          <Text>{jobWhy(job)}</Text>
        </p>
      </div>
      <div class="n">
        <p>
          {num(ended)} of {num(job.hosts)}
        </p>
        <p class="sm sub">{job.wave > 0 ? `wave ${job.wave} of ${job.waves_total}` : "not started"}</p>
      </div>
      <div class="n">
        <p class="cut">
          <Text>{person(job.created_by)}</Text>
        </p>
        <p class="sm sub">{dur(age(job.started_at ?? job.created_at), true)}</p>
      </div>
    </a>
  );
}

function Ended({ isNothing }: { isNothing: boolean }): JSX.Element {
  const view = param("show");
  const q = param("q");
  const after = param("after");
  const statuses = VIEWS.find(([name]) => name === view)?.[2] ?? [];
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const loaded = useLoad(
    async (signal) => {
      const path = (status?: string) => withParams("/jobs", { limit: String(PAGE), q, after, status });
      const pages = await Promise.all(
        statuses.length
          ? statuses.map((status) => get<Page<JobRow>>(path(status), signal))
          : [get<Page<JobRow>>(path(), signal)],
      );
      return {
        items: pages
          .flatMap((page) => page.items)
          .filter(isOver)
          .sort((a, b) => (a.id < b.id ? 1 : -1)),
        next: pages.length === 1 ? (pages[0]?.next ?? null) : null,
      };
    },
    `jobs ${view} ${q} ${after}`,
    ENDED_MS,
  );
  const search = async (event: Event) => {
    event.preventDefault();
    setWrong(null);
    const wanted = text.trim();
    // A name or an id opens the job; everything else is a search.
    if (wanted && !wanted.includes(":")) {
      try {
        go(jobPath(await get<JobRow>(`/jobs/${encodeURIComponent(wanted)}`)));
      } catch (error) {
        setWrong(error as Problem);
      }
    } else setParams({ q: wanted, after: null });
  };
  return (
    <>
      <div class="row wrapf jobsq">
        <nav class="views" aria-label="Ended jobs">
          {VIEWS.map(([name, word]) => (
            <a
              href={url(withParams("/fleet", { show: name, q }))}
              aria-current={name === view ? "page" : undefined}
            >
              {word}
            </a>
          ))}
        </nav>
        <span class="sp" />
        <form class="q jq" onSubmit={(event) => void search(event)}>
          <Icon is="search" of="dim" />
          <input
            data-search
            aria-label="Search jobs: a name, or status:, host:, parent:, project:"
            placeholder="name, or host:web-01 status:FAILED"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          {q && (
            <button
              type="button"
              class="x"
              aria-label="Clear the search"
              onClick={() => {
                setText("");
                setParams({ q: null, after: null });
              }}
            >
              <Icon is="close" size={12} />
            </button>
          )}
          <kbd class="k">/</kbd>
        </form>
      </div>
      {wrong && (
        <p class="qerr" role="alert">
          <Text>
            {wrong.status === 404
              ? `No job is called ${text.trim()}. Give its whole name or id, or host:NAME, status:NAME.`
              : wrong.message}
          </Text>
        </p>
      )}
      <div class="wrap">
        {!loaded.data && loaded.error ? (
          <Wrong error={loaded.error} retry={loaded.reload} />
        ) : (
          <Shown of={loaded}>
            {(found) =>
              found.items.length === 0 ? (
                q || view ? (
                  <Empty
                    sign="search"
                    title="No job matches"
                    act={
                      <a class="btn" href={url("/fleet")}>
                        All that ended
                      </a>
                    }
                  />
                ) : (
                  <Empty
                    sign="jobs"
                    title={isNothing ? "No job has run yet" : "No job has ended yet"}
                    command="holdfast run uptime --hosts '*' --plan"
                  >
                    A command that runs on hosts is a job. It comes here when its last host has ended.
                  </Empty>
                )
              ) : (
                <>
                  <div class="scroll">
                    <table class="t qt">
                      <thead>
                        <tr>
                          <th>
                            <span class="wide">Ended</span>
                          </th>
                          <th>Job</th>
                          <th class="c3">Command</th>
                          <th class="n c2">Hosts</th>
                          <th class="c2">Outcome</th>
                          <th class="n">Failed</th>
                          <th class="n c3">Took</th>
                          <th class="c2">By</th>
                          <th>At</th>
                          <th class="c2">Why</th>
                        </tr>
                      </thead>
                      <tbody>
                        {found.items.map((job) => {
                          const [sign, of, word] = jobMark(job);
                          const bad = (job.ended.FAILED ?? 0) + (job.ended.TIMEOUT ?? 0);
                          return (
                            <tr data-row key={job.id} onClick={() => go(jobPath(job))}>
                              <td>
                                <span class="st">
                                  <Icon is={sign} of={of} />
                                  <span>{word}</span>
                                </span>
                              </td>
                              <td class="strong jn">
                                <a class="cut" href={url(jobPath(job))}>
                                  <Text>{job.external_id ?? short(job.id)}</Text>
                                </a>
                                <span class="onph sm sub">
                                  {word}: <Text>{jobWhy(job) || commandOf(job)}</Text>
                                </span>
                              </td>
                              <td class="m jc cut c3">
                                <Text>{commandOf(job)}</Text>
                              </td>
                              <td class="n c2">{num(job.hosts)}</td>
                              <td class="ob c2">
                                <Meter
                                  parts={endedBar(job)}
                                  total={job.hosts}
                                  label={Object.entries(job.ended)
                                    .map(([status, n]) => `${n} ${status.toLowerCase()}`)
                                    .join(", ")}
                                />
                              </td>
                              <td class={`n ${bad ? "" : "dim"}`}>{num(bad)}</td>
                              <td class="n c3">
                                {job.started_at && job.finished_at ? (
                                  dur((Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1000)
                                ) : (
                                  <span class="dim">–</span>
                                )}
                              </td>
                              <td class="byc cut c2">
                                <Text>{person(job.created_by)}</Text>
                              </td>
                              <td>
                                <Time at={job.finished_at} />
                              </td>
                              <td class="whyc c2" title={jobWhy(job)}>
                                <Text>{jobWhy(job)}</Text>
                              </td>
                            </tr>
                          );
                        })}
                      </tbody>
                    </table>
                  </div>
                  <p class="tfoot">
                    <span>{plural(found.items.length, "job")}</span>
                    <span>{Math.round(loaded.ms)} ms</span>
                    <span class="sp" />
                    {after && (
                      <Button small onClick={() => setParams({ after: null })}>
                        Newest
                      </Button>
                    )}
                    {found.next && (
                      <Button small onClick={() => setParams({ after: found.next })}>
                        Older
                      </Button>
                    )}
                  </p>
                </>
              )
            }
          </Shown>
        )}
      </div>
    </>
  );
}
