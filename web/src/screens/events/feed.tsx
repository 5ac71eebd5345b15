// The events of the feed, with a search.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Page, Problem, get, q } from "../../lib/api";
import { clean, num, short } from "../../lib/format";
import { about, by, markOf, subject } from "../../lib/history";
import { paused, watch } from "../../lib/live";
import { useLoad } from "../../lib/load";
import { param, setParams, url } from "../../lib/place";
import type { Event } from "../../lib/types";
import { Icon, type Sign } from "../../ui/marks";
import { Pager } from "../../ui/pager";
import { Button, Empty, Seg, Shown, Text, Time, Title, scrollable } from "../../ui/parts";
import { EVENTS, QueryBar } from "../../ui/query";
import { EventSheet } from "./sheet";

export const PAGE = 60;

/** What a group of kinds is in the grammar. */
const GROUPS: [string, string, string][] = [
  ["", "All", ""],
  ["main", "Without progress", "-kind:task.progress,task.output,task.metrics"],
  [
    "fail",
    "Failures",
    "kind:task.failed,task.dead,task.lost,task.late,task.stuck,node.lost,node.fenced,intervention.refused,intervention.expired",
  ],
  [
    "people",
    "People",
    "kind:decision.*,intervention.*,conflict.*,token.*,task.paused,task.aborted,task.forced,task.resumed,task.held,queue.paused,queue.resumed,node.state,lock.revoked,checkpoint.hitl_required",
  ],
  ["system", "System", "-kind:task.*,checkpoint.*"],
];

export const offsetOf = (position: string): number => Number(position.split(":")[1] ?? 0);

