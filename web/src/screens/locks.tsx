// Locks: who holds what, until when, who waits; and a revocation that shows the fence now and then.
import type { JSX } from "preact";
import { get, q, type Page } from "../lib/api";
import { dur, num, person, plural } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { second } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams, url } from "../lib/place";
import type { Lock, LockRow } from "../lib/types";
import { confirm } from "../ui/confirm";
import { Icon } from "../ui/marks";
import { BY_NAME, Pager } from "../ui/pager";
import { Button, Command, Empty, Lease, Shown, Text, Time, Title, scrollable } from "../ui/parts";

const LIMIT = 200;
/** The slot of a host: it is held while a command runs there, or may still run. */
const SLOT = "host:";
const shown = (resource: string): string =>
  resource.startsWith(SLOT) ? `${SLOT}${nodeName(resource.slice(SLOT.length))}` : resource;

export function Locks(): JSX.Element {
  const after = param("after");
  const loaded = useLoad(
    async (signal) => ({
      ...(await get<Page<LockRow>>(`/locks?limit=${LIMIT}${after ? `&after=${q(after)}` : ""}`, signal)),
      readAt: Date.now(),
    }),
    `locks ${after}`,
  );
  const name = param("name");
  const rows = loaded.data?.items ?? [];
  const since = loaded.data ? (second.value - loaded.data.readAt) / 1000 : 0;
  const isSlot = (lock: LockRow): boolean => lock.resource.startsWith(SLOT);
  const slots = rows.filter(isSlot);
  const open = slots.length === 1 || param("slots") !== "" || name.startsWith(SLOT);
  return (
    <div class={name ? "split" : "one"}>
      <div class="page">
        <Title sub="A lock ends unless its holder renews it. Each grant has a higher fence, so a late writer is refused.">
          {!loaded.data
            ? "Locks"
            : rows.length === 0
              ? "No locks are held"
              : `${loaded.data.next ? `${num(rows.length)}+ locks` : plural(rows.length, "lock")} held`}
        </Title>
        <Shown of={loaded}>
          {(page) =>
            rows.length === 0 ? (
              <div class="wrap">
                <Empty sign="locks" title="No locks are held">
                  A program takes one with <code>async with locks.hold("name", ttl=30)</code>.
                </Empty>
              </div>
            ) : (
              <div class="wrap scroll" ref={scrollable}>
                <table class="t">
                  <thead>
                    <tr>
                      <th>Lock</th>
                      <th class="c2">Holder</th>
                      <th class="n">Fence</th>
                      <th>Ends in</th>
                      <th class="n">Held for</th>
                    </tr>
                  </thead>
                  <tbody>
                    {[
                      ...rows.filter((lock) => !isSlot(lock)),
                      ...(slots.length > 1 ? [null] : []),
                      ...(open ? slots : []),
                    ].map((lock) =>
                      lock === null ? (
                        <tr class="note">
                          <td colSpan={5}>
                            <button
                              type="button"
                              class="row foldrow"
                              aria-expanded={open}
                              onClick={() => setParams({ slots: param("slots") ? null : "open" })}
                            >
                              <Icon is={open ? "down" : "right"} size={12} />
                              <b class="strong">Host slots</b>
                              <span class="dim">{num(slots.length)}</span>
                              <span class="sub">held while a command runs on a host, or may still run</span>
                            </button>
                          </td>
                        </tr>
                      ) : (
                        <tr
                          data-row
                          class={lock.resource === name ? "open" : ""}
                          onClick={() => setParams({ name: lock.resource === name ? null : lock.resource })}
                        >
                          <td class="m">
                            <a href={url(`/locks?name=${q(lock.resource)}`)}>
                              <Text>{shown(lock.resource)}</Text>
                            </a>
                          </td>
                          <td class="c2">
                            <Text>{lock.owner ?? "–"}</Text>
                          </td>
                          <td class="n m">{num(lock.fence)}</td>
                          <td>
                            {lock.remaining_seconds !== null && (
                              <Lease left={lock.remaining_seconds - since} whole={lock.ttl_seconds ?? 30} />
                            )}
                          </td>
                          <td class="n">{dur(Math.max(0, (lock.held_seconds ?? 0) + since), true)}</td>
                        </tr>
                      ),
                    )}
                  </tbody>
                </table>
                <div class="tfoot">
                  <span>The page counts down from a duration; the store's clock decides.</span>
                  <span class="sp" />
                  {(after || page.next) && (
                    <Pager isFirst={!after} next={page.next ? { after: page.next } : null} words={BY_NAME} />
                  )}
                </div>
              </div>
            )
          }
        </Shown>
      </div>
      {name && <Sheet key={name} name={name} />}
    </div>
  );
}

