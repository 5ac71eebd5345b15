// What an operator may do with a node that has registered, with what would happen.
import type { JSX } from "preact";
import { q } from "../../lib/api";
import { dur } from "../../lib/format";
import type { Node as NodeView } from "../../lib/types";
import { confirm } from "../../ui/confirm";
import { Icon } from "../../ui/marks";
import { Button } from "../../ui/parts";

/** Verb, name, what it does, text of the button, whether it takes something away. */
const ACTS: [string, string, string, string, boolean][] = [
  ["cordon", "Cordon", "It gets no new tasks; what runs goes on.", "Cordon", false],
  ["drain", "Drain", "It ends its runs and gets no new tasks.", "Drain", false],
  ["uncordon", "Admit", "It gets tasks again.", "Admit", false],
  [
    "quarantine",
    "Quarantine",
    "Everything that it sends is refused. Its leases run out.",
    "Quarantine",
    true,
  ],
  [
    "revoke",
    "Revoke",
    "Its runs and its credential end now. It has to register again.",
    "Revoke the node",
    true,
  ],
];

const mayBe =
  (node: NodeView) =>
  ([verb]: (typeof ACTS)[number]): boolean =>
    verb === "uncordon"
      ? ["cordoned", "draining", "quarantined"].includes(node.state ?? "")
      : verb === "cordon"
        ? node.state === "live"
        : verb === "drain"
          ? ["live", "cordoned"].includes(node.state ?? "")
          : node.state !== "revoked";
const question = (
  [verb, name, says, button, danger]: (typeof ACTS)[number],
  node: NodeView,
  leases: number,
  heard: number,
) => ({
  title: `${name} ${node.id}?`,
  says,
  verb: button,
  keep: "Leave it",
  path: `/nodes/${q(node.id)}/${verb}`,
  needsReason: true,
  danger,
  right: "nodes.manage",
  done: `${node.id}: ${verb} was written.`,
  command: `holdfast node ${verb} ${node.id}`,
  more: (
    <ul class="dry">
      <li>
        <Icon is="running" of="work" />
        <span>leases that it holds</span>
        <b>{leases}</b>
        <small>
          {leases
            ? `${verb === "revoke" ? "They end now, with a higher fence" : verb === "drain" ? "They may end" : "They go on, or end after"} ${verb === "revoke" ? "" : "their lease"}.`
            : "Nothing runs there."}
        </small>
      </li>
      {!node.live && (
        <li>
          <Icon is="late" of="warn" />
          <span>the node is silent</span>
          <b>{dur(heard, true)}</b>
          <small>It hears this when it comes back.</small>
        </li>
      )}
    </ul>
  ),
});

export function NodeActs({
  node,
  leases,
  heard,
}: {
  node: NodeView;
  leases: number;
  heard: number;
}): JSX.Element {
  if (node.kind === null)
    return <span class="sub sm">This worker uses the store directly: stop its process to drain it.</span>;
  return (
    <>
      {ACTS.filter(mayBe(node)).map((one) => (
        <Button
          rank={one[4] ? "dan" : ""}
          right="nodes.manage"
          name={one[1]}
          onClick={() => confirm(question(one, node, leases, heard))}
        >
          {one[1]}…
        </Button>
      ))}
    </>
  );
}
