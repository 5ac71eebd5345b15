// The act that is open.
import { signal } from "@preact/signals";
import type { Task, TaskRow } from "../../lib/types";
import { Verb } from "./kinds";

type Target = { task: TaskRow | Task } | { ids: string[] } | { query: string; count: number };

export const acting = signal<{ verb: Verb; target: Target } | null>(null);

export const act = (verb: Verb, target: Target): void => void (acting.value = { verb, target });
