// What each act ends with: a reason, a refusal, its buttons.
import type { JSX } from "preact";
import { Problem } from "../../lib/api";
import { num, plural } from "../../lib/format";
import { reasons } from "../../lib/prefs";
import { TEXT_MAX } from "../../lib/rules";
import { Icon } from "../marks";
import { Button, Field, Text } from "../parts";
import { Kind } from "./kinds";

/** A refusal inside a dialog: it stays open and says why. */
export function Refused({ error }: { error: Problem }): JSX.Element {
  const changed = error.code === "version-conflict" || error.code === "precondition-failed";
  return (
    <p class={`banner ${changed ? "person" : "warn"}`} role="alert">
      <Icon is={changed ? "decision" : "stuck"} of={changed ? "person" : "warn"} />
      <span>
        {changed ? (
          <>
            <b class="strong">Someone was here first.</b> Nothing was sent. Close this and look again.{" "}
          </>
        ) : null}
        <Text>{error.message}</Text>
      </span>
    </p>
  );
}

export function ReasonField({
  value,
  onInput,
  needed,
  least = 1,
  most = TEXT_MAX,
  focus = false,
}: {
  value: string;
  onInput: (text: string) => void;
  needed: boolean;
  least?: number;
  most?: number;
  focus?: boolean;
}): JSX.Element {
  const old = reasons();
  return (
    <Field
      label={needed ? "Reason" : "Reason, optional"}
      help={`${needed ? (least > 1 ? `At least ${least} characters. ` : "Needed. ") : ""}Kept with your name.`}
    >
      <input
        class="inp"
        name="reason"
        value={value}
        list="reasons"
        maxLength={most}
        autocomplete="off"
        autoFocus={focus}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <datalist id="reasons">
        {old.map((text) => (
          <option value={text} />
        ))}
      </datalist>
    </Field>
  );
}

export function Foot(props: {
  kind: Kind;
  count: number | null;
  bound: string;
  busy: boolean;
  off: string | undefined;
  onClose: () => void;
}): JSX.Element {
  const { kind, count } = props;
  return (
    <div class="row acts">
      <span class="sm dim bound">{props.bound}</span>
      <span class="sp" />
      <Button onClick={props.onClose}>{kind.keep}</Button>
      <Button
        type="submit"
        name={count === null ? kind.name : `${kind.name} ${num(count)} tasks`}
        rank={kind.danger ? "danfill" : "pri"}
        right={kind.right}
        busy={props.busy}
        off={props.off}
      >
        {count === null ? kind.name : `${kind.name} ${plural(count, "task")}`}
      </Button>
    </div>
  );
}
