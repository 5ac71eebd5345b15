// The page of someone who is not logged in.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { hasEnded, login, Problem } from "../lib/api";
import { go, param } from "../lib/place";
import { Brand } from "../ui/marks";
import { Button, Command, Field } from "../ui/parts";

export function Login(): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState(
    param("refused")
      ? "The link was used before, is older than 10 minutes, or came from another machine."
      : "",
  );
  const [busy, setBusy] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await login(token.trim());
      if (location.pathname.endsWith("/login")) go("/");
    } catch (failed) {
      const problem = failed as Problem;
      setError(
        problem.status === 401
          ? "This token does not count: it is unknown, expired or revoked."
          : problem.message,
      );
    } finally {
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form class="panel" onSubmit={send}>
        <p class="row">
          <Brand />
          <b class="strong">Holdfast</b>
        </p>
        <h1>Log in</h1>
        <p class="sub">
          {hasEnded.value
            ? "Your session has ended: its token was revoked, or its time is over. What was not answered yet was not done. "
            : ""}
          On the machine of the server, open the link that it printed when it started. Elsewhere, use your
          token.
        </p>
        <Field label="Token" error={error || undefined} help="It stays in a cookie that no script can read.">
          <input
            class="inp"
            type="password"
            autocomplete="current-password"
            autoFocus
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
            aria-invalid={error ? "true" : undefined}
          />
        </Field>
        <Button rank="pri" type="submit" busy={busy}>
          {busy ? "Logging in…" : "Log in"}
        </Button>
        <Command>holdfast token create NAME --role operator</Command>
      </form>
    </main>
  );
}
