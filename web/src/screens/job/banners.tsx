// What holds a job up, and what ends it.
import type { JSX } from "preact";
import { type Job as JobView, isOver, isPaused, jobWhy, waitsForVotes } from "../../lib/fleet";
import { person, time } from "../../lib/format";
import { url } from "../../lib/place";
import { Icon } from "../../ui/marks";
import { Text, Time } from "../../ui/parts";

export function Banners({ job }: { job: JobView }): JSX.Element {
  const halt = job.halt;
  return (
    <>
      {halt && (
        <p
          class={`banner ${isPaused(job) ? "hold" : isOver(job) && halt.cause === "budget" ? "bad" : "hold"}`}
        >
          <Icon is={halt.cause === "budget" ? "stuck" : "host-paused"} of={isPaused(job) ? "hold" : "bad"} />
          <span>
            <b class="strong">
              <Text>{jobWhy(job).replace(/\.?$/, ".")}</Text>
            </b>{" "}
            {isPaused(job)
              ? "No further host starts until a person resumes it."
              : isOver(job)
                ? ""
                : halt.mode === "abort"
                  ? "Hosts that run are ended."
                  : "Hosts that run finish."}
          </span>
        </p>
      )}
      {waitsForVotes(job) && (
        <p class="banner person">
          <Icon is="decision" of="person" />
          <span>
            <b class="strong">It waits for approval.</b> No host has started.{" "}
            {job.approval?.expires_at ? (
              <>
                Without an answer it expires at <b class="strong">{time(job.approval.expires_at)}</b>.
              </>
            ) : null}
          </span>
          <span class="sp" />
          <a class="btn" href={url(`/inbox/${job.id}`)}>
            Review
          </a>
        </p>
      )}
      {job.glass && (
        <p class={`banner ${job.glass.reviewed_by ? "" : "warn"}`}>
          <Icon is="stuck" of="warn" />
          <span>
            <b class="strong">Started without its approval</b> by <Text>{person(job.glass.actor)}</Text>,{" "}
            <Time at={job.glass.at} />, ticket <Text>{job.glass.ticket}</Text>: “
            <Text>{job.glass.reason}</Text>”.{" "}
            {job.glass.reviewed_by ? (
              <>
                Reviewed by <Text>{person(job.glass.reviewed_by)}</Text>
                {job.glass.note ? (
                  <>
                    : “<Text>{job.glass.note}</Text>”
                  </>
                ) : null}
              </>
            ) : (
              "Another person has to review it."
            )}
          </span>
        </p>
      )}
    </>
  );
}
