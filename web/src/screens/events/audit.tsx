// The audit: who did what, and whether its chain is whole.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Page, get, may, q } from "../../lib/api";
import { clean, num, person, plural, short, time } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams, url } from "../../lib/place";
import type { AuditRow } from "../../lib/types";
import { Icon } from "../../ui/marks";
import { Pager } from "../../ui/pager";
import { Button, Copy, Empty, Json, Shown, Text, Time, Title, scrollable } from "../../ui/parts";
import { ACTS, QueryBar } from "../../ui/query";
import { PAGE } from "./feed";

const PLACES: [RegExp, string, string][] = [
  [/^[0-9a-f]{8}-/, "task", "/tasks/"],
  [/^job_/, "job", "/fleet/jobs/"],
  [/^op_/, "operation", "/operations/"],
  [/^dec_/, "decision", "/inbox/"],
  [/^con_/, "conflict", "/conflicts/"],
];

/** The page of what an act was on, if it has one. */
const placeOf = (subject: string): string | undefined =>
  PLACES.filter(([mark]) => mark.test(subject)).map(([, , path]) => path + subject)[0];

const NAME_MAX = 24;

/** Acts that a search reads at once. */
const SEARCHED = 500;

/** What an act was on: its name, or its kind and the end of its id, as lists show ids. */
function Subject({ of }: { of: string }): JSX.Element {
  if (!of) return <span class="dim">–</span>;
  const kind =
    PLACES.find(([mark]) => mark.test(of))?.[1] ??
    (of.length > NAME_MAX ? /^[a-z]+(?=_)/.exec(of)?.[0] : undefined);
  return kind ? (
    <span title={of}>
      {kind} <span class="dim">{short(of)}</span>
    </span>
  ) : (
    <span class="cut" title={clean(of)}>
      <Text>{of}</Text>
    </span>
  );
}

interface Verified {
  ok: boolean;
  rows: number;
  head: string;
  first_wrong: number | null;
}

