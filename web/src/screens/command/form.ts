// The form of a command: its fields, the request and the command line that they make.

import { json, parse } from "../../lib/exact";
import type { Job } from "../../lib/fleet";

export interface Type {
  label: string;
  says: string;
  help: string;
  repeats: boolean;
}

export const TYPES: Record<string, Type> = {
  exec: {
    label: "The command, without a shell",
    says: "runs the words as they are",
    help: "apt-get install -y openssl. Pipes and redirections need shell.",
    repeats: false,
  },
  restart: {
    label: "The unit to restart",
    says: "runs systemctl restart, no shell",
    help: "For example nginx",
    repeats: true,
  },
  shell: {
    label: "A line for the shell",
    says: "runs in a shell, and always asks for approval",
    help: "df -h / | tail -1",
    repeats: false,
  },
  facts: { label: "", says: "reports what the hosts are", help: "", repeats: true },
  ping: { label: "", says: "only answers", help: "", repeats: true },
  noop: { label: "", says: "runs nothing", help: "", repeats: true },
};

export const FIELDS = [
  "selector",
  "type",
  "other",
  "command",
  "args",
  "name",
  "timeout",
  "waves",
  "at_once",
  "rest",
  "gate",
  "failed",
  "timed_out",
  "lost",
  "unreachable",
  "breach",
  "reason",
  "project",
] as const;

export type Form = Record<(typeof FIELDS)[number], string>;

export const DEFAULTS: Form = {
  selector: "",
  type: "exec",
  other: "",
  command: "",
  args: "",
  name: "",
  timeout: "",
  waves: "1, 5%, rest",
  at_once: "50",
  rest: "",
  gate: "auto",
  failed: "0",
  timed_out: "2%",
  lost: "1%",
  unreachable: "10%",
  breach: "drain",
  reason: "",
  project: "",
};

export const amount = (text: string): number | string | null =>
  text.trim() === "" ? null : /^\d+$/.test(text.trim()) ? Number(text) : text.replace(/\s/g, "");

const wavesOf = (text: string): (number | string)[] =>
  text
    .split(",")
    .map((part) => amount(part))
    .filter((part): part is number | string => part !== null);

export function bodyOf(form: Form): { body: Record<string, unknown>; wrong: string } {
  let args: unknown = undefined;
  let wrong = "";
  if (form.args.trim())
    try {
      args = parse(form.args);
    } catch {
      wrong = "Arguments are no JSON object.";
    }
  const type = form.type === "other" ? form.other.trim() : form.type;
  return {
    wrong,
    body: {
      selector: form.selector.trim(),
      command_type: type,
      command: TYPES[form.type]?.label === "" ? "" : form.command,
      reason: form.reason,
      ...(form.name.trim() ? { external_id: form.name.trim() } : {}),
      ...(args !== undefined ? { args } : {}),
      ...(form.project ? { project: form.project } : {}),
      ...(Number(form.timeout) ? { exec_timeout_seconds: Number(form.timeout) } : {}),
      rollout: {
        waves: wavesOf(form.waves),
        ...(amount(form.at_once) !== null ? { max_in_flight: amount(form.at_once) } : {}),
        ...(Number(form.rest) ? { bake_seconds: Number(form.rest) } : {}),
        gate: form.gate,
        on_breach: form.breach,
        budget: {
          failed: amount(form.failed),
          timeout: amount(form.timed_out),
          lost: amount(form.lost),
          unreachable: amount(form.unreachable),
        },
      },
    },
  };
}

/** What a template keeps of a request: not the name, which stands for one job. */
export const templateOf = ({ external_id: _, ...body }: Record<string, unknown>): Record<string, unknown> =>
  body;

/** The form that a job was made with. */
export function formOf(job: Job): Partial<Form> {
  const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));
  const known = job.command_type in TYPES;
  return {
    selector: job.selector ?? "",
    type: known ? job.command_type : "other",
    other: known ? "" : job.command_type,
    command: job.command,
    args: Object.keys(job.args).length ? json(job.args) : "",
    timeout: text(job.exec_timeout_seconds),
    waves: job.rollout.waves.join(", "),
    at_once: text(job.rollout.max_in_flight),
    rest: job.rollout.bake_seconds ? text(job.rollout.bake_seconds) : "",
    gate: job.rollout.gate,
    breach: job.rollout.on_breach,
    failed: text(job.rollout.budgets.failed),
    timed_out: text(job.rollout.budgets.timeout),
    lost: text(job.rollout.budgets.lost),
    unreachable: text(job.rollout.budgets.unreachable),
    project: job.project === "default" ? "" : job.project,
  };
}

/** The form of a template: it has the fields of a request for a job. */
export function formOfBody(body: Record<string, unknown>): Form {
  const text = (value: unknown): string => (value === null || value === undefined ? "" : String(value));
  const rollout = (body.rollout ?? {}) as Record<string, unknown>;
  const budget = (rollout.budget ?? {}) as Record<string, unknown>;
  const type = text(body.command_type) || "exec";
  const known = type in TYPES;
  return {
    ...DEFAULTS,
    selector: text(body.selector),
    type: known ? type : "other",
    other: known ? "" : type,
    command: text(body.command),
    args: body.args ? json(body.args) : "",
    timeout: text(body.exec_timeout_seconds),
    reason: text(body.reason),
    project: text(body.project),
    waves: Array.isArray(rollout.waves) ? rollout.waves.join(", ") : DEFAULTS.waves,
    at_once: text(rollout.max_in_flight) || DEFAULTS.at_once,
    rest: text(rollout.bake_seconds),
    gate: text(rollout.gate) || "auto",
    breach: text(rollout.on_breach) || "drain",
    failed: text(budget.failed),
    timed_out: text(budget.timeout),
    lost: text(budget.lost),
    unreachable: text(budget.unreachable),
  };
}

/** The plan as a command: every field that the form sends has its option. */
export function commandLine(form: Form): string {
  const type = form.type === "other" ? form.other : form.type;
  const quote = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);
  const options: [string, string][] = [
    ["type", type === "exec" ? "" : type],
    ["hosts", form.selector.trim()],
    ["external-id", form.name.trim()],
    ["project", form.project],
    ["timeout", Number(form.timeout) ? `${form.timeout}s` : ""],
    ["waves", form.waves.replace(/\s/g, "")],
    ["max-in-flight", form.at_once.replace(/\s/g, "")],
    ["bake", Number(form.rest) ? `${form.rest}s` : ""],
    ["gate", form.gate === "auto" ? "" : form.gate],
    ["max-fail", form.failed.trim() || "none"],
    ["max-timeout", form.timed_out.trim() || "none"],
    ["max-lost", form.lost.trim() || "none"],
    ["max-unreachable", form.unreachable.trim() || "none"],
    ["on-breach", form.breach === "drain" ? "" : form.breach],
    ["reason", form.reason.trim()],
  ];
  return [
    "holdfast run",
    ...options.filter(([, value]) => value).map(([name, value]) => `--${name} ${quote(value)}`),
    "--plan",
    TYPES[form.type]?.label === "" || !form.command
      ? ""
      : `-- ${/^[\w@%+=:,./ -]+$/.test(form.command) ? form.command : quote(form.command)}`,
  ]
    .join(" ")
    .trim();
}
