// A patch of payloads in a replay: what is typed, and what it makes of the first task.
import type { JSX } from "preact";
import { json, parse } from "../../lib/exact";
import { short } from "../../lib/format";
import { url } from "../../lib/place";
import { Field, Text } from "../../ui/parts";

/** The fields to change, or what is wrong with the text. */
export function patchOf(text: string): [Record<string, unknown> | null, string | undefined] {
  if (!text.trim()) return [null, undefined];
  try {
    const value = parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length)
      return [value as Record<string, unknown>, undefined];
    return [null, 'Give an object with the fields to change: {"name": "value"}'];
  } catch {
    return [null, 'It is not JSON yet: {"name": "value"}'];
  }
}

export function PatchField({
  value,
  onInput,
  wrong,
}: {
  value: string;
  onInput: (text: string) => void;
  wrong: string | undefined;
}): JSX.Element {
  return (
    <Field
      label="Change the payload (optional, JSON merge patch)"
      help="Changes these fields of each payload with its replay; null removes one."
      error={wrong}
    >
      <textarea
        class="inp m"
        rows={2}
        spellcheck={false}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </Field>
  );
}

/** What changes of the first task: fields that were, and fields that would be. */
export function Patched({
  example,
}: {
  example: { id: string; before: unknown; after: unknown };
}): JSX.Element {
  const [before, after] = [fieldsOf(example.before), fieldsOf(example.after)];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => before[name] !== after[name],
  );
  return (
    <div class="gap">
      <p class="lab">
        The first, <a href={url(`/tasks/${example.id}`)}>{short(example.id)}</a>
        <span class="dim">{names.length ? "" : " would keep its payload"}</span>
      </p>
      {names.length > 0 && (
        <pre class="well diff">
          {names.flatMap((name) => [
            before[name] !== undefined && (
              <span class="del">
                - <Text>{`${name}: ${before[name]}`}</Text>
                {"\n"}
              </span>
            ),
            after[name] !== undefined && (
              <span class="add">
                + <Text>{`${name}: ${after[name]}`}</Text>
                {"\n"}
              </span>
            ),
          ])}
        </pre>
      )}
    </div>
  );
}

const fieldsOf = (value: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(value as Record<string, unknown>).map(([name, part]) => [name, json(part)]),
  );
