// Calls of the public API. Every error is a `Problem` with the words of the server, or of what did not answer.
import { json, parse } from "./exact";
import { signal } from "@preact/signals";
import { base } from "./place";
import { ROLES } from "./rules";

export interface Page<T> {
  items: T[];
  next: string | null;
}

export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
    readonly body: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/** Whether the session counts: null until it is known. */
export const signedIn = signal<boolean | null>(null);
/** Whether a session counted and then no more, without the person's doing. */
export const hasEnded = signal(false);

interface Answer<T> {
  body: T;
  position: string | null;
  ms: number;
}

let keys = 0;
const session = Math.random().toString(36).slice(2);

export async function ask<T>(
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
): Promise<Answer<T>> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["idempotency-key"] = `cc-${session}-${++keys}`;
  const started = performance.now();
  let response: Response;
  try {
    response = await fetch(`${base}${path}`, {
      method,
      headers,
      body: body === undefined ? null : json(body),
      credentials: "same-origin",
      signal: signal ?? null,
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("unavailable", "The gateway does not answer. Nothing was changed by this page.");
  }
  if (response.status === 401) {
    if (signedIn.peek()) hasEnded.value = true;
    signedIn.value = false;
  }
  const text = await response.text();
  let parsed: unknown = null;
  try {
    parsed = text ? parse(text) : null;
  } catch {
    throw new Problem(
      "malformed",
      `The gateway answered ${response.status} with something else than JSON.`,
      response.status,
    );
  }
  if (!response.ok) {
    const problem = (parsed ?? {}) as Record<string, unknown>;
    throw new Problem(
      String(problem.code ?? response.status),
      String(problem.detail || problem.title || `The gateway answered ${response.status}.`),
      response.status,
      problem,
    );
  }
  return {
    body: parsed as T,
    position: response.headers.get("holdfast-position"),
    ms: performance.now() - started,
  };
}

export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await ask<T>("GET", `/api/v1${path}`, undefined, signal)).body;
export const post = async <T>(path: string, body: unknown): Promise<T> =>
  (await ask<T>("POST", `/api/v1${path}`, body)).body;

export const q = encodeURIComponent;

// -- who the person is, and what the person may do ---------------------------------------------------

interface Who {
  name: string;
  roles: string[];
  projects: string[];
  token_id: string | null;
}

export const who = signal<Who | null>(null);
const rights = signal<Set<string>>(new Set());
export const may = (right: string): boolean => rights.value.has(right);
export const everywhere = (): boolean => who.value?.projects.includes("all") ?? false;

/** "a, b or c". */
const listed = (names: readonly string[]): string => names.join(", ").replace(/, ([^,]*)$/, " or $1");
/** Why an act is off, or nothing. */
export function missing(right: string | undefined, what: string): string | undefined {
  if (!right || may(right)) return undefined;
  const mine = who.value?.roles.join(" and ") || "no role";
  return `${what} is off: it needs the role ${listed(ROLES[right as keyof typeof ROLES] ?? [])}, you are ${mine}.`;
}

export async function enter(): Promise<void> {
  try {
    const [me, allowed] = await Promise.all([
      get<Who>("/whoami"),
      get<Page<{ operation: string }>>("/rights"),
    ]);
    who.value = me;
    rights.value = new Set(allowed.items.map((item) => item.operation));
    signedIn.value = true;
    hasEnded.value = false;
  } catch (error) {
    if (error instanceof Problem && error.status === 401) signedIn.value = false;
    else throw error;
  }
}

export async function login(token: string): Promise<void> {
  await ask("POST", "/login", { token });
  await enter();
}

export async function logout(): Promise<void> {
  await ask("POST", "/logout", {});
  who.value = null;
  signedIn.value = false;
}
