// What a page and the holder of the live feed say to each other.

/** An event of the feed, as `docs/reference/live.md` has it. */
export interface Frame {
  type: string;
  id?: string;
  channel?: string;
  position?: string;
  prev?: string;
  at?: string;
  kind?: string;
  version?: number;
  payload?: Record<string, unknown>;
  reason?: string;
  code?: number | string;
  detail?: string;
  head?: string;
  live?: boolean;
  retry_after_ms?: number;
}

export type FromPage =
  | { type: "hello"; url: string }
  | { type: "watch"; channel: string; kinds?: string[] }
  | { type: "unwatch"; channel: string }
  | { type: "mood"; active: boolean }
  | { type: "retry" }
  | { type: "bye" };

export type State = "connecting" | "live" | "lost" | "out";

export type ToPage =
  | {
      type: "state";
      state: State;
      attempt: number;
      retryAt: number;
      lostAt: number;
      caughtUp: number;
      reason: string;
    }
  | { type: "head"; head: string }
  | { type: "frame"; channel: string; frame: Frame }
  | { type: "reset"; channel: string; reason: string };
