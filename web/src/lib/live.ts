// The live feed of this page: frames from the tab that holds the connection.
import { computed, effect, signal } from "@preact/signals";
import { Hub } from "../feed/hub";
import type { Frame, FromPage, State, ToPage } from "../feed/messages";
import { base, workerUrl } from "./place";
import { enter, signedIn } from "./api";

interface Connection {
  state: State;
  attempt: number;
  retryAt: number;
  lostAt: number;
  caughtUp: number;
  reason: string;
}

const STALE_MS = 5_000;
const CAUGHT_UP_MS = 4_000;

export const connection = signal<Connection>({
  state: "connecting",
  attempt: 0,
  retryAt: 0,
  lostAt: 0,
  caughtUp: 0,
  reason: "",
});
const head = signal("");
export const paused = signal(false);
const pausedAtHead = signal("");
export const hidden = signal(document.hidden);
/** Rises when lists are to be read again: the feed has moved, a person goes on, the connection is back. */
export const pulse = signal(0);
/** Rises each second: ages and countdowns are drawn from it. */
export const second = signal(Date.now());
const caughtUpUntil = signal(0);
export const caughtUpCount = (): number => connection.value.caughtUp;

const offset = (position: string): number => Number(position.split(":")[1] ?? 0);
export const headOffset = computed(() => offset(head.value));
export const held = computed(() =>
  paused.value ? Math.max(0, offset(head.value) - offset(pausedAtHead.value)) : 0,
);

type Mark = "live" | "paused" | "reconnecting" | "stale" | "caught-up";
export const mark = computed<Mark>(() => {
  const now = connection.value;
  if (now.state === "lost" || now.state === "out" || (now.state === "connecting" && now.lostAt > 0))
    return now.lostAt > 0 && second.value - now.lostAt > STALE_MS ? "stale" : "reconnecting";
  if (now.state === "connecting") return "reconnecting";
  if (paused.value) return "paused";
  return caughtUpUntil.value > second.value ? "caught-up" : "live";
});

const watchers = new Map<string, Set<(frame: Frame) => void>>();
const resets = new Map<string, Set<() => void>>();
let send: (message: FromPage) => void = () => undefined;

function receive(message: ToPage): void {
  if (message.type === "state") {
    const before = connection.value.state;
    const { type: _, ...state } = message;
    connection.value = state;
    if (state.state === "out") void enter();
    if (state.state === "live" && before !== "live" && before !== "connecting") pulse.value += 1;
    if (state.state === "live" && state.caughtUp > 0) caughtUpUntil.value = Date.now() + CAUGHT_UP_MS;
  } else if (message.type === "head") {
    head.value = message.head;
    if (!paused.value && !hidden.value) pulse.value += 1;
  } else if (message.type === "frame") {
    for (const notify of watchers.get(message.channel) ?? []) notify(message.frame);
  } else {
    for (const notify of resets.get(message.channel) ?? []) notify();
    pulse.value += 1;
  }
}

function connect(): void {
  const there = new URL(`${base}/api/v1/ws`, location.href);
  there.protocol = there.protocol === "https:" ? "wss:" : "ws:";
  if (typeof SharedWorker !== "undefined" && workerUrl) {
    const worker = new SharedWorker(workerUrl, "holdfast");
    worker.port.onmessage = (event: MessageEvent<ToPage>) => receive(event.data);
    send = (message) => worker.port.postMessage(message);
  } else {
    const hub = new Hub();
    const page = { send: (message: ToPage) => queueMicrotask(() => receive(message)) };
    send = (message) => hub.receive(page, message);
  }
  send({ type: "hello", url: there.href });
  for (const channel of watchers.keys()) send({ type: "watch", channel });
  window.addEventListener("pagehide", () => send({ type: "bye" }));
  window.addEventListener("pageshow", (event) => event.persisted && send({ type: "hello", url: there.href }));
}

let isOpen = false;
effect(() => {
  if (signedIn.value && !isOpen) {
    isOpen = true;
    connect();
  } else if (signedIn.value && connection.peek().state === "out") send({ type: "retry" });
});

document.addEventListener("visibilitychange", () => {
  hidden.value = document.hidden;
  send({ type: "mood", active: !document.hidden });
  if (!document.hidden && !paused.value) pulse.value += 1;
});
setInterval(() => document.hidden || (second.value = Date.now()), 1_000);

/** The person has changed something: what is on the screen is read again at once, not at its pace. */
export const acted = signal(0);
export const afterAct = (): void => void (acted.value += 1);

export function togglePause(): void {
  if (connection.value.state !== "live") return send({ type: "retry" });
  pausedAtHead.value = head.value;
  paused.value = !paused.value;
  if (!paused.value) pulse.value += 1;
}

/** Calls back for each event of a channel, until the returned function is called. */
export function watch(
  channel: string,
  notify: (frame: Frame) => void,
  reset: () => void = () => undefined,
): () => void {
  const all = watchers.get(channel) ?? new Set();
  const others = resets.get(channel) ?? new Set();
  if (all.size === 0) {
    watchers.set(channel, all);
    resets.set(channel, others);
    send({ type: "watch", channel });
  }
  all.add(notify);
  others.add(reset);
  return () => {
    all.delete(notify);
    others.delete(reset);
    if (all.size > 0) return;
    watchers.delete(channel);
    resets.delete(channel);
    send({ type: "unwatch", channel });
  };
}
