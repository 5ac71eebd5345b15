// The latest events.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Page, everywhere, get, may } from "../../lib/api";
import { clean, short, time } from "../../lib/format";
import { about, brief, markOf, words } from "../../lib/history";
import { mark, paused, watch } from "../../lib/live";
import { url } from "../../lib/place";
import type { Event, Stats } from "../../lib/types";
import { Icon, type Sign } from "../../ui/marks";
import { Skeleton, Text } from "../../ui/parts";

const FEED_ROWS = 7;

const LOUD = new Set([
  "task.progress",
  "task.output",
  "task.metrics",
  "task.enqueued",
  "task.unblocked",
  "node.load",
]);

/** The latest events, as the feed brings them. */
export function Feed(): JSX.Element | null {
  const [rows, setRows] = useState<Event[] | null>(null);
  useEffect(() => {
    if (!may("events.read") || !everywhere()) return;
    let waiting: Event[] = [];
    let begun = false;
    const draw = () => {
      if (begun && waiting.length && !paused.peek()) {
        setRows((old) => [...waiting.reverse(), ...(old ?? [])].slice(0, FEED_ROWS));
        waiting = [];
      }
    };
    void get<Stats>("/stats")
      .then(async (stats) => {
        const [epoch, offset] = String(stats.feed_head).split(":");
        const page = await get<Page<Event>>(
          `/events?limit=60&after=${epoch}:${Math.max(0, Number(offset) - 60)}`,
        );
        const seen = new Set(waiting.map((event) => event.position));
        setRows(
          page.items
            .filter((event) => !LOUD.has(event.kind) && !seen.has(event.position))
            .reverse()
            .slice(0, FEED_ROWS),
        );
      })
      .catch(() => setRows([]))
      .finally(() => (begun = true));
    const end = watch("project:all", (frame) => {
      const payload = (frame.payload ?? {}) as Record<string, unknown>;
      const kind = frame.kind ?? frame.type;
      if (LOUD.has(kind)) return;
      const { task_id, task_type, type, project, ...data } = payload;
      waiting = [
        ...waiting,
        {
          position: frame.position ?? "",
          kind,
          at: frame.at ?? "",
          task_id: (task_id as string) ?? null,
          type: ((task_type ?? type) as string) ?? null,
          project: (project as string) ?? null,
          version: frame.version ?? null,
          data,
        },
      ].slice(-FEED_ROWS);
    });
    const timer = setInterval(draw, 250);
    return () => {
      clearInterval(timer);
      end();
    };
  }, []);
  if (!everywhere()) return null;
  return (
    <>
      <div class="sec">
        <h2>Feed</h2>
        <span class="sp" />
        <a class="sub" href={url("/events")}>
          Open
        </a>
      </div>
      {!rows ? (
        <Skeleton rows={FEED_ROWS} />
      ) : rows.length === 0 ? (
        <p class="dim">{mark.value === "live" ? "Quiet." : "Waits for the feed."}</p>
      ) : (
        <ul class="feed">
          {rows.map((event) => {
            const [sign, of] = markOf(event.kind);
            return (
              <li key={event.position}>
                <span class="m dim">{time(event.at)}</span>
                <Icon is={sign as Sign} of={of} size={12} />
                <span class="cut">
                  {event.task_id ? (
                    <a class="strong" href={url(`/tasks/${event.task_id}`)}>
                      <Text>{event.type ?? event.kind}</Text>
                    </a>
                  ) : (
                    <b class="strong">
                      <Text>{words(event.kind)}</Text>
                    </b>
                  )}{" "}
                  <span class="m dim">{event.task_id ? short(event.task_id) : ""}</span>
                </span>
                <span class="sub cut" title={clean(about(event))}>
                  <Text>{brief(event)}</Text>
                </span>
              </li>
            );
          })}
        </ul>
      )}
    </>
  );
}
