// Tokens: who may call the API. A secret is shown once, when it is made or rotated.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, may, missing, post, who, type Page, type Problem } from "../lib/api";
import { dur, person, plural, until } from "../lib/format";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/place";
import type { Token } from "../lib/types";
import { Refused } from "../ui/act";
import { confirm } from "../ui/confirm";
import { Button, Copy, Dialog, Empty, Field, Seg, Shown, Text, Time, Title, scrollable } from "../ui/parts";

const READ_MS = 1_000;
const ROLES = ["viewer", "operator", "approver", "admin"];
type Show = "valid" | "all";

/** A secret, in a dialog that stays until it is closed. */
export function Secret({
  secret,
  of,
  onClose,
}: {
  secret: string;
  of: string;
  onClose: () => void;
}): JSX.Element {
  return (
    <Dialog label="Copy it now" onClose={onClose}>
      <div class="stack">
        <div>
          <h2 class="big">Copy it now</h2>
          <p class="sub">
            The secret of{" "}
            <b class="strong">
              <Text>{of}</Text>
            </b>
            . It is not shown again.
          </p>
        </div>
        <code class="well one secret" data-secret>
          {secret}
          <Copy text={secret} name="Copy the secret" />
        </code>
        <div class="row acts">
          <span class="sp" />
          <Button rank="pri" onClick={onClose}>
            I have it
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

export function Tokens(): JSX.Element {
  const off = missing("tokens.manage", "Managing tokens");
  const loaded = useLoad(
    may("tokens.manage") ? (signal) => get<Page<Token>>("/tokens?limit=200", signal) : null,
    "tokens",
    READ_MS,
  );
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<{ secret: string; of: string } | null>(null);
  if (off)
    return (
      <>
        <Title>Tokens</Title>
        <div class="wrap">
          <Empty sign="key" title="Tokens are for administrators">
            {off}
          </Empty>
        </div>
      </>
    );
  const all = [...(loaded.data?.items ?? [])].sort((a, b) =>
    (b.last_used_at ?? b.created_at).localeCompare(a.last_used_at ?? a.created_at),
  );
  const live = all.filter((token) => token.state === "valid");
  const show = (param("show") || "valid") as Show;
  const rows = show === "valid" ? live : all;
  return (
    <>
      <Title
        acts={
          <Button rank="pri" onClick={() => setAdding(true)}>
            New token…
          </Button>
        }
        sub="Only their hash is kept. A session of a browser is a token too."
      >
        {loaded.data ? plural(live.length, "valid token") : "Tokens"}
      </Title>
      {all.length > live.length && (
        <div class="row pb">
          <Seg
            label="Which"
            value={show}
            onPick={(value) => setParams({ show: value === "valid" ? null : value })}
            options={[
              ["valid", "Valid"],
              ["all", `All ${all.length}`],
            ]}
          />
        </div>
      )}
      <Shown of={loaded}>
        {() =>
          rows.length === 0 ? (
            <div class="wrap">
              <Empty sign="key" title="No valid token" command="holdfast token create NAME --role operator">
                A person or a program logs in with one.
              </Empty>
            </div>
          ) : (
            <div class="wrap scroll" ref={scrollable}>
              <table class="t">
                <thead>
                  <tr>
                    <th>Token</th>
                    <th class="c2">Kind</th>
                    <th class="c2">May</th>
                    <th class="c2">Projects</th>
                    <th class="n c2">Used</th>
                    <th class="n c2">Ends</th>
                    <th class="n" />
                  </tr>
                </thead>
                <tbody>
                  {rows.map((token) => (
                    <Row key={token.id} token={token} onSecret={setMade} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
      {adding && (
        <NewToken
          onClose={() => setAdding(false)}
          onMade={(secret, of) => {
            setAdding(false);
            setMade({ secret, of });
          }}
        />
      )}
      {made && <Secret {...made} onClose={() => setMade(null)} />}
    </>
  );
}

function Row({
  token,
  onSecret,
}: {
  token: Token;
  onSecret: (made: { secret: string; of: string }) => void;
}): JSX.Element {
  const isMine = token.id === who.value?.token_id;
  const rotate = () =>
    confirm({
      title: `Rotate ${token.name}?`,
      says: isMine
        ? "It is the session of this browser: you are logged out, and log in with the new secret."
        : `The secret before counts no more, at once. ${person(token.principal)} needs the new one.`,
      verb: "Make another secret",
      keep: "Keep it",
      path: `/tokens/${token.id}/rotate`,
      method: "POST",
      query: true,
      right: "tokens.manage",
      done: "It has another secret.",
      command: `holdfast token rotate ${token.id}`,
      onDone: (answer) => {
        const { token: secret } = answer as Token;
        if (secret) onSecret({ secret, of: token.name });
      },
    });
  const revoke = () =>
    confirm({
      title: `Revoke ${token.name}?`,
      says: isMine
        ? "It is the session of this browser: you are logged out."
        : `Requests of ${person(token.principal)} with it are refused at once; its open connections end.`,
      verb: "Revoke the token",
      keep: "Keep it",
      path: `/tokens/${token.id}`,
      method: "DELETE",
      danger: true,
      right: "tokens.manage",
      done: "The token counts no more.",
      command: `holdfast token revoke ${token.id}`,
    });
  const isValid = token.state === "valid";
  const left = token.expires_at && dur(until(token.expires_at), true);
  return (
    <tr class={isValid ? "" : "gone"}>
      <td>
        <b class="strong">
          <Text>{token.name}</Text>
        </b>{" "}
        <span class="m dim">…{token.id.slice(-4)}</span>
        {isMine && <span class="tag person">this browser</span>}
        <span class="onph sm sub">
          {token.roles.join(", ")} · {!isValid ? token.state : left ? `ends in ${left}` : "never ends"}
        </span>
      </td>
      <td class="c2">{token.kind}</td>
      <td class="c2">
        <span class="tags">
          {token.roles.map((role) => (
            <span class="tag line">{role}</span>
          ))}
        </span>
      </td>
      <td class="c2">
        <Text>{token.projects.join(", ")}</Text>
      </td>
      <td class="n c2">
        {token.last_used_at ? <Time at={token.last_used_at} as="age" /> : <span class="dim">never</span>}
      </td>
      <td class="n c2">
        {!isValid ? (
          <span class="dim">{token.state}</span>
        ) : left ? (
          `in ${left}`
        ) : (
          <span class="warn">never</span>
        )}
      </td>
      <td class="n acts">
        {isValid && (
          <>
            {token.kind !== "node" && token.kind !== "agent" && (
              <Button small rank="gho" name={`Rotate ${token.name}`} onClick={rotate}>
                Rotate…
              </Button>
            )}
            <Button small rank="gho" name={`Revoke ${token.name}`} onClick={revoke}>
              Revoke…
            </Button>
          </>
        )}
      </td>
    </tr>
  );
}

function NewToken({
  onClose,
  onMade,
}: {
  onClose: () => void;
  onMade: (secret: string, of: string) => void;
}): JSX.Element {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState<string[]>(["viewer"]);
  const [days, setDays] = useState("90");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      const answer = await post<Token>("/tokens", {
        name,
        roles,
        ...(Number(days) ? { expires_in_seconds: Number(days) * 86_400 } : {}),
      });
      afterAct();
      onMade(answer.token ?? "", name);
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  const turn = (role: string) =>
    setRoles(roles.includes(role) ? roles.filter((one) => one !== role) : [...roles, role]);
  return (
    <Dialog label="New token" onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">New token</h2>
          <p class="sub">For one person or one program.</p>
        </div>
        <div class="two">
          <Field label="Name">
            <input
              class="inp"
              required
              autoFocus
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </Field>
          <Field label="Ends after" help="Empty: never">
            <span class="inp">
              <input
                inputMode="numeric"
                value={days}
                onInput={(event) => setDays(event.currentTarget.value)}
              />
              <span class="u">days</span>
            </span>
          </Field>
        </div>
        <fieldset class="roles">
          <legend class="lab">Roles</legend>
          {ROLES.map((role) => (
            <label>
              <input type="checkbox" checked={roles.includes(role)} onChange={() => turn(role)} />
              {role}
            </label>
          ))}
        </fieldset>
        {wrong && <Refused error={wrong} />}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>Cancel</Button>
          <Button
            rank="pri"
            type="submit"
            right="tokens.manage"
            name="Make the token"
            off={roles.length ? undefined : "Choose a role first."}
          >
            Make the token
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
