// What an act asks for beside its reason.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Page, get } from "../../lib/api";
import { parse } from "../../lib/exact";
import type { Node, Task, TaskRow } from "../../lib/types";
import { Field } from "../parts";
import { Verb, actsOf } from "./kinds";

export function Args(props: {
  verb: Verb;
  task: TaskRow | Task;
  args: Record<string, unknown>;
  onArgs: (args: Record<string, unknown>) => void;
}): JSX.Element | null {
  const { verb, task, args, onArgs } = props;
  const [nodes, setNodes] = useState<Node[] | null>(null);
  const [text, setText] = useState("null");
  useEffect(() => {
    if (verb === "reassign")
      void get<Page<Node>>("/nodes?agents=false")
        .then((page) => setNodes(page.items))
        .catch(() => undefined);
  }, [verb]);
  if (verb === "reassign")
    return (
      <div class="two">
        <Field
          label="To the node"
          help={nodes?.length === 0 ? "No node is there. A worker is one while it lives." : undefined}
        >
          <select
            class="inp"
            value={String(args.to_node ?? "")}
            onChange={(event) => onArgs({ ...args, to_node: event.currentTarget.value })}
          >
            <option value="" disabled>
              Choose…
            </option>
            {nodes?.map((node) => (
              <option value={node.id}>{node.id}</option>
            ))}
          </select>
        </Field>
        <Field label="Any node may claim it after" help="0: never">
          <input
            class="inp"
            type="number"
            min="0"
            placeholder="60 seconds"
            onInput={(event) =>
              onArgs(
                event.currentTarget.value === ""
                  ? { to_node: args.to_node }
                  : { ...args, fallback_seconds: Number(event.currentTarget.value) },
              )
            }
          />
        </Field>
      </div>
    );
  if (verb === "force")
    return (
      <div class="stack">
        <Field label="Status">
          <select
            class="inp"
            value={String(args.status)}
            onChange={(event) => onArgs(forcedTo(event.currentTarget.value))}
          >
            {actsOf(task).forced.map((status) => (
              <option value={status}>{status}</option>
            ))}
          </select>
        </Field>
        {args.status === "completed" && (
          <Field
            label="Result"
            help="JSON. The task ends with it."
            error={isJson(text) ? undefined : "This is not JSON."}
          >
            <textarea
              class="inp m"
              rows={3}
              value={text}
              onInput={(event) => {
                setText(event.currentTarget.value);
                if (isJson(event.currentTarget.value))
                  onArgs({ status: "completed", result: parse(event.currentTarget.value) });
              }}
            />
          </Field>
        )}
      </div>
    );
  if (verb === "retry")
    return (
      <Field label="After" help="Empty: at once">
        <input
          class="inp"
          type="number"
          min="0"
          placeholder="seconds"
          onInput={(event) =>
            onArgs(
              event.currentTarget.value === "" ? {} : { delay_seconds: Number(event.currentTarget.value) },
            )
          }
        />
      </Field>
    );
  return null;
}

/** The arguments of a force: completed has a result. */
export const forcedTo = (status: string): Record<string, unknown> =>
  status === "completed" ? { status, result: null } : { status };

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};
