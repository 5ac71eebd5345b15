// Conflicts: both sides of a disagreement beside each other, settled field by field.
import { json, unmarked } from "../lib/exact";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, post, type Page, type Problem } from "../lib/api";
import { age, clean, dur, num, person, plural, short } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { go, param, setParams, url } from "../lib/place";
import { keepReason } from "../lib/prefs";
import type { Conflict, ConflictRow } from "../lib/types";
import { ReasonField, Refused } from "../ui/act";
import { Icon } from "../ui/marks";
import { Button, Command, Empty, Json, Seg, Shown, Text, Time, Title, toast, scrollable } from "../ui/parts";

export function Conflicts({ id }: { id: string }): JSX.Element {
  const state = param("state") || "open";
  const loaded = useLoad(
    (signal) =>
      get<Page<ConflictRow>>(`/conflicts?limit=100${state === "all" ? "" : `&q=state:${state}`}`, signal),
    `conflicts ${state}`,
  );
  const items = loaded.data?.items ?? [];
  return (
    <div class="page">
      <Title
        acts={
          <Seg
            label="Which"
            value={state}
            onPick={(value) => {
              setParams({ state: value === "open" ? null : value });
            }}
            options={[
              ["open", "Open"],
              ["settled", "Settled"],
              ["all", "All"],
            ]}
          />
        }
        sub="A node wrote on a version that had moved on, and no rule of the project settles it."
      >
        {!loaded.data
          ? "Conflicts"
          : state !== "open"
            ? "Conflicts"
            : items.length === 0
              ? "Nothing is in conflict"
              : `${plural(items.length, "conflict")} ${items.length === 1 ? "waits" : "wait"} for a person`}
      </Title>
      {id && <One key={id} id={id} others={items.filter((one) => one.id !== id)} />}
      <Shown of={loaded}>
        {() =>
          items.length === 0 ? (
            <div class="wrap gap">
              <Empty
                sign="conflicts"
                title={state === "open" ? "No open conflict" : "No conflict"}
                command="holdfast conflict list"
              >
                When two writers disagree and no rule decides, both sides are kept and shown here.
              </Empty>
            </div>
          ) : (
            <div class="wrap gap scroll" ref={scrollable}>
              <table class="t">
                <thead>
                  <tr>
                    <th>About</th>
                    <th class="c2">Kind</th>
                    <th class="c2">Node</th>
                    <th class="n c2">Base</th>
                    <th class="n c2">Server</th>
                    <th class="n">Open</th>
                    <th class="whyc c2">Settled</th>
                  </tr>
                </thead>
                <tbody>
                  {items.map((one) => (
                    <tr
                      data-row
                      class={one.id === id ? "open" : ""}
                      onClick={() => go(`/conflicts/${one.id}${location.search}`, { keep: true })}
                    >
                      <td>
                        <span class="st">
                          <Icon is="conflict" of={one.state === "open" ? "person" : "idle"} />
                          <a class="strong" href={url(`/conflicts/${one.id}${location.search}`)}>
                            <Text>{one.client_id ?? short(one.task_id)}</Text>
                          </a>
                        </span>
                        <span class="onph sm sub">
                          <Text>{nodeName(one.node)}</Text>: {KINDS[one.kind] ?? one.kind};{" "}
                          <Text>{settled(one)}</Text>
                        </span>
                      </td>
                      <td class="c2">{KINDS[one.kind] ?? one.kind}</td>
                      <td class="m c2">
                        <Text>{nodeName(one.node)}</Text>
                      </td>
                      <td class="n c2">{one.base_version}</td>
                      <td class="n c2">{one.server_version}</td>
                      <td class="n">
                        <Time at={one.created_at} as="age" />
                      </td>
                      <td class="whyc c2">
                        <Text>{settled(one)}</Text>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </div>
  );
}

type Take = "server" | "client";
type Fields = Record<string, unknown>;
const fieldsOf = (side: unknown): Fields => {
  const all: Fields = {};
  for (const [part, value] of Object.entries((side ?? {}) as Fields))
    if (value && typeof value === "object" && !Array.isArray(value))
      for (const [name, inner] of Object.entries(value)) all[`${part}.${name}`] = inner;
    else all[part] = value;
  return all;
};
/** Why two sides do not fit, in words. */
const KINDS: Record<string, string> = {
  diverged: "both changed it",
  field: "both changed a field",
  ahead: "ahead of the server",
  output: "outputs differ",
};
const settled = (one: ConflictRow): string =>
  one.resolution
    ? `${one.resolution} by ${person(one.settled_by)}${one.reason ? `: ${one.reason}` : ""}`
    : "not yet";
/** The name of a field, which breaks after its dots first. */
const broken = (name: string): JSX.Element => (
  <>
    {name.split(/(?<=\.)/).map((part) => (
      <>
        <Text>{part}</Text>
        <wbr />
      </>
    ))}
  </>
);
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
const shown = (value: unknown): string =>
  value === undefined ? "–" : typeof value === "string" ? unmarked(value) : json(value);

function One({ id, others }: { id: string; others: ConflictRow[] }): JSX.Element {
  const loaded = useLoad((signal) => get<Conflict>(`/conflicts/${id}`, signal), `conflict ${id}`);
  return (
    <Shown of={loaded} rows={4}>
      {(conflict) => <Settle conflict={conflict} others={others} />}
    </Shown>
  );
}

function Settle({ conflict, others }: { conflict: Conflict; others: ConflictRow[] }): JSX.Element {
  const [server, client, base] = [
    fieldsOf(conflict.server),
    fieldsOf(conflict.client),
    fieldsOf(conflict.base),
  ];
  const names = Object.keys({ ...server, ...client }).filter(
    (name) => name in client || !name.match(/^(labels|metadata)$/),
  );
  const differ = names.filter((name) => name in client && !same(server[name], client[name]));
  const [takes, setTakes] = useState<Record<string, Take>>(() =>
    Object.fromEntries(differ.map((name) => [name, "server" as Take])),
  );
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const isOpen = conflict.state === "open";
  const chosen = new Set(Object.values(takes));
  const take: string =
    differ.length === 0 ? "server" : chosen.size === 1 ? ([...chosen][0] ?? "server") : "merged";
  const merged = () => {
    const payload: Fields = { ...((conflict.server as { payload?: Fields } | null)?.payload ?? {}) };
    const metadata: Fields = { ...((conflict.server as { metadata?: Fields } | null)?.metadata ?? {}) };
    let labels: unknown = (conflict.server as { labels?: unknown } | null)?.labels ?? [];
    for (const name of differ) {
      if (takes[name] !== "client") continue;
      const [part, ...rest] = name.split(".");
      if (part === "payload") payload[rest.join(".")] = client[name];
      else if (part === "metadata") metadata[rest.join(".")] = client[name];
      else if (part === "labels") labels = client[name];
    }
    return { payload, metadata, labels };
  };
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post(`/conflicts/${conflict.id}/settle`, {
        take,
        ...(take === "merged" ? { merged: merged() } : {}),
        reason,
        expected_version: conflict.version,
      });
      keepReason(reason);
      toast("The conflict is settled.");
      afterAct();
      const next = others.find((one) => one.state === "open");
      go(next ? `/conflicts/${next.id}` : "/conflicts", { keep: true });
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const radio = (name: string, side: Take, value: unknown) => (
    <label class={takes[name] === side ? "ch" : ""}>
      <input
        type="radio"
        name={name}
        checked={takes[name] === side}
        disabled={!isOpen}
        onChange={() => setTakes({ ...takes, [name]: side })}
      />
      <span class="m">
        <Text>{shown(value)}</Text>
      </span>
    </label>
  );
  return (
    <section class="gap">
      <div class="sec">
        <h2>
          <Text>{conflict.client_id ?? short(conflict.task_id)}</Text>
        </h2>
        <a class="m dim" href={url(`/tasks/${conflict.task_id}`)}>
          {short(conflict.task_id)}
        </a>
        <span class="tag person">{KINDS[conflict.kind] ?? conflict.kind}</span>
        <span class="sp" />
        <span class="sub sm">
          {isOpen ? `open ${dur(age(conflict.created_at), true)}` : `settled: ${conflict.resolution}`}
          {others.length ? ` · ${num(others.length)} more` : ""}
        </span>
      </div>
      <form class="wrap cf" onSubmit={send}>
        <div class="min">
          <div class="tw" role="group" aria-label="Both sides">
            <div>
              field
              <br />
              <span class="sm dim">{conflict.base ? `at version ${conflict.base_version}` : ""}</span>
            </div>
            <div>
              A, the server
              <br />
              <span class="sm dim">
                version {conflict.server_version}
                {conflict.server_written_at ? (
                  <>
                    , written <Time at={conflict.server_written_at} />
                    {conflict.server_written_by ? (
                      <>
                        {" "}
                        by <Text>{nodeName(person(conflict.server_written_by).replace(/^node:/, ""))}</Text>
                      </>
                    ) : null}
                  </>
                ) : null}
              </span>
            </div>
            <div>
              B, <Text>{nodeName(conflict.node)}</Text>
              <br />
              <span class="sm dim">
                on version {conflict.base_version}, arrived <Time at={conflict.created_at} />
              </span>
            </div>
            {names.map((name) =>
              differ.includes(name) ? (
                <>
                  <div class="m">
                    {broken(name)}
                    {conflict.base ? (
                      <>
                        <br />
                        <span class="sm dim">
                          was <Text>{shown(base[name])}</Text>
                        </span>
                      </>
                    ) : null}
                  </div>
                  {radio(name, "server", server[name])}
                  {radio(name, "client", client[name])}
                </>
              ) : (
                <>
                  <div class="m">{broken(name)}</div>
                  <div class="m dim">
                    <Text>{shown(server[name])}</Text>
                  </div>
                  <div class="m dim">{name in client ? <Text>{shown(client[name])}</Text> : "not sent"}</div>
                </>
              ),
            )}
          </div>
          <p class="sm sub gap">
            {differ.length === 0
              ? "Both sides hold the same content now."
              : `${plural(differ.length, "field")} ${differ.length === 1 ? "differs" : "differ"}. Nothing is written until you settle.`}
          </p>
          {names.length === 0 && (
            <div class="two">
              <Json value={conflict.server} />
              <Json value={conflict.client} />
            </div>
          )}
        </div>
        <aside>
          {isOpen ? (
            <>
              <div>
                <p class="lab">Becomes version {conflict.server_version + 1}</p>
                <pre class="well">
                  {differ.length === 0
                    ? "unchanged"
                    : differ.map((name) => (
                        <>
                          {clean(name)}{" "}
                          {takes[name] === "client" ? (
                            <>
                              <span class="del">{clean(shown(server[name]))}</span> →{" "}
                              <span class="add">{clean(shown(client[name]))}</span>
                            </>
                          ) : (
                            <span class="dim">{clean(shown(server[name]))}</span>
                          )}
                          {"\n"}
                        </>
                      ))}
                </pre>
              </div>
              <div class="row wrapf">
                <Button
                  small
                  onClick={() => setTakes(Object.fromEntries(differ.map((name) => [name, "server" as Take])))}
                >
                  All of A
                </Button>
                <Button
                  small
                  onClick={() => setTakes(Object.fromEntries(differ.map((name) => [name, "client" as Take])))}
                >
                  All of B
                </Button>
              </div>
              {wrong && <Refused error={wrong} />}
              <ReasonField value={reason} onInput={setReason} needed={false} />
              <div class="row">
                <Button rank="per" type="submit" right="conflicts.settle" name="Settle" busy={busy}>
                  Settle with {take === "server" ? "A" : take === "client" ? "B" : "this mix"}
                </Button>
              </div>
              <Command>{`holdfast conflict settle ${conflict.id} ${take}`}</Command>
            </>
          ) : (
            <p class="sub">
              Settled with {conflict.resolution} by {person(conflict.settled_by)}.{" "}
              <Text>{conflict.reason ?? ""}</Text>
            </p>
          )}
        </aside>
      </form>
    </section>
  );
}
