// The facts of a node beside its page.
import type { JSX } from "preact";
import { q } from "../../lib/api";
import { num, plural } from "../../lib/format";
import { url } from "../../lib/place";
import type { Node as NodeView } from "../../lib/types";
import { Command, Text, Time } from "../../ui/parts";
import { Skew } from "./beats";
import { labelsOf } from "./state";

export function Facts({ node }: { node: NodeView }): JSX.Element {
  const registered = node.kind !== null;
  return (
    <aside class="side">
      <section>
        <h2>Facts</h2>
        <dl class="kv">
          <dt>slots</dt>
          <dd>{node.workers ? `${node.busy} of ${node.workers} busy` : "–"}</dd>
          <dt>started</dt>
          <dd>
            <Time at={node.started_at} />
          </dd>
          {registered && (
            <>
              <dt>registered</dt>
              <dd>
                <Time at={node.registered_at} />
              </dd>
              <dt>starts</dt>
              <dd>{node.incarnation ?? "–"}</dd>
              <dt>behind</dt>
              <dd>{node.lag_events === null ? "–" : plural(node.lag_events, "event")}</dd>
            </>
          )}
          {node.capabilities?.length ? (
            <>
              <dt>can</dt>
              <dd>{node.capabilities.join(", ")}</dd>
            </>
          ) : null}
          {labelsOf(node) && (
            <>
              <dt>labels</dt>
              <dd>
                <Text>{labelsOf(node)}</Text>
              </dd>
            </>
          )}
          {node.skew_seconds !== null && (
            <>
              <dt>clock</dt>
              <dd>
                <Skew of={node.skew_seconds} />
              </dd>
            </>
          )}
          <dt>errors</dt>
          <dd class={node.troubles ? "warn" : ""}>{num(node.troubles)}</dd>
          {node.deaf_handlers > 0 && (
            <>
              <dt>deaf handlers</dt>
              <dd class="warn">{node.deaf_handlers} ignore their cancellation</dd>
            </>
          )}
        </dl>
      </section>
      {node.queues.length > 0 && (
        <section>
          <h2>Queues</h2>
          <p class="tags">
            {node.queues.map((name) => (
              <a class="tag line" href={url(`/tasks?q=queue:${q(name)}`)}>
                <Text>{name}</Text>
              </a>
            ))}
          </p>
        </section>
      )}
      {node.types.length > 0 && (
        <section>
          <h2>Types</h2>
          <p class="tags">
            {node.types.map((name) => (
              <a class="tag line" href={url(`/tasks?q=type:${q(name)}`)}>
                <Text>{name}</Text>
              </a>
            ))}
          </p>
        </section>
      )}
      {Object.keys(node.skipped).length > 0 && (
        <section>
          <h2>Schedules that it cannot fire</h2>
          {Object.entries(node.skipped).map(([name, why]) => (
            <p class="sm">
              <b class="strong">
                <Text>{name}</Text>
              </b>{" "}
              <Text>{why}</Text>
            </p>
          ))}
        </section>
      )}
      <section>
        <Command>{`holdfast node show ${node.id}`}</Command>
      </section>
    </aside>
  );
}
