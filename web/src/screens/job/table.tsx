// The hosts of a job as a table.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Page, get } from "../../lib/api";
import {
  type Counts,
  type Execution,
  FAMILY_OF,
  type Job as JobView,
  KINDS,
  type Look,
  isOver,
  jobPath,
  lookOf,
  signOf,
} from "../../lib/fleet";
import { dur, num } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams, url } from "../../lib/place";
import { Icon } from "../../ui/marks";
import { Button, Empty, Shown, Text } from "../../ui/parts";
import { STATUS } from "./hosts";
import { LIVE_MS, REST_MS } from "./index";

const PAGE = 50;

export function Table({ job, only, counts }: { job: JobView; only: Look | ""; counts: Counts }): JSX.Element {
  const [limit, setLimit] = useState(PAGE);
  const name = param("find");
  const kinds =
    only === "" ? [] : KINDS.filter((kind) => lookOf(kind) === only && (job.kinds[kind] ?? 0) > 0);
  const key = `executions ${job.id} ${only} ${kinds.join()} ${name} ${limit}`;
  const loaded = useLoad(
    async (signal) => {
      const base = `/jobs/${job.id}/executions?limit=${limit}${name ? `&host=${encodeURIComponent(name)}` : ""}`;
      const asked =
        only === ""
          ? [base]
          : STATUS[only]
            ? [`${base}&status=${STATUS[only]}`]
            : kinds.map((kind) => `${base}&kind=${kind}`);
      const pages = await Promise.all(asked.map((path) => get<Page<Execution>>(path, signal)));
      return {
        items: pages
          .flatMap((page) => page.items)
          .sort((a, b) => a.nth - b.nth)
          .slice(0, limit),
        more: pages.some((page) => page.next !== null),
      };
    },
    key,
    isOver(job) ? REST_MS : LIVE_MS * 2,
  );
  const total = only === "" ? job.hosts : counts[only];
  return (
    <div class="wrap">
      <div class="filt">
        <Icon is="search" of="dim" />
        <input
          data-search
          aria-label="Name of a host"
          placeholder="Name of a host"
          value={name}
          onChange={(event) => setParams({ find: event.currentTarget.value.trim() })}
        />
        {only && (
          <span class="tok">
            {only}
            <button type="button" aria-label="Show all hosts" onClick={() => setParams({ look: null })}>
              <Icon is="close" size={12} />
            </button>
          </span>
        )}
      </div>
      <Shown of={loaded}>
        {(found) =>
          found.items.length === 0 ? (
            <Empty
              sign="search"
              title={name ? `No host ${name} in this job` : "No host matches"}
              act={
                <Button onClick={() => setParams({ find: null, look: null })}>
                  Show all {num(job.hosts)}
                </Button>
              }
            />
          ) : (
            <>
              <div class="scroll">
                <table class="t">
                  <thead>
                    <tr>
                      <th>Status</th>
                      <th>Host</th>
                      <th class="n c3">Wave</th>
                      <th class="n">Exit</th>
                      <th class="n">Took</th>
                      <th class="n c3">Attempt</th>
                      <th>Why</th>
                    </tr>
                  </thead>
                  <tbody>
                    {found.items.map((one) => {
                      const look = lookOf(one.kind);
                      return (
                        <tr
                          data-row
                          key={one.id}
                          class={param("host") === one.host ? "open" : ""}
                          onClick={() => setParams({ host: one.host })}
                        >
                          <td>
                            <span class="st">
                              <Icon is={signOf(look)} of={FAMILY_OF[look]} />
                              <span>{one.kind.replace(/_/g, " ")}</span>
                            </span>
                          </td>
                          <td class="strong">
                            <a
                              href={url(`${jobPath(job)}?host=${encodeURIComponent(one.host)}&view=table`)}
                              onClick={(event) => {
                                event.preventDefault();
                                event.stopPropagation();
                                setParams({ host: one.host });
                              }}
                            >
                              <Text>{one.host}</Text>
                            </a>
                          </td>
                          <td class="n c3">{one.wave ?? <span class="dim">–</span>}</td>
                          <td class="n">{one.exit_code ?? <span class="dim">–</span>}</td>
                          <td class="n">{dur(one.duration_seconds)}</td>
                          <td class="n c3">{one.attempt}</td>
                          <td class={`whyc ${look === "failed" ? "bad" : ""}`} title={one.reason}>
                            <Text>{one.reason}</Text>
                          </td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              </div>
              <p class="tfoot">
                <span>
                  {num(found.items.length)} of {num(total)}
                  {only ? ` ${only}` : ""}
                </span>
                <span>{Math.round(loaded.ms)} ms</span>
                <span class="sp" />
                {(found.more || found.items.length < total) && !name && limit < 1000 && (
                  <Button small onClick={() => setLimit((n) => Math.min(1000, n * 4))}>
                    Show more
                  </Button>
                )}
              </p>
            </>
          )
        }
      </Shown>
    </div>
  );
}
