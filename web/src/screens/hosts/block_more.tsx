// One block with its hosts and windows.
import type { ComponentChildren, JSX } from "preact";
import { get } from "../../lib/api";
import type { Block, BlockRow } from "../../lib/fleet";
import { dur, num, person, time } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Copy, Text, Time } from "../../ui/parts";

export function BlockMore({ block }: { block: BlockRow }): JSX.Element {
  const found = useLoad(
    (signal) => get<Block>(`/blocks/${block.id}`, signal),
    `block ${block.id} ${block.version}`,
    10_000,
  ).data;
  const row = (word: string, value: ComponentChildren) => (
    <>
      <dt>{word}</dt>
      <dd>{value}</dd>
    </>
  );
  return (
    <dl class="kv">
      {row(
        "hosts",
        found ? (
          <>
            <b class="strong">{num(found.affects)}</b>{" "}
            <code class="wrapt sub">
              <Text>{found.folded.slice(0, 600)}</Text>
            </code>
          </>
        ) : (
          "…"
        ),
      )}
      {row("running commands", block.on_running === "abort" ? "are ended" : "finish")}
      {block.effect === "hold" &&
        row(
          "when it is lifted",
          {
            requeue: "what it held goes on",
            drop: "what it held ends",
            reapprove: "another approval is asked for",
          }[block.on_lift],
        )}
      {row("ends", block.expires_at ? time(block.expires_at) : "never")}
      {block.window &&
        row(
          "window",
          <code>
            <Text>{`${String(block.window.rrule)} for ${dur(Number(block.window.duration_seconds))}, ${String(block.window.timezone ?? "UTC")}`}</Text>
          </code>,
        )}
      {block.lifted_at &&
        row(
          "lifted",
          <>
            <Time at={block.lifted_at} /> by <Text>{person(block.lifted_by)}</Text>
          </>,
        )}
      {row(
        "id",
        <span class="m">
          {block.id}
          <Copy text={block.id} name="Copy the id" />
        </span>,
      )}
    </dl>
  );
}
