// Data of a view: read when it opens, when its key changes and when the feed has moved; what is there stays meanwhile.
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { paused, pulse, hidden } from "./live";

export interface Loaded<T> {
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

export function useLoad<T>(read: ((signal: AbortSignal) => Promise<T>) | null, key: string, every = LEAST_MS): Loaded<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Problem; ms: number; at: number }>({ key: "", ms: 0, at: 0 });
  const reading = useRef(read);
  reading.current = read;
  const run = useRef<() => void>(() => undefined);
  useEffect(() => {
    let aborter: AbortController | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asked = false;
    let over = false;
    let took = 0;
    let endedAt = 0;
    /** `wanted`: the person opened it or asked for it. All other reads stop while the page is paused. */
    const start = async (wanted: boolean) => {
      timer = undefined;
      asked = false;
      if (!wanted && paused.peek()) return;
      const now = reading.current;
      if (!now || over) return;
      aborter = new AbortController();
      const began = performance.now();
      try {
        const data = await now(aborter.signal);
        if (!over && (wanted || !paused.peek())) setState({ key, data, ms: (took = performance.now() - began), at: Date.now() });
      } catch (error) {
        if (over || (error instanceof DOMException && error.name === "AbortError")) return;
        const problem = error instanceof Problem ? error : new Problem("internal", String(error));
        setState((old) => ({ key, ...(old.key === key && old.data !== undefined ? { data: old.data } : {}), error: problem, ms: 0, at: old.at }));
      } finally {
        aborter = null;
        endedAt = performance.now();
        if (asked) soon();
      }
    };
    const soon = () => {
      if (over || timer !== undefined) return;
      if (aborter) {
        asked = true;
        return;
      }
      const wait = Math.max(0, endedAt + Math.max(every, took > SLOW_MS ? took * SPARE : 0) - performance.now());
      timer = setTimeout(() => void start(false), wait);
    };
    run.current = () => {
      clearTimeout(timer);
      timer = undefined;
      if (aborter) asked = true;
      else void start(true);
    };
    void start(true);
    const end = pulse.subscribe(() => !paused.peek() && !hidden.peek() && endedAt > 0 && soon());
    return () => {
      over = true;
      clearTimeout(timer);
      aborter?.abort();
      end();
    };
  }, [key, every]);
  const current = state.key === key ? state : { ...state, error: undefined };
  return { data: current.data, error: current.error, ms: current.ms, at: current.at, reload: () => run.current() };
}