export function Audit({ pick }: { pick: JSX.Element }): JSX.Element {
  const after = param("after");
  const asked = param("q");
  const allowed = may("audit.read");
  const loaded = useLoad(
    allowed
      ? (signal) =>
          get<Page<AuditRow>>(
            `/audit?limit=${asked ? SEARCHED : PAGE}${after ? `&after=${q(after)}` : ""}${asked ? `&q=${q(asked)}` : ""}`,
            signal,
          )
      : null,
    `audit ${after} ${asked}`,
    1_000,
  );
  const bad = loaded.error?.body.at !== undefined ? loaded.error : undefined;
  const [checked, setChecked] = useState<(Verified & { at: string }) | null>(null);
  const verify = () =>
    void get<Verified>("/audit/verify")
      .then((found) => setChecked({ ...found, at: new Date().toISOString() }))
      .catch(() => undefined);
  useEffect(() => {
    if (allowed) verify();
  }, [allowed]);
  const open = loaded.data?.items.find((row) => String(row.seq) === param("open"));
  return (
    <div class={open ? "split" : "one"}>
      <div class="page">
        <Title acts={pick} sub="Every act of a person, written in the transaction of the act.">
          Audit
        </Title>
        {!allowed ? (
          <div class="wrap">
            <Empty sign="key" title="The audit is for administrators">
              Reading it needs the role admin.
            </Empty>
          </div>
        ) : (
          <>
            {checked && (
              <div class="verif">
                <Icon is={checked.ok ? "completed" : "failed"} of={checked.ok ? "good" : "bad"} size={20} />
                <div class="min">
                  <p class="strong">
                    {checked.ok
                      ? `The chain is whole, ${plural(checked.rows, "row")}`
                      : `The chain breaks at row ${num(checked.first_wrong ?? 0)}`}{" "}
                    <span class="sub">at {time(checked.at)}</span>
                  </p>
                  <p class="m dim cut">head {checked.head.slice(0, 32)}</p>
                </div>
                <span class="sp" />
                <Copy text={checked.head} name="Copy the head" />
                <Button onClick={verify}>Verify again</Button>
              </div>
            )}
            <div class="row gap">
              <QueryBar
                value={asked}
                keys={ACTS}
                example="actor:~ann operation:tokens.* age:<7d"
                onSearch={(text) => setParams({ q: text || null, after: null, open: null })}
                label="Search the audit"
                error={bad}
              />
            </div>
            {bad ? (
              <div class="wrap gap">
                <Empty sign="search" title="The search cannot be read">
                  <Text>{bad.message}</Text>
                </Empty>
              </div>
            ) : (
              <Shown of={loaded}>
                {(page) =>
                  page.items.length === 0 ? (
                    <div class="wrap gap">
                      <Empty
                        sign="chain"
                        title={
                          asked
                            ? page.next
                              ? "No such act among these 10,000"
                              : "No such act"
                            : "No act yet"
                        }
                        act={
                          page.next ? (
                            <Button onClick={() => setParams({ after: page.next })}>Look further back</Button>
                          ) : undefined
                        }
                      />
                    </div>
                  ) : (
                    <div class="wrap gap">
                      <div class="scroll" ref={scrollable}>
                        <table class="t">
                          <thead>
                            <tr>
                              <th class="n c2">Row</th>
                              <th>At</th>
                              <th>Who</th>
                              <th>Act</th>
                              <th class="c2">On</th>
                              <th class="c2">Version</th>
                              <th class="whyc c2">Reason</th>
                            </tr>
                          </thead>
                          <tbody>
                            {page.items.map((row) => (
                              <tr
                                data-row
                                class={row === open ? "open" : ""}
                                onClick={() => setParams({ open: row === open ? null : String(row.seq) })}
                              >
                                <td class="n m dim c2">{num(row.seq)}</td>
                                <td>
                                  <Time at={row.at} />
                                </td>
                                <td class="byc cut">
                                  <b class="strong">
                                    <Text>{person(row.actor)}</Text>
                                  </b>
                                </td>
                                <td>
                                  <span class="m">{row.operation}</span>
                                  <span class="onph sm sub">
                                    <Subject of={row.subject} />
                                    {row.reason ? (
                                      <>
                                        : <Text>{row.reason}</Text>
                                      </>
                                    ) : null}
                                  </span>
                                </td>
                                <td class="m c2">
                                  <Subject of={row.subject} />
                                </td>
                                <td class="c2 m">
                                  {row.after_version !== null
                                    ? `${row.before_version ?? 0} → ${row.after_version}`
                                    : "–"}
                                </td>
                                <td class="whyc c2">
                                  <Text>{row.reason}</Text>
                                </td>
                              </tr>
                            ))}
                          </tbody>
                        </table>
                      </div>
                      <div class="tfoot">
                        <span class="sp" />
                        <Pager isFirst={!after} next={page.next ? { after: page.next } : null} />
                      </div>
                    </div>
                  )
                }
              </Shown>
            )}
          </>
        )}
      </div>
      {open && (
        <aside class="sheet" aria-label={`Row ${open.seq}`}>
          <div class="row">
            <h2 class="big">Row {num(open.seq)}</h2>
            <span class="tag good">
              <Icon is="chain" size={12} />
              in the chain
            </span>
            <span class="sp" />
            <button type="button" class="x" aria-label="Close" onClick={() => setParams({ open: null })}>
              <Icon is="close" />
            </button>
          </div>
          <dl class="kv gap">
            <dt>who</dt>
            <dd>
              <Text>{open.actor}</Text>
            </dd>
            <dt>act</dt>
            <dd class="m">{open.operation}</dd>
            <dt>on</dt>
            <dd class="m wrapt">
              <Text>{open.subject || "–"}</Text>
              {placeOf(open.subject) && (
                <>
                  <br />
                  <a class="lnk" href={url(placeOf(open.subject) ?? "")}>
                    Open it
                  </a>
                </>
              )}
            </dd>
            <dt>project</dt>
            <dd>{open.project}</dd>
            <dt>when</dt>
            <dd>
              <Time at={open.at} />
            </dd>
            <dt>reason</dt>
            <dd>
              <Text>{open.reason || "–"}</Text>
            </dd>
            <dt>request</dt>
            <dd class="m wrapt">{open.request_id}</dd>
            <dt>hash</dt>
            <dd class="m wrapt">{open.hash.slice(0, 32)}…</dd>
            <dt>before it</dt>
            <dd class="m wrapt">{open.prev_hash.slice(0, 32)}…</dd>
          </dl>
          <div class="sec">
            <h2>Detail</h2>
          </div>
          <Json value={open.detail} />
        </aside>
      )}
    </div>
  );
}
