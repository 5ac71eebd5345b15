// The tasks before and behind a task.
import type { JSX } from "preact";
import { type Page, get, q } from "../../lib/api";
import { num, short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { url } from "../../lib/place";
import type { TaskRow } from "../../lib/types";
import { Icon, type Sign, familyOf } from "../../ui/marks";
import { Text } from "../../ui/parts";

const NEAR_MAX = 12;

/** Tasks beside this one, with their types and how they are now. `known`: their status; null when they were pruned. */
export function Near({
  ids,
  known = {},
}: {
  ids: string[];
  known?: Record<string, string | null>;
}): JSX.Element {
  const shown = ids.slice(0, NEAR_MAX);
  const rows =
    useLoad(
      (signal) => get<Page<TaskRow>>(`/tasks?limit=${NEAR_MAX}&q=${q(`id:${shown.join(",")}`)}`, signal),
      `near ${shown.join()}`,
      2_000,
    ).data?.items ?? [];
  return (
    <>
      {shown.map((id) => {
        const row = rows.find((one) => one.id === id);
        const status = row?.status ?? known[id];
        return (
          <a class="dep" href={url(`/tasks/${id}`)}>
            <Icon is={(status ?? "queued") as Sign} of={familyOf(status ?? "")} />
            <span class="cut">
              <Text>{row?.type ?? ""}</Text> <span class="m dim">{short(id)}</span>
            </span>
            <span class="sp" />
            <span class="dim sm">{status === null ? "pruned" : (status ?? "")}</span>
          </a>
        );
      })}
      {ids.length > shown.length && <p class="dim sm">{num(ids.length - shown.length)} more</p>}
    </>
  );
}
