// The buttons to the pages before and after this one.
import type { JSX } from "preact";
import { setParams } from "../lib/place";
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

/** `next`: the parameters of the page after this one; null: there is none. */
export function Pager({
  isFirst,
  next,
  words,
}: {
  isFirst: boolean;
  next: Record<string, string | null> | null;
  words?: Partial<Words>;
}): JSX.Element {
  const say = { ...BY_TIME, ...words };
  return (
    <>
      <Button small off={isFirst ? say.isFirst : undefined} onClick={() => history.back()}>
        {say.back}
      </Button>
      <Button small off={next ? undefined : say.isLast} onClick={() => next && setParams(next, false)}>
        {say.on}
      </Button>
    </>
  );
}
