// The hosts of a job as a picture or a table.
import type { JSX } from "preact";
import {
  type Matrix as Cells,
  type Counts,
  type Job as JobView,
  LOOKS,
  type Look,
  digestShort,
} from "../../lib/fleet";
import { capital, num, time } from "../../lib/format";
import { param, setParams } from "../../lib/place";
import { Matrix } from "../../ui/matrix";
import { Seg, Wrong } from "../../ui/parts";
import { Table } from "./table";

export function Hosts({
  job,
  cells,
  error,
  counts,
}: {
  job: JobView;
  cells: Cells | undefined;
  error: import("../../lib/api").Problem | undefined;
  counts: Counts;
}): JSX.Element {
  const view = param("view") === "table" ? "table" : "cells";
  const labels = cells ? Object.keys(cells.labels) : [];
  // A label that differs on nearly every host groups nothing.
  const first =
    ["site", "zone", "dc", "region", "rack"].find(
      (key) => labels.includes(key) && new Set(cells?.labels[key]).size * GROUP_LEAST <= job.hosts,
    ) ?? "name";
  const by = param("by") || first;
  const options: [string, string][] = [
    ...(first === "name" ? [["name", "Name"] as [string, string]] : []),
    ...[...labels]
      .sort((a, b) => Number(b === first) - Number(a === first))
      .slice(0, 4)
      .map((key) => [key, capital(key)] as [string, string]),
    ...(job.waves_total > 1 ? [["wave", "Wave"] as [string, string]] : []),
    ["outcome", "Outcome"],
  ];
  const only = LOOKS.find((look) => look === param("look")) ?? "";
  return (
    <section>
      <div class="sec wrapf">
        <h2>Hosts</h2>
        <span class="sub">
          {num(job.hosts)}, pinned {time(job.created_at)}, digest{" "}
          <span class="m">{digestShort(job.digest).slice(0, 4)}</span>
        </span>
        <span class="sp" />
        {view === "cells" && (
          <>
            <span class="sm dim hid">Group by</span>
            <Seg
              label="Group by"
              value={by}
              options={options}
              onPick={(value) => setParams({ by: value === first ? null : value })}
            />
          </>
        )}
        <Seg
          label="Show hosts as"
          value={view}
          options={[
            ["cells", "Cells"],
            ["table", "Table"],
          ]}
          onPick={(value) => setParams({ view: value === "table" ? value : null })}
        />
      </div>
      {view === "table" ? (
        <Table job={job} only={only} counts={counts} />
      ) : cells ? (
        <Matrix
          jobId={job.id}
          cells={cells}
          by={by}
          only={only}
          open={param("host")}
          onOpen={(host) => setParams({ host: host === param("host") ? null : host })}
        />
      ) : error ? (
        <div class="wrap">
          <Wrong error={error} />
        </div>
      ) : (
        <div class="mx tall" />
      )}
      {view === "cells" && cells && (
        <p class="sm dim mxhelp">
          Point at a host to see it, click to open it. Arrow keys move from host to host.
        </p>
      )}
    </section>
  );
}

export const STATUS: Partial<Record<Look, string>> = { success: "SUCCESS", running: "RUNNING" };

/** Hosts of a group, on average, from which on a label is worth a row each. */
const GROUP_LEAST = 4;
