// The first steps of `holdfast dev`: they tick by what the audit and the registered types say, here or in a terminal.
// A line above the overview, and a page with all of them.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { get, may, type Page } from "../lib/api";
import { num, time } from "../lib/format";
import { useLoad } from "../lib/load";
import { go, place, url } from "../lib/place";
import type { AuditRow, TaskRow } from "../lib/types";
import { Icon } from "../ui/marks";
import { Button, Copy, Meter, Skeleton, Text } from "../ui/parts";

interface Trial {
  sample: boolean;
  hosts: number;
  store: string;
}
interface Facts {
  trial: Trial | null;
  done: Map<string, string>;
  running: string;
}
interface Step {
  key: string;
  title: string;
  note: ComponentChildren;
  href?: string;
  act?: string;
  command?: string;
  operations?: string[];
  fleet?: boolean;
  always?: boolean;
}

const PEOPLE = new Set(["user:mira", "user:jonas"]);
const STEPS: Step[] = [
  {
    key: "watch",
    title: "Watch a task",
    note: "An import runs: its progress, its output as it is written, its lease.",
    act: "Open the import",
  },
  {
    key: "decide",
    title: "Answer the decision",
    note: "The month waits for an answer and holds no worker. The task goes on where it asked.",
    href: "/inbox",
    act: "Open the inbox",
    command: "holdfast decision list",
    operations: ["decisions.decide"],
  },
  {
    key: "approve",
    title: "Approve the job",
    note: "mira asks to restart PostgreSQL; she may not approve it herself. You may.",
    href: "/inbox",
    act: "Open the inbox",
    command: "holdfast approve postgres-minor -m 'change 121'",
    operations: ["jobs.approve"],
    fleet: true,
  },
  {
    key: "replay",
    title: "Replay the dead letters",
    note: "12 mails died while their relay was down. It is up again: the same payloads run once more.",
    href: "/dead-letters",
    act: "Open the dead letters",
    command: "holdfast dlq replay --type email.send",
    operations: ["dead.replay", "operations.run"],
  },
  {
    key: "run",
    title: "Run a command on hosts",
    note: "The plan says who runs it, in which wave. Up to 50 hosts need no second person.",
    href: "/fleet/new",
    act: "New command",
    command: "holdfast run 'echo hi' --hosts 'role=cache&zone=a'",
    operations: ["jobs.create"],
    fleet: true,
  },
  {
    key: "worker",
    title: "Connect a worker",
    note: "In another terminal, with the two variables that the server printed.",
    command: "holdfast worker holdfast.cli.dev.guest:queue",
    always: true,
  },
];
const READ_MS = 2_000;

function stored(name: string): string {
  try {
    return localStorage.getItem(`holdfast.steps.${name}`) ?? "";
  } catch {
    return ""; // A browser without storage keeps nothing.
  }
}
function store(name: string, value: string): void {
  try {
    localStorage.setItem(`holdfast.steps.${name}`, value);
  } catch {
    // As above.
  }
}
/** Both are about one store: another run begins again. */
const seen = signal(stored("seen"));
const hidden = signal(stored("hidden"));
let shown = "";
place.subscribe(({ path }) => {
  if (shown && seen.peek() !== shown && /^\/tasks\/./.test(path)) store("seen", (seen.value = shown));
});

/** What the server said: it stays so while it runs, and a real server is asked once. */
let known: Trial | null | undefined;
async function read(abort: AbortSignal): Promise<Facts> {
  known ??= known === null ? null : ((await get<{ trial?: Trial | null }>("/about", abort)).trial ?? null);
  const trial = known;
  const done = new Map<string, string>();
  if (!trial || hidden.peek() === trial.store) return { trial: null, done, running: "" };
  shown = trial.store;
  const [audit, types, tasks] = await Promise.all([
    may("audit.read")
      ? get<Page<AuditRow>>("/audit?limit=1000", abort).then((page) => page.items)
      : Promise.resolve([]),
    get<Page<{ name: string }>>("/types", abort),
    get<Page<TaskRow>>("/tasks?q=type:catalogue.import%20status:running&limit=1", abort),
  ]);
  for (const row of audit)
    for (const step of STEPS)
      if (step.operations?.includes(row.operation) && !PEOPLE.has(row.actor)) done.set(step.key, row.at);
  if (types.items.some((type) => type.name === "hello")) done.set("worker", "");
  return { trial, done, running: tasks.items[0]?.id ?? "" };
}

interface Standing {
  trial: Trial;
  steps: Step[];
  done: Map<string, string>;
  now: Step | undefined;
  count: number;
  running: string;
}
/** What is done, of a server that is tried out. Null elsewhere, undefined before it is known. */
function useSteps(): Standing | null | undefined {
  const { data, error } = useLoad(read, "steps", READ_MS);
  if (!data && !error) return undefined;
  if (!data?.trial) return null;
  const trial = data.trial;
  const done = new Map(data.done);
  if (seen.value === trial.store) done.set("watch", "");
  const steps = STEPS.filter(
    (step) => step.always || (trial.sample && (!step.fleet || trial.hosts >= 1_000)),
  );
  return {
    trial,
    steps,
    done,
    now: steps.find((step) => !done.has(step.key)),
    count: steps.filter((step) => done.has(step.key)).length,
    running: data.running,
  };
}
const hide = (trial: Trial): void => store("hidden", (hidden.value = trial.store));
const says = ({ now, count, steps }: Standing): string =>
  now ? `It runs. ${count} of ${steps.length} done` : "It runs. All done";
