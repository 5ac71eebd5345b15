// Groups of hosts, each with its selector.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Page, get, q } from "../../lib/api";
import type { HostGroup, Selection } from "../../lib/fleet";
import { num, plural } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { url } from "../../lib/place";
import { confirm } from "../../ui/confirm";
import { Button, Empty, Shown, Text, Time, Title, scrollable } from "../../ui/parts";
import { EditGroup } from "./group_edit";
import { Tabs } from "./parts";
import { LIVE_MS } from "./state";

export function Groups(): JSX.Element {
  const loaded = useLoad(
    (signal) => get<Page<HostGroup>>("/groups?limit=200", signal),
    "groups",
    LIVE_MS * 2,
  );
  const [editing, setEditing] = useState<HostGroup | "new" | null>(null);
  const rows = loaded.data?.items ?? [];
  return (
    <div class="page">
      <Title
        acts={
          <Button rank="pri" right="hosts.write" name="New group" onClick={() => setEditing("new")}>
            New group…
          </Button>
        }
        sub="A name for a selector. Its hosts are looked up each time it is used."
      >
        {!loaded.data ? "Groups" : rows.length ? plural(rows.length, "group") : "No groups"}
      </Title>
      <Tabs at="groups" />
      <Shown of={loaded}>
        {() =>
          rows.length === 0 ? (
            <div class="wrap gap">
              <Empty sign="nodes" title="No groups" command="holdfast group add web 'role=web'">
                Give a selector a name, and use it as <code>@name</code> in commands, blocks and rules.
              </Empty>
            </div>
          ) : (
            <div class="wrap gap">
              <div class="scroll" ref={scrollable}>
                <table class="t">
                  <thead>
                    <tr>
                      <th>Group</th>
                      <th class="n">Hosts</th>
                      <th class="c2">Selector</th>
                      <th class="n c2">Added</th>
                      <th />
                    </tr>
                  </thead>
                  <tbody>
                    {rows.map((group) => (
                      <GroupRow key={group.name} group={group} onEdit={() => setEditing(group)} />
                    ))}
                  </tbody>
                </table>
              </div>
            </div>
          )
        }
      </Shown>
      {editing && <EditGroup group={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </div>
  );
}

function GroupRow({ group, onEdit }: { group: HostGroup; onEdit: () => void }): JSX.Element {
  const found = useLoad(
    (signal) => get<Selection>(`/hosts/select?selector=${q(`@${group.name}`)}`, signal),
    `group ${group.name} ${group.version}`,
    15_000,
  );
  return (
    <tr data-row>
      <td class="strong">
        <a href={url(`/fleet/hosts?q=${q(`@${group.name}`)}`)}>
          @<Text>{group.name}</Text>
        </a>
        <span class="onph sm sub m">
          <Text>{group.selector}</Text>
        </span>
      </td>
      <td class="n">
        {found.data ? (
          num(found.data.count)
        ) : found.error ? (
          <span class="bad" title={found.error.message}>
            cannot be read
          </span>
        ) : (
          ""
        )}
      </td>
      <td class="m whyc c2" title={found.data?.folded}>
        <Text>{group.selector}</Text>
      </td>
      <td class="n c2">
        <Time at={group.created_at} as="age" />
      </td>
      <td class="n">
        <span class="row">
          <Button small right="hosts.write" name={`Edit ${group.name}`} onClick={onEdit}>
            Edit…
          </Button>
          <Button
            small
            right="hosts.write"
            name={`Remove ${group.name}`}
            onClick={() =>
              confirm({
                title: `Remove the group ${group.name}?`,
                says: "Hosts stay. Blocks and rules that name it can no longer be read: such a block counts for every host.",
                verb: "Remove the group",
                keep: "Keep it",
                path: `/groups/${q(group.name)}`,
                method: "DELETE",
                danger: true,
                right: "hosts.write",
                done: "The group was removed.",
                command: `holdfast group remove ${group.name}`,
              })
            }
          >
            Remove…
          </Button>
        </span>
      </td>
    </tr>
  );
}
