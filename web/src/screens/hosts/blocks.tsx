// Blocks: what keeps commands off hosts, and until when.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Page, get } from "../../lib/api";
import type { BlockRow } from "../../lib/fleet";
import { dur, person, plural } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams, withParams } from "../../lib/place";
import { confirm } from "../../ui/confirm";
import { Icon } from "../../ui/marks";
import { Button, Empty, Gone, Seg, Shown, Text, Time, Title, scrollable } from "../../ui/parts";
import { AddBlock } from "./block_add";
import { BlockMore } from "./block_more";
import { PAGE } from "./list";
import { Tabs } from "./parts";
import { LIVE_MS } from "./state";

export const lift = (block: BlockRow): void =>
  confirm({
    title: "Lift the block?",
    says: (
      <>
        Commands may run on{" "}
        <code>
          <Text>{block.host ?? block.selector ?? "its hosts"}</Text>
        </code>{" "}
        again.{" "}
        {block.effect === "hold"
          ? ({
              requeue: "What it held goes on, if its time is not over.",
              drop: "What it held ends.",
              reapprove: "What it held asks for another approval.",
            }[block.on_lift] ?? "")
          : ""}
      </>
    ),
    verb: "Lift the block",
    keep: "Keep it",
    path: `/blocks/${block.id}`,
    method: "DELETE",
    right: "blocks.write",
    done: "The block was lifted.",
    command: `holdfast block lift ${block.id}`,
  });

export function Blocks(): JSX.Element {
  const show = param("show") === "lifted" ? "lifted" : "";
  const after = param("after");
  const loaded = useLoad(
    (signal) =>
      get<Page<BlockRow>>(
        withParams("/blocks", { limit: String(PAGE), lifted: show ? "true" : "", after }),
        signal,
      ),
    `blocks ${show} ${after}`,
    LIVE_MS,
  );
  const [adding, setAdding] = useState(false);
  const rows = loaded.data?.items ?? [];
  const active = rows.filter((block) => block.active).length;
  const open = param("id");
  return (
    <div class="page">
      <Title
        acts={
          <Button rank="pri" right="blocks.write" name="New block" onClick={() => setAdding(true)}>
            New block…
          </Button>
        }
        sub="A block keeps commands off hosts. It is checked in the plan, before each start, and by the agent."
      >
        {!loaded.data || show
          ? "Blocks"
          : rows.length === 0
            ? "No blocks"
            : `${plural(active, "block")} in force`}
      </Title>
      <div class="row wrapf">
        <Tabs at="blocks" />
        <span class="sp" />
        <Seg
          label="Which"
          value={show}
          options={[
            ["", "Standing"],
            ["lifted", "Over"],
          ]}
          onPick={(value) => setParams({ show: value, after: null })}
        />
      </div>
      {loaded.data && open && !rows.some((block) => block.id === open) && (
        <Gone
          what="block"
          name={open}
          why={show ? "not among these that are over" : "it is over, or the link is wrong"}
        />
      )}
      <Shown of={loaded}>
        {(page) =>
          rows.length === 0 ? (
            <div class="wrap gap">
              <Empty
                sign="locks"
                title={show ? "No block is over" : "No blocks"}
                command="holdfast block add --host web-007 -m 'disk swap' --expires 2h"
              >
                During a disk swap or an audit, block the hosts: no job starts there.
              </Empty>
            </div>
          ) : (
            <div class="wrap gap">
              <div class="scroll" ref={scrollable}>
                <table class="t">
                  <thead>
                    <tr>
                      <th>State</th>
                      <th>Hosts</th>
                      <th class="c2">Commands</th>
                      <th class="c2">Effect</th>
                      <th class="n">{show ? "Over" : "Ends in"}</th>
                      <th class="c3">Owner</th>
                      <th class="c2">Reason</th>
                      <th class="n" />
                    </tr>
                  </thead>
                  <tbody>
                    {rows
                      .map((block) => (
                        <tr
                          data-row
                          key={block.id}
                          class={open === block.id ? "open" : ""}
                          onClick={() => setParams({ id: open === block.id ? null : block.id })}
                        >
                          <td>
                            <span class="st">
                              <Icon
                                is={
                                  block.lifted_at
                                    ? "host-skipped"
                                    : block.active
                                      ? "host-blocked"
                                      : "host-waiting"
                                }
                                of={block.active ? "hold" : "idle"}
                              />
                              <span>
                                {block.lifted_at
                                  ? "lifted"
                                  : block.active
                                    ? "in force"
                                    : block.window
                                      ? "outside its window"
                                      : "over"}
                              </span>
                            </span>
                          </td>
                          <td class="m strong">
                            <Text>{block.host ?? block.selector ?? "a removed host"}</Text>
                            <span class="onph sm sub">
                              <Text>{block.reason}</Text>
                            </span>
                          </td>
                          <td class="m c2">
                            {block.command_type === "*" ? "all" : <Text>{block.command_type}</Text>}
                          </td>
                          <td class="c2">{block.effect === "hold" ? "held" : "refused"}</td>
                          <td class="n">
                            {show ? (
                              <Time at={block.lifted_at ?? block.expires_at} as="age" />
                            ) : block.remaining_seconds === null ? (
                              "never"
                            ) : (
                              dur(block.remaining_seconds, true)
                            )}
                          </td>
                          <td class="c3 byc cut">
                            <Text>{person(block.owner)}</Text>
                          </td>
                          <td class="whyc c2" title={block.reason}>
                            <Text>{block.reason}</Text>
                          </td>
                          <td class="n">
                            {!block.lifted_at && (
                              <Button
                                small
                                right="blocks.write"
                                name={`Lift the block of ${block.host ?? block.selector ?? "hosts"}`}
                                onClick={(event: MouseEvent) => {
                                  event.stopPropagation();
                                  lift(block);
                                }}
                              >
                                Lift…
                              </Button>
                            )}
                          </td>
                        </tr>
                      ))
                      .flatMap((row, n) => {
                        const block = rows[n];
                        return block && open === block.id
                          ? [
                              row,
                              <tr class="note" key={`${block.id} more`}>
                                <td colSpan={8}>
                                  <BlockMore block={block} />
                                </td>
                              </tr>,
                            ]
                          : [row];
                      })}
                  </tbody>
                </table>
              </div>
              {page.next && (
                <p class="tfoot">
                  <span class="sp" />
                  <Button small onClick={() => setParams({ after: page.next })}>
                    Next
                  </Button>
                </p>
              )}
            </div>
          )
        }
      </Shown>
      {adding && <AddBlock onClose={() => setAdding(false)} />}
    </div>
  );
}
