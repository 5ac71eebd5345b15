// Data of a view: read when it opens, when its key changes and when the feed has moved; what is there stays meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { acted, paused, pulse, hidden } from "./live";

interface Loaded<T> {
  data: T | undefined;
  error: Problem | undefined;
  /** Milliseconds of the last answer. */
  ms: number;
  at: number;
  reload: () => void;
}

const LEAST_MS = 250;
const SLOW_MS = 300;
/** A list that took long is read again after this many times that: a slow store is not asked all the time. */
const SPARE = 4;
/** What is not there may come, but nothing changes by asking at the pace of the page. */
const MISSING_MS = 5_000;
const MOVES_MS = 1_000;

/** `moves`: whether the data change without an event of the feed, as an operation that runs: it is read again in a second. */
export function useLoad<T>(
  read: ((signal: AbortSignal) => Promise<T>) | null,
  key: string,
  every = LEAST_MS,
  moves?: (data: T) => boolean,
): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Problem; ms: number; at: number }>({
    key: "",
    ms: 0,
    at: 0,
  });
  const reading = useRef({ read, moves });
  reading.current = { read, moves };
  const run = useRef<() => void>(() => undefined);
  useEffect(() => {
    let aborter: AbortController | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asked = false;
    let over = false;
    let rest = 0;
    let isMoving = false;
    let endedAt = 0;
    /** The person has changed something since the last read began: the next one does not wait. */
    let urgent = false;
    let acts = acted.peek();
    /** `wanted`: the person opened it or asked for it. All other reads stop while the page is paused. */
    const start = async (wanted: boolean) => {
      timer = undefined;
      asked = urgent = isMoving = false;
      if (!wanted && paused.peek()) return;
      const now = reading.current.read;
      if (!now || over) return;
      aborter = new AbortController();
      const began = performance.now();
      try {
        const data = await now(aborter.signal);
        if (!over && (wanted || !paused.peek())) {
          const took = performance.now() - began;
          rest = took > SLOW_MS ? took * SPARE : 0;
          isMoving = reading.current.moves?.(data) ?? false;
          setState({ key, data, ms: took, at: Date.now() });
        }
      } catch (error) {
        if (over || (error instanceof DOMException && error.name === "AbortError")) return;
        const problem = error instanceof Problem ? error : new Problem("internal", String(error));
        rest = problem.status === 404 ? MISSING_MS : 0;
        setState((old) => ({
          key,
          ...(old.key === key && old.data !== undefined ? { data: old.data } : {}),
          error: problem,
          ms: 0,
          at: old.at,
        }));
      } finally {
        aborter = null;
        endedAt = performance.now();
        if (asked) soon();
        else if (isMoving && !hidden.peek()) soon(MOVES_MS);
      }
    };
    const soon = (least = 0) => {
      if (over || timer !== undefined) return;
      if (aborter) {
        asked = true;
        return;
      }
      const wait = urgent ? 0 : Math.max(0, endedAt + Math.max(every, rest, least) - performance.now());
      timer = setTimeout(() => void start(false), wait);
    };
    run.current = () => {
      clearTimeout(timer);
      timer = undefined;
      if (aborter) asked = true;
      else void start(true);
    };
    void start(true);
    const ends = [
      pulse.subscribe(() => !paused.peek() && !hidden.peek() && endedAt > 0 && soon()),
      acted.subscribe((count) => {
        if (count === acts || paused.peek()) return;
        acts = count;
        urgent = true;
        clearTimeout(timer);
        timer = undefined;
        soon();
      }),
    ];
    return () => {
      over = true;
      clearTimeout(timer);
      aborter?.abort();
      for (const end of ends) end();
    };
  }, [key, every]);
  const current = state.key === key ? state : { ...state, error: undefined };
  return {
    data: current.data,
    error: current.error,
    ms: current.ms,
    at: current.at,
    reload: () => run.current(),
  };
}
