// What an operator may do with a job.
import type { JSX } from "preact";
import { type Job as JobView, amount, isOver, isPaused, waitsForVotes } from "../../lib/fleet";
import { url } from "../../lib/place";
import { actOnJob } from "../../ui/job_act";
import { Button } from "../../ui/parts";

export function Acts({ job, failed }: { job: JobView; failed: number }): JSX.Element {
  if (isOver(job))
    return (
      <>
        {failed > 0 && (
          <Button right="jobs.create" name="Retry failed" onClick={() => actOnJob("retry", job)}>
            Retry failed…<kbd class="k">⇧R</kbd>
          </Button>
        )}
        <a class="btn" href={url(`/fleet/new?like=${job.id}`)}>
          Run again…
        </a>
        {job.glass && !job.glass.reviewed_by && (
          <Button rank="per" right="jobs.approve" name="Review" onClick={() => actOnJob("review", job)}>
            Review…
          </Button>
        )}
      </>
    );
  const asks = job.waves.some((wave) => wave.state === "asked");
  return (
    <>
      {job.started_at && (
        <Button right="jobs.control" name="Change the window" onClick={() => actOnJob("change", job)}>
          In flight {amount(job.rollout.max_in_flight)}…
        </Button>
      )}
      {asks && !job.halt && (
        <Button rank="per" right="jobs.control" name="Open the wave" onClick={() => actOnJob("promote", job)}>
          Open wave {job.wave + 1}…
        </Button>
      )}
      {waitsForVotes(job) ? (
        <Button right="jobs.break_glass" name="Break glass" onClick={() => actOnJob("break-glass", job)}>
          Break glass…
        </Button>
      ) : isPaused(job) ? (
        <Button rank="pri" right="jobs.control" name="Resume" onClick={() => actOnJob("resume", job)}>
          Resume…<kbd class="k">⇧P</kbd>
        </Button>
      ) : (
        !job.halt && (
          <Button right="jobs.control" name="Pause" onClick={() => actOnJob("pause", job)}>
            Pause…<kbd class="k">⇧P</kbd>
          </Button>
        )
      )}
      {failed > 0 && (
        <Button right="jobs.create" name="Retry failed" low onClick={() => actOnJob("retry", job)}>
          Retry failed…
        </Button>
      )}
      {job.glass && !job.glass.reviewed_by && (
        <Button rank="per" right="jobs.approve" name="Review" onClick={() => actOnJob("review", job)}>
          Review…
        </Button>
      )}
      <Button rank="dan" right="jobs.control" name="Abort" onClick={() => actOnJob("abort", job)}>
        Abort…<kbd class="k">⇧A</kbd>
      </Button>
    </>
  );
}