const placeOf = (step: Step, running: string): string | undefined =>
  step.key === "watch" ? (running ? `/tasks/${running}` : "/tasks") : step.href;

/** One line above the overview: how far it is, and what is next. */
export function FirstSteps(): JSX.Element | null {
  const standing = useSteps();
  if (!standing || hidden.value === standing.trial.store) return null;
  const { trial, steps, now, count, running } = standing;
  const href = now && placeOf(now, running);
  return (
    <section class="panel first" aria-label="First steps">
      <header>
        <Icon is={now ? "decision" : "completed"} of={now ? "person" : "good"} />
        <h2>{says(standing)}</h2>
        {now && (
          <span class="cut sub">
            Next: <b class="strong">{now.title}</b>
          </span>
        )}
        <span class="sp" />
        <Meter
          parts={[[count, "good"]]}
          total={steps.length}
          label={`${count} of ${steps.length} steps are done`}
        />
        {now && href && (
          <a class="btn per" href={url(href)}>
            {now.act}
          </a>
        )}
        <a class="btn" href={url("/start")}>
          All steps
        </a>
        <Button rank="gho" onClick={() => hide(trial)}>
          Hide
        </Button>
      </header>
    </section>
  );
}

const CODE = `from holdfast import TaskQueue
queue = TaskQueue("sqlite:///holdfast.db")

@queue.task(max_attempts=3)
async def hello(name: str) -> str:
    return f"hello {name}"
`;
const Line = ({ children }: { children: string }): JSX.Element => (
  <code class="well one line">
    <span class="cut">{children}</span>
    <Copy text={children} name="Copy the command" />
  </code>
);

/** All steps, and a first program. */
export function Start(): JSX.Element {
  const standing = useSteps();
  if (standing === undefined)
    return (
      <div class="page">
        <h1>Start</h1>
        <Skeleton rows={6} />
      </div>
    );
  if (!standing)
    return (
      <div class="page">
        <h1>Start</h1>
        <p class="sub pb">A first task, in six lines.</p>
        <div class="wrap narrow">
          <Six />
        </div>
      </div>
    );
  const { trial, steps, done, now, count, running } = standing;
  return (
    <div class="page">
      <div class="ttl">
        <div>
          <h1>{says(standing)}</h1>
          <p class="sub">
            {trial.sample
              ? `A living sample${trial.hosts ? ` with ${num(trial.hosts)} simulated hosts` : ""}. `
              : ""}
            It is the real thing, on this machine only; stop it with <code>ctrl C</code>.
          </p>
        </div>
        <span class="sp" />
        <Button
          rank="gho"
          onClick={() => {
            hide(trial);
            go("/");
          }}
        >
          Hide the steps
        </Button>
      </div>
      <div class="lay start">
        <section class="panel first" aria-label="All steps">
          <header>
            <h2>First minutes</h2>
            <span class="sub hid">ticks by itself as you do it, here or in your terminal</span>
            <span class="sp" />
            <Meter
              parts={[[count, "good"]]}
              total={steps.length}
              label={`${count} of ${steps.length} steps are done`}
            />
          </header>
          <ol class="steps">
            {steps.map((step, nth) => {
              const is = done.has(step.key);
              const at = done.get(step.key);
              const href = placeOf(step, running);
              return (
                <li
                  key={step.key}
                  data-step={step.key}
                  data-done={is}
                  aria-current={step === now ? "step" : undefined}
                >
                  {is ? (
                    <Icon is="completed" of="good" size={20} />
                  ) : step === now ? (
                    <Icon is="decision" of="person" size={20} />
                  ) : (
                    <span class="num">{nth + 1}</span>
                  )}
                  <b class="strong">{step.title}</b>
                  <span class="at">
                    {is ? (
                      at ? (
                        time(at)
                      ) : (
                        "done"
                      )
                    ) : step === now ? (
                      "now"
                    ) : href ? (
                      <a href={url(href)}>{step.act}</a>
                    ) : (
                      ""
                    )}
                  </span>
                  {!is && <span class="s">{step.note}</span>}
                  {step === now && (
                    <span class="do">
                      {href && (
                        <a class="btn pri" href={url(href)}>
                          {step.act}
                        </a>
                      )}
                      {step.command && <Line>{step.command}</Line>}
                    </span>
                  )}
                </li>
              );
            })}
          </ol>
        </section>
        <div class="stack top">
          <div class="wrap">
            <Six />
          </div>
          <dl class="kv wrap in">
            <dt>here</dt>
            <dd class="m">{location.origin}</dd>
            <dt>store</dt>
            <dd class="m wrapt">
              <Text>{trial.store}</Text>
            </dd>
            <dt>later</dt>
            <dd>
              the same code with <code>postgresql://…</code>
            </dd>
            <dt>try it</dt>
            <dd>
              <code>kill -9</code> a worker: nothing acknowledged is lost
            </dd>
          </dl>
        </div>
      </div>
    </div>
  );
}
function Six(): JSX.Element {
  return (
    <div class="in stack">
      <div class="row">
        <h2>Yours, in six lines</h2>
        <span class="sp" />
        <Copy text={CODE} name="Copy the program" />
      </div>
      <pre class="well json">{CODE}</pre>
      <p class="sm sub">
        Save it as <code>hello.py</code>, then
      </p>
      <Line>holdfast worker hello:queue</Line>
      <Line>holdfast enqueue hello name=you --wait</Line>
    </div>
  );
}