export function Feed({ pick }: { pick: JSX.Element }): JSX.Element {
  const group = param("kinds");
  const asked = param("q");
  const kinds = GROUPS.find(([name]) => name === group)?.[2];
  const query = asked && kinds ? `(${asked}) ${kinds}` : asked || kinds || "";
  const before = param("before");
  const at = param("at");
  const follow = !before && !at;
  const loaded = useLoad(
    (signal) => {
      const from = at ? `${at.split(":")[0]}:${offsetOf(at) + PAGE / 2}` : before || "head";
      return get<Page<Event> & { oldest: string; head: string }>(
        `/events?limit=${PAGE}&before=${q(from)}&q=${q(query)}`,
        signal,
      );
    },
    `events ${query} ${before} ${at}`,
    400,
  );
  const wrong = loaded.error?.body.at === undefined ? undefined : loaded.error;
  const bad =
    wrong &&
    new Problem(wrong.code, wrong.message, wrong.status, {
      ...wrong.body,
      at: Number(wrong.body.at) - (asked && kinds ? 1 : 0),
    });
  const [fresh, setFresh] = useState<Set<string>>(new Set());
  const seen = useRef("");
  useEffect(() => watch("system:events", () => undefined), []);
  useEffect(() => {
    const rows = loaded.data?.items ?? [];
    const last = seen.current;
    if (last && follow && !paused.peek())
      setFresh(
        new Set(
          rows.filter((event) => offsetOf(event.position) > offsetOf(last)).map((event) => event.position),
        ),
      );
    if (rows[0]) seen.current = rows[0].position;
  }, [loaded.data?.items[0]?.position]);
  const open =
    loaded.data?.items.find((event) => event.position === param("open")) ??
    (at ? loaded.data?.items.find((event) => event.position === at) : undefined);
  const head = loaded.data ? offsetOf(loaded.data.head) : 0;
  return (
    <div class={open ? "split" : "one"}>
      <div class="page">
        <Title
          acts={pick}
          sub={
            loaded.data
              ? `Epoch ${loaded.data.head.split(":")[0]}, positions without a gap. The oldest that is kept is ${num(offsetOf(loaded.data.oldest))}.`
              : undefined
          }
        >
          {loaded.data ? `${num(head)} events, none missing` : "Events"}
        </Title>
        <div class="row">
          <QueryBar
            value={asked}
            keys={EVENTS}
            example="subject:mail.* actor:~ann age:<1h"
            onSearch={(text) => setParams({ q: text || null, before: null, at: null, open: null })}
            label="Search events"
            error={bad}
          />
        </div>
        <div class="row wrapf gap">
          <Seg
            label="Kinds"
            value={group}
            onPick={(value) => setParams({ kinds: value, before: null })}
            options={GROUPS.map(([name, word]) => [name, word])}
          />
          <span class="sp" />
          {!follow && (
            <Button onClick={() => setParams({ before: null, at: null, open: null })}>To the newest</Button>
          )}
        </div>
        {bad ? (
          <div class="wrap gap">
            <Empty sign="search" title="The search cannot be read">
              <Text>{bad.message}</Text>
            </Empty>
          </div>
        ) : (
          <Shown of={loaded}>
            {({ items: rows, next }) =>
              rows.length === 0 ? (
                <div class="wrap gap">
                  <Empty
                    sign="events"
                    title={next ? "No such event among these 10,000" : "No such event is kept"}
                    act={
                      next ? (
                        <Button onClick={() => setParams({ before: next, at: null })}>
                          Look further back
                        </Button>
                      ) : undefined
                    }
                  />
                </div>
              ) : (
                <div class="wrap gap">
                  <div class="scroll" ref={scrollable}>
                    <table class="t ev-t">
                      <thead>
                        <tr>
                          <th class="n c2">Position</th>
                          <th>Time</th>
                          <th>Kind</th>
                          <th class="c2">About</th>
                          <th class="whyc c2">What</th>
                          <th class="c2">By</th>
                        </tr>
                      </thead>
                      <tbody>
                        {rows.map((event) => {
                          const [sign, of] = markOf(event.kind);
                          return (
                            <tr
                              key={event.position}
                              data-row
                              class={`${event === open ? "open" : ""} ${fresh.has(event.position) ? "flash" : ""}`}
                              onClick={(click) =>
                                !(click.target as HTMLElement).closest("a") &&
                                setParams({ open: event === open ? null : event.position, at: null })
                              }
                            >
                              <td class="n m dim c2">{num(offsetOf(event.position))}</td>
                              <td class="m dim">
                                <Time at={event.at} />
                              </td>
                              <td class="m">
                                <span class="st">
                                  <Icon is={sign as Sign} of={of} />
                                  <span>{event.kind}</span>
                                </span>
                                <span class="onph sm sub">
                                  <Text>{event.task_id ? (event.type ?? "") : subject(event)}</Text>
                                  {event.task_id ? ` ${short(event.task_id)}` : ""}
                                  {about(event) ? ": " : ""}
                                  <Text>{about(event)}</Text>
                                </span>
                              </td>
                              <td class="c2">
                                {event.task_id ? (
                                  <a class="strong" href={url(`/tasks/${event.task_id}`)}>
                                    <Text>{event.type ?? ""}</Text>{" "}
                                    <span class="m dim">{short(event.task_id)}</span>
                                  </a>
                                ) : (
                                  <b class="strong cut">
                                    <Text>{subject(event)}</Text>
                                  </b>
                                )}
                              </td>
                              <td class="whyc c2" title={clean(about(event))}>
                                <Text>{about(event)}</Text>
                              </td>
                              <td class="c2 sub cut byc">
                                <Text>{by(event)}</Text>
                              </td>
                            </tr>
                          );
                        })}
                      </tbody>
                    </table>
                  </div>
                  <div class="tfoot">
                    <span>
                      {num(offsetOf(rows.at(-1)?.position ?? ""))} to {num(offsetOf(rows[0]?.position ?? ""))}
                      , newest first
                    </span>
                    <span class="dim">{Math.round(loaded.ms)} ms</span>
                    <span class="sp" />
                    <Pager
                      isFirst={follow}
                      next={next ? { before: next, at: null } : null}
                      words={{ isLast: "Nothing older is kept." }}
                    />
                  </div>
                </div>
              )
            }
          </Shown>
        )}
      </div>
      {open && <EventSheet key={open.position} event={open} />}
    </div>
  );
}
