// A token with which nodes register.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { post, type Problem } from "../../lib/api";
import { Button, Command, Copy, Dialog, Field } from "../../ui/parts";

export function Join({ onClose }: { onClose: () => void }): JSX.Element {
  const [uses, setUses] = useState("1");
  const [made, setMade] = useState<string | null>(null);
  const [wrong, setWrong] = useState("");
  const send = async (event: { preventDefault: () => void }) => {
    event.preventDefault();
    try {
      const answer = await post<{ token: string }>("/join-tokens", { uses: Number(uses) || 1 });
      setMade(answer.token);
    } catch (error) {
      setWrong((error as Problem).message);
    }
  };
  return (
    <Dialog label="Join token" onClose={onClose}>
      <form class="stack" onSubmit={(event) => void send(event)}>
        <div>
          <h2 class="big">Join token</h2>
          <p class="sub">Nodes register with it within a day. It is shown once.</p>
        </div>
        {made ? (
          <>
            <code class="well one">
              {made}
              <Copy text={made} />
            </code>
            <Command>{`holdfast worker MODULE:QUEUE --token ${made.slice(0, 12)}…`}</Command>
          </>
        ) : (
          <Field label="How many nodes" error={wrong || undefined}>
            <input
              class="inp"
              inputMode="numeric"
              value={uses}
              onInput={(event) => setUses(event.currentTarget.value)}
            />
          </Field>
        )}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>{made ? "Close" : "Cancel"}</Button>
          {!made && (
            <Button rank="pri" type="submit" right="tokens.manage" name="Make the token">
              Make the token
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
