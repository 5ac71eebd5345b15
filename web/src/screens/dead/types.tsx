// Dead letters by type.
import type { JSX } from "preact";
import { q } from "../../lib/api";
import { num } from "../../lib/format";
import { url } from "../../lib/place";
import type { Group } from "../../lib/types";
import { act } from "../../ui/act";
import { Button, Text, Time, scrollable } from "../../ui/parts";

export function ByType({ groups }: { groups: Group[] }): JSX.Element {
  const types = new Map<string, { count: number; causes: number; last: string }>();
  for (const group of groups) {
    const old = types.get(group.type) ?? { count: 0, causes: 0, last: "" };
    types.set(group.type, {
      count: old.count + group.count,
      causes: old.causes + 1,
      last: group.last_at > old.last ? group.last_at : old.last,
    });
  }
  return (
    <div class="wrap gap scroll" ref={scrollable}>
      <table class="t">
        <thead>
          <tr>
            <th>Type</th>
            <th class="n">Count</th>
            <th class="n c2">Causes</th>
            <th class="n">Last</th>
            <th />
          </tr>
        </thead>
        <tbody>
          {[...types]
            .sort((a, b) => b[1].count - a[1].count)
            .map(([type, found]) => (
              <tr data-row>
                <td>
                  <a class="strong" href={url(`/dead-letters?by=one&q=${q(`type:${type}`)}`)}>
                    <Text>{type}</Text>
                  </a>
                </td>
                <td class="n">{num(found.count)}</td>
                <td class="n c2">{num(found.causes)}</td>
                <td class="n">
                  <Time at={found.last} />
                </td>
                <td class="n">
                  <Button
                    small
                    right="dead.replay"
                    name={`Replay ${type}`}
                    onClick={() => act("replay", { query: `status:failed type:${type}`, count: found.count })}
                  >
                    Replay…
                  </Button>
                </td>
              </tr>
            ))}
        </tbody>
      </table>
    </div>
  );
}
