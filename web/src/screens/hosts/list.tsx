// Hosts: those that a search or a state chooses.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Page, get, may, q } from "../../lib/api";
import type { HostRow, Selection } from "../../lib/fleet";
import { dur, num, plural, short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { go, param, setParams, url, withParams } from "../../lib/place";
import { Icon } from "../../ui/marks";
import { Button, Empty, Seg, Shown, Text, Time, Title, Wrong, scrollable } from "../../ui/parts";
import { Labels, Tabs } from "./parts";
import { LIVE_MS, hostState } from "./state";

export const PAGE = 100;

const STATES: [string, string][] = [
  ["", "All"],
  ["active", "Active"],
  ["silent", "Out of reach"],
  ["cordoned", "Cordoned"],
  ["gone", "Removed"],
];

export function Hosts(): JSX.Element {
  const text = param("q");
  const after = param("after");
  const show = param("show");
  const isSelector = /[=@!&*[\]~,^]/.test(text);
  const loaded = useLoad(
    (signal) =>
      get<Page<HostRow>>(
        withParams(
          "/hosts",
          show === "silent"
            ? { limit: String(PAGE), silent: "true", after }
            : {
                limit: String(PAGE),
                [isSelector ? "selector" : "q"]: text,
                state: isSelector ? "" : show,
                after,
              },
        ),
        signal,
      ),
    `hosts ${text} ${after} ${show}`,
    LIVE_MS,
  );
  const all = useLoad(
    (signal) => get<Selection>(`/hosts/select?selector=${q(text && isSelector ? text : "*")}`, signal),
    `count ${isSelector ? text : "*"}`,
    10_000,
  ).data;
  const [input, setInput] = useState(text);
  useEffect(() => setInput(text), [text]);
  const rows = loaded.data?.items ?? [];
  const silent = (loaded.data?.items ?? []).filter((host) => hostState(host)[0] === "out of reach").length;
  const busy = rows.filter((host) => host.slot).length;
  return (
    <div class="page hosts">
      <Title
        acts={
          <>
            {may("jobs.create") && (
              <a class="btn pri" href={url(withParams("/fleet/new", { selector: isSelector ? text : "" }))}>
                New command
              </a>
            )}
          </>
        }
        sub={
          loaded.data && rows.length ? (
            <>
              {num(busy)} of {num(rows.length)} shown run a command
              {silent ? (
                <>
                  ,{" "}
                  <a class="lnk" href={url("/fleet/hosts?show=silent")}>
                    {num(silent)} out of reach
                  </a>
                </>
              ) : (
                ""
              )}
              .
            </>
          ) : (
            "What a command can run on."
          )
        }
      >
        {!all
          ? "Hosts"
          : all.count === 0 && !text
            ? "No hosts"
            : `${plural(all.count, "host")}${text && isSelector ? (all.count === 1 ? " matches" : " match") : ""}`}
      </Title>
      <Tabs at="hosts" />
      <form
        class="row wrapf gap"
        onSubmit={(event) => {
          event.preventDefault();
          setParams({ q: input.trim(), after: null });
        }}
      >
        <div class="q">
          <Icon is="search" of="dim" />
          <input
            data-search
            value={input}
            placeholder="part of a name, or a selector: zone=a&role=web"
            aria-label="Search hosts"
            spellcheck={false}
            autocomplete="off"
            onInput={(event) => setInput(event.currentTarget.value)}
          />
          {text && (
            <button
              type="button"
              class="x"
              aria-label="Clear the search"
              onClick={() => setParams({ q: null, after: null })}
            >
              <Icon is="close" size={12} />
            </button>
          )}
          <kbd class="k">/</kbd>
        </div>
        <Seg
          label="State"
          value={show}
          options={STATES}
          onPick={(value) =>
            setParams({ show: value, after: null, ...(value === "silent" ? { q: null } : {}) })
          }
        />
      </form>
      {loaded.error && !loaded.data ? (
        <div class="wrap gap">
          <Wrong error={loaded.error} retry={loaded.reload} />
        </div>
      ) : (
        <Shown of={loaded}>
          {(page) =>
            rows.length === 0 ? (
              <div class="wrap gap">
                {text || show ? (
                  <Empty
                    sign="search"
                    title={show === "silent" && !text ? "Every host answers" : "No host is so"}
                    act={
                      <a class="btn" href={url("/fleet/hosts")}>
                        All hosts
                      </a>
                    }
                  >
                    {isSelector && show ? "A selector stands alone: the state is left out of it." : undefined}
                  </Empty>
                ) : (
                  <Empty sign="nodes" title="No hosts" command="holdfast host import hosts.jsonl">
                    Import an inventory, or let agents enrol with a join token. To try it without machines:{" "}
                    <code>holdfast server --simulated-hosts 100</code>.
                  </Empty>
                )}
              </div>
            ) : (
              <div class="wrap gap">
                <div class="scroll" ref={scrollable}>
                  <table class="t">
                    <thead>
                      <tr>
                        <th>State</th>
                        <th>Host</th>
                        <th class="c2">Labels</th>
                        <th class="n">Heard</th>
                        <th class="c3">Driver</th>
                        <th class="c3">Agent</th>
                        <th class="c2">Slot</th>
                      </tr>
                    </thead>
                    <tbody>
                      {rows.map((host) => {
                        const [word, sign, of, why] = hostState(host);
                        return (
                          <tr
                            data-row
                            key={host.id}
                            title={why}
                            onClick={() => go(`/fleet/hosts/${q(host.name)}`)}
                          >
                            <td>
                              <span class="st">
                                <Icon is={sign} of={of} />
                                <span>{word}</span>
                              </span>
                            </td>
                            <td class="strong">
                              <a href={url(`/fleet/hosts/${q(host.name)}`)}>
                                <Text>{host.name}</Text>
                              </a>
                              {host.slot && (
                                <span class="onph sm sub">
                                  runs for <Time at={host.slot.since} as="age" />
                                </span>
                              )}
                            </td>
                            <td class="lbl c2">
                              <Labels of={host.labels} />
                            </td>
                            <td class="n">
                              {host.agent ? (
                                dur(host.agent.seen_seconds_ago, true)
                              ) : (
                                <span class="dim">–</span>
                              )}
                            </td>
                            <td class="c3">{host.driver}</td>
                            <td class="m c3">
                              <Text>{host.agent?.version ?? "–"}</Text>
                            </td>
                            <td class="whyc c2">
                              {host.slot ? (
                                <>
                                  runs <span class="m">{short(host.slot.execution_id)}</span> for{" "}
                                  <Time at={host.slot.since} as="age" />
                                </>
                              ) : (
                                <span class="dim">free</span>
                              )}
                            </td>
                          </tr>
                        );
                      })}
                    </tbody>
                  </table>
                </div>
                <p class="tfoot">
                  <span>
                    {num(rows.length)}
                    {all && !show && !(text && !isSelector) ? ` of ${num(all.count)}` : ""}
                  </span>
                  <span>{Math.round(loaded.ms)} ms</span>
                  <span class="sp" />
                  {after && (
                    <Button small onClick={() => setParams({ after: null })}>
                      First
                    </Button>
                  )}
                  {page.next && (
                    <Button small onClick={() => setParams({ after: page.next })}>
                      Next
                    </Button>
                  )}
                </p>
              </div>
            )
          }
        </Shown>
      )}
    </div>
  );
}

// -- one host ----------------------------------------------------------------------------------------
