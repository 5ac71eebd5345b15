// What a job runs, where and for whom.
import type { JSX } from "preact";
import { type Job as JobView, digestShort, isOver } from "../../lib/fleet";
import { short, spanText } from "../../lib/format";
import { url } from "../../lib/place";
import { LeftOut } from "../../ui/approval";
import { Command, Copy, Text, Time } from "../../ui/parts";

export function About({ job }: { job: JobView }): JSX.Element {
  return (
    <section>
      <h2>About</h2>
      <dl class="kv">
        <dt>id</dt>
        <dd class="m">
          {short(job.id)}
          <Copy text={job.id} name="Copy the id" />
        </dd>
        {job.external_id && (
          <>
            <dt>name</dt>
            <dd>
              <Text>{job.external_id}</Text>
            </dd>
          </>
        )}
        <dt>type</dt>
        <dd>
          <Text>{job.command_type}</Text>
          {job.idempotent ? ", may be repeated" : ""}
        </dd>
        <dt>timeout</dt>
        <dd>{spanText(job.exec_timeout_seconds)}</dd>
        {job.not_after && !isOver(job) && (
          <>
            <dt>starts until</dt>
            <dd>
              <Time at={job.not_after} />
            </dd>
          </>
        )}
        {!job.approval && (
          <>
            <dt>digest</dt>
            <dd class="m">
              {digestShort(job.digest)}
              <Copy text={job.digest} name="Copy the digest" />
            </dd>
          </>
        )}
        {job.reason && (
          <>
            <dt>reason</dt>
            <dd>
              <Text>{job.reason}</Text>
            </dd>
          </>
        )}
        {job.parent_job_id && (
          <>
            <dt>retry of</dt>
            <dd>
              <a class="lnk m" href={url(`/fleet/jobs/${job.parent_job_id}`)}>
                {short(job.parent_job_id)}
              </a>
            </dd>
          </>
        )}
        {Object.keys(job.env).length > 0 && (
          <>
            <dt>environment</dt>
            <dd class="m">
              <Text>
                {Object.entries(job.env)
                  .map(([name, value]) => `${name}=${value}`)
                  .join(" ")}
              </Text>
            </dd>
          </>
        )}
      </dl>
      {job.excluded.length > 0 && (
        <>
          <h3 class="gap pb">Left out when it was made</h3>
          <LeftOut excluded={job.excluded} />
        </>
      )}
      <div class="gap">
        <Command>{`holdfast job show ${job.external_id ?? job.id}`}</Command>
      </div>
    </section>
  );
}

// -- output ------------------------------------------------------------------------------------------
