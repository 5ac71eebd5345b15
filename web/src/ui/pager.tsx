// The buttons to the pages before and after this one.
import type { JSX } from "preact";
import { param, place, setParams } from "../lib/place";
import { Button } from "./parts";

interface Words {
  back: string;
  on: string;
  /** Why there is no page before, or after. */
  isFirst: string;
  isLast: string;
}

const BY_TIME: Words = {
  back: "Newer",
  on: "Older",
  isFirst: "This is the newest page.",
  isLast: "There are no older ones.",
};
export const BY_NAME: Words = {
  back: "Before",
  on: "Next",
  isFirst: "This is the first page.",
  isLast: "There are no more.",
};

type Cursor = Record<string, string | null>;
/** The parameters that say which page of a list is shown. */
const NAMES = ["after", "before", "at"];
const here = (): Cursor => Object.fromEntries(NAMES.map((name) => [name, param(name) || null]));
const keyOf = (cursor: Cursor): string => `${place.value.path} ${JSON.stringify(cursor)}`;
/** The page from which a person came to one. A page that was opened by its address leads to the first. */
const before = new Map<string, Cursor>();
const goOn = (next: Cursor): void => {
  before.set(keyOf({ ...here(), ...next }), here());
  setParams({ ...next, open: null });
};
const goBack = (): void => {
  const first = Object.fromEntries(NAMES.map((name) => [name, null]));
  setParams({ ...(before.get(keyOf(here())) ?? first), open: null });
};

/** `next`: the parameters of the page after this one; null: there is none. */
export function Pager({
  isFirst,
  next,
  words,
}: {
  isFirst: boolean;
  next: Cursor | null;
  words?: Partial<Words>;
}): JSX.Element {
  const say = { ...BY_TIME, ...words };
  return (
    <>
      <Button small off={isFirst ? say.isFirst : undefined} onClick={goBack}>
        {say.back}
      </Button>
      <Button small off={next ? undefined : say.isLast} onClick={() => next && goOn(next)}>
        {say.on}
      </Button>
    </>
  );
}