function Sheet({ name }: { name: string }): JSX.Element {
  const loaded = useLoad(
    async (signal) => ({ lock: await get<Lock>(`/locks/${q(name)}`, signal), readAt: Date.now() }),
    `lock ${name}`,
    1_000,
  );
  return (
    <aside class="sheet" aria-label={name}>
      <div class="row top">
        <div class="min">
          <h2 class="big cut">
            <Text>{name}</Text>
          </h2>
          <p class="sub">{loaded.data?.lock.held ? "held" : "free"}</p>
        </div>
        <span class="sp" />
        <button type="button" class="x" aria-label="Close" onClick={() => setParams({ name: null })}>
          <Icon is="close" />
        </button>
      </div>
      <Shown of={loaded} rows={4}>
        {({ lock, readAt }) => {
          const since = (second.value - readAt) / 1000;
          const next = lock.waiters[0];
          return (
            <>
              <div class="fence">
                <div>
                  <span class="sm sub">Now</span>
                  <b>{num(lock.fence)}</b>
                  <span class="sm">
                    <Text>{lock.owner || "no holder"}</Text>
                  </span>
                </div>
                <Icon is="right" of="dim" />
                <div>
                  <span class="sm sub">After a revocation</span>
                  <b>{num(lock.fence + 1)}</b>
                  <span class="sm">
                    <Text>{next?.owner ?? "the next request"}</Text>
                  </span>
                </div>
              </div>
              {lock.held && (
                <dl class="kv">
                  <dt>ends in</dt>
                  <dd>
                    {lock.remaining_seconds === null ? (
                      "–"
                    ) : (
                      <Lease left={lock.remaining_seconds - since} whole={lock.ttl_seconds ?? 30} />
                    )}
                  </dd>
                  <dt>held for</dt>
                  <dd>{dur(Math.max(0, (lock.held_seconds ?? 0) + since))}</dd>
                  <dt>granted for</dt>
                  <dd>{dur(lock.ttl_seconds)}</dd>
                </dl>
              )}
              <div class="sec">
                <h2>Waiters</h2>
                <span class="sub">{num(lock.waiters.length)}, in order</span>
              </div>
              {lock.waiters.length === 0 ? (
                <p class="dim">No waiters.</p>
              ) : (
                <ul class="dry">
                  {lock.waiters.map((waiter, index) => (
                    <li>
                      <Icon is={index === 0 ? "running" : "queued"} of={index === 0 ? "work" : "idle"} />
                      <span class="cut">
                        <Text>{waiter.owner}</Text>
                      </span>
                      <b>{dur(waiter.waited_seconds + since, true)}</b>
                    </li>
                  ))}
                </ul>
              )}
              {lock.held && (
                <div class="stack gap">
                  <p class="banner hold">
                    <Icon is="paused" of="hold" />
                    <span>
                      What the holder does outside Holdfast is not stopped. A system that checks the fence
                      will refuse {num(lock.fence)}.
                    </span>
                  </p>
                  <Button
                    rank="dan"
                    right="locks.revoke"
                    name="Revoke"
                    onClick={() =>
                      confirm({
                        title: `Revoke ${name}?`,
                        says: `Takes the lock from ${lock.owner ?? "its holder"} now. Fence ${lock.fence} becomes ${lock.fence + 1}.`,
                        verb: `Revoke, fence becomes ${lock.fence + 1}`,
                        keep: "Keep it",
                        path: `/locks/${q(name)}/revoke`,
                        needsReason: true,
                        danger: true,
                        right: "locks.revoke",
                        done: "The lock was revoked.",
                        command: `holdfast lock revoke ${name}`,
                        more: (
                          <ul class="dry">
                            <li>
                              <Icon is="aborted" of="doubt" />
                              <span>the holder is refused at its next renewal</span>
                              <b>≤ {dur((lock.ttl_seconds ?? 30) / 3)}</b>
                            </li>
                            <li>
                              <Icon is="running" of="work" />
                              <span>next in line</span>
                              <b>{next ? person(next.owner) : "–"}</b>
                            </li>
                            <li>
                              <Icon is="queued" of="idle" />
                              <span>go on waiting</span>
                              <b>{num(Math.max(0, lock.waiters.length - 1))}</b>
                            </li>
                          </ul>
                        ),
                      })
                    }
                  >
                    Revoke…
                  </Button>
                </div>
              )}
              {lock.audit.length > 0 && (
                <>
                  <div class="sec">
                    <h2>Acts of operators</h2>
                  </div>
                  <ul class="plain">
                    {lock.audit.map((one) => (
                      <li>
                        <b class="strong">{one.action}</b> by {person(one.actor)}, <Time at={one.at} />
                        {one.reason ? (
                          <>
                            : “<Text>{one.reason}</Text>”
                          </>
                        ) : null}
                      </li>
                    ))}
                  </ul>
                </>
              )}
              <div class="gap">
                <Command>{`holdfast lock show ${name}`}</Command>
              </div>
            </>
          );
        }}
      </Shown>
    </aside>
  );
}
