// A fleet job: progress, hosts, outputs, waves and budgets.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { get } from "../../lib/api";
import {
  type Matrix as Cells,
  type Job as JobView,
  commandOf,
  countLooks,
  isOver,
  isPaused,
  jobMark,
  nameOf,
  standing,
  waitsForVotes,
} from "../../lib/fleet";
import { age, dur, num, person, plural } from "../../lib/format";
import { screenKeys } from "../../lib/keys";
import { useLoad } from "../../lib/load";
import { nameHere, param, setParams } from "../../lib/place";
import { ApprovalPanel } from "../../ui/approval";
import { JobActDialog, actOnJob, renewJobAct } from "../../ui/job_act";
import { Icon } from "../../ui/marks";
import { Shown, Text, Time } from "../../ui/parts";
import { About } from "./about";
import { Acts } from "./acts";
import { Banners } from "./banners";
import { Budgets } from "./budgets";
import { WhereItFails } from "./failures";
import { countCells, rate, span } from "./figures";
import { Hosts } from "./hosts";
import { Outputs } from "./outputs";
import { Bar, Legend } from "./progress";
import { Sheet } from "./sheet";
import { Waves } from "./waves";

export const LIVE_MS = 700;

export const REST_MS = 4_000;

export function Job({ id }: { id: string }): JSX.Element {
  const [over, setOver] = useState(false);
  const loaded = useLoad(
    (signal) => get<JobView>(`/jobs/${encodeURIComponent(id)}`, signal),
    `job ${id}`,
    over ? REST_MS : LIVE_MS,
  );
  const job = loaded.data;
  useEffect(() => void (job && setOver(isOver(job))), [job?.status]);
  // Whether the hosts have moved is asked once: it reads all of them.
  const drift =
    useLoad(
      job && waitsForVotes(job) ? (signal) => get<JobView>(`/jobs/${job.id}?drift=true`, signal) : null,
      `drift ${job?.id ?? ""} ${job?.digest ?? ""}`,
      60_000,
    ).data?.drift ?? null;
  return (
    <div class="page job">
      <Shown of={loaded} rows={10} isWhole>
        {(found) => <Body job={{ ...found, drift }} />}
      </Shown>
      <JobActDialog />
    </div>
  );
}

function Body({ job }: { job: JobView }): JSX.Element {
  useLayoutEffect(() => nameHere(nameOf(job)), [job.id]);
  const over = isOver(job);
  const names = useLoad(
    (signal) => get<Cells>(`/jobs/${job.id}/matrix?names=true`, signal),
    `names ${job.id}`,
    600_000,
  );
  // Hosts may confirm the end of their commands after the job has ended.
  const settled = over && !job.kinds["cancelled_unconfirmed"];
  const live = useLoad(
    (signal) => get<Cells>(`/jobs/${job.id}/matrix`, signal),
    `cells ${job.id} ${settled}`,
    settled ? REST_MS * 5 : over ? REST_MS : LIVE_MS,
  );
  const cells = names.data && {
    ...names.data,
    cells: live.data?.cells.length === names.data.cells.length ? live.data.cells : names.data.cells,
  };
  const counts = cells ? countCells(cells) : countLooks(job.kinds);
  const { ended } = standing(job);
  const host = param("host");
  const asks = job.waves.find((wave) => wave.state === "asked");
  const failed = counts.failed + counts.timeout + counts.lost + (over ? counts.unreachable : 0);
  useLayoutEffect(() => {
    screenKeys.value = over
      ? [{ keys: "⇧R", what: "Retry what did not succeed", run: () => actOnJob("retry", job) }]
      : [
          isPaused(job)
            ? { keys: "⇧P", what: "Resume the job", run: () => actOnJob("resume", job) }
            : { keys: "⇧P", what: "Pause the job", run: () => actOnJob("pause", job) },
          { keys: "⇧A", what: "Abort the job", run: () => actOnJob("abort", job) },
        ];
    return () => void (screenKeys.value = []);
  });
  useEffect(() => renewJobAct(job), [job]);
  const asked = param("act");
  useEffect(() => {
    if (asked !== "retry" || !over) return;
    setParams({ act: null }, true);
    actOnJob("retry", job);
  }, [asked, over]);
  const [sign, of, word] = jobMark(job);
  return (
    <>
      <div class="ttl">
        <div>
          <h1>
            <Text>{nameOf(job)}</Text>
          </h1>
          <p class="cmd">
            <span class={`tag ${of === "dim" ? "" : of}`}>
              <Icon is={sign} of={of} size={12} />
              {!over && job.wave > 0 && !job.halt ? `wave ${job.wave} of ${job.waves_total}` : word}
            </span>
            <code class="wrapt">
              <Text>{commandOf(job)}</Text>
            </code>
            <span class="dim">
              {job.selector ? (
                <>
                  on{" "}
                  <code>
                    <Text>{job.selector}</Text>
                  </code>{" "}
                  ·{" "}
                </>
              ) : (
                ""
              )}
              by <Text>{person(job.created_by)}</Text> · <Time at={job.created_at} />
              {job.project !== "default" ? <> · {job.project}</> : null}
            </span>
          </p>
        </div>
        <span class="sp" />
        <div class="row wrapf acts">
          <Acts job={job} failed={failed} />
        </div>
      </div>
      <Banners job={job} />
      <div class="prog">
        <p class="row wrapf">
          <b class="big">
            {ended === job.hosts && over
              ? `${plural(job.hosts, "host")} ended`
              : `${num(ended)} of ${num(job.hosts)} hosts have ended`}
          </b>
          <span class="sub">{num(counts.success)} succeeded</span>
          <span class="sp" />
          <span class="sub">
            {over ? (
              <>took {dur(span(job), true)}</>
            ) : job.started_at ? (
              <>
                {job.eta_seconds !== null && ended > 0 ? (
                  <>
                    about <b class="strong ink">{dur(job.eta_seconds, true)}</b> left ·{" "}
                    {rate(ended, age(job.started_at))} hosts/s ·{" "}
                  </>
                ) : null}
                {dur(age(job.started_at), true)} so far
              </>
            ) : (
              "not started"
            )}
          </span>
        </p>
        <Bar counts={counts} total={job.hosts} />
        <Legend counts={counts} />
      </div>
      <div class="lay side-r jobl">
        <div class="min">
          <Hosts job={job} cells={cells} error={names.error} counts={counts} />
          <Outputs job={job} ended={ended} />
        </div>
        <aside class="side">
          {cells && failed > 0 && <WhereItFails cells={cells} />}
          {job.approval && waitsForVotes(job) && <ApprovalPanel job={job} />}
          <Waves job={job} asks={asks} counts={counts} />
          <Budgets job={job} />
          {job.approval && !waitsForVotes(job) && <ApprovalPanel job={job} />}
          <About job={job} />
        </aside>
      </div>
      {host && <Sheet key={host} job={job} host={host} />}
    </>
  );
}
