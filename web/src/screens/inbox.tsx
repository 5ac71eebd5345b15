// Inbox: what waits for a person, as a list and one in full. Answers are bound to the version that was seen.
import { json, parse, unmarked } from "../lib/exact";
import type { JSX } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { get, may, missing, post, type Page, type Problem } from "../lib/api";
import { age, dur, num, person, plural, short, time } from "../lib/format";
import { nodeName } from "../lib/hosts";
import { nameOf, type OpenApproval } from "../lib/fleet";
import { screenKeys } from "../lib/keys";
import { afterAct, second } from "../lib/live";
import { useLoad } from "../lib/load";
import { go, param, setParams, url } from "../lib/place";
import { keepReason } from "../lib/prefs";
import type { ConflictRow, Decision, DecisionRow, Task } from "../lib/types";
import { Icon } from "../ui/marks";
import {
  Button,
  Command,
  Copy,
  Dialog,
  Empty,
  Field,
  Json,
  Seg,
  Shown,
  Text,
  Time,
  toast,
  Wrong,
} from "../ui/parts";
import { Refused } from "../ui/act";
import { sum } from "../ui/job_act";
import { JobApproval } from "./approval";

type Which = "me" | "all" | "decided";

export function Inbox({ id }: { id: string }): JSX.Element {
  const which = (param("show") || "me") as Which;
  const loaded = useLoad(async (signal) => {
    const [mine, all, decided, conflicts, approvals] = await Promise.all([
      get<Page<DecisionRow>>("/decisions?limit=100&q=state:open%20assignee:me", signal),
      get<Page<DecisionRow>>("/decisions?limit=100&q=state:open", signal),
      get<Page<DecisionRow>>("/decisions?limit=50&q=state:decided", signal),
      get<Page<ConflictRow>>("/conflicts?limit=100&q=state:open", signal).catch(() => ({
        items: [] as ConflictRow[],
      })),
      get<Page<OpenApproval>>("/approvals?limit=100", signal).catch(() => ({ items: [] as OpenApproval[] })),
    ]);
    const named = new Set(mine.items.map((one) => one.id));
    return {
      mine: may("decisions.decide")
        ? all.items.filter((one) => one.assignees.length === 0 || named.has(one.id))
        : [],
      all: all.items,
      decided: decided.items,
      conflicts: conflicts.items,
      approvals: approvals.items,
      readAt: Date.now(),
    };
  }, "inbox");
  const data = loaded.data;
  const rows = data ? (which === "me" ? data.mine : which === "all" ? data.all : data.decided) : [];
  // For me: what a role of mine may answer.
  const approvals =
    (data && (which === "all" || (which === "me" && may("jobs.approve"))) && data.approvals) || [];
  const conflicts =
    (data && (which === "all" || (which === "me" && may("conflicts.settle"))) && data.conflicts) || [];
  const forMe = data
    ? data.mine.length +
      (may("conflicts.settle") ? data.conflicts.length : 0) +
      (may("jobs.approve") ? data.approvals.length : 0)
    : "";
  const first = approvals[0]?.job_id ?? rows[0]?.id;
  const wide = matchMedia("(min-width: 721px)").matches;
  const open = id || (wide ? first : "");
  const since = data ? (second.value - data.readAt) / 1000 : 0;
  return (
    <div class={`box ${id ? "open" : ""}`}>
      <div class="list">
        <div class="hd">
          <h1 class="vh">Inbox</h1>
          <Seg
            label="Whose"
            value={which}
            onPick={(value) => setParams({ show: value === "me" ? null : value })}
            options={[
              ["me", `For me ${forMe}`],
              ["all", `All ${data ? data.all.length + data.conflicts.length + data.approvals.length : ""}`],
              ["decided", "Decided"],
            ]}
          />
        </div>
        <Shown of={loaded}>
          {() => (
            <>
              {approvals.map((one) => (
                <a
                  class="it"
                  data-row
                  href={url(`/inbox/${one.job_id}${location.search}`)}
                  aria-current={one.job_id === open ? "true" : undefined}
                >
                  <Icon is="decision" of="person" />
                  <b class="strong">
                    <Text>{`Approve ${nameOf(one.job)}`}</Text>
                  </b>
                  <span class="d">
                    {one.remaining_seconds !== null
                      ? `${dur(Math.max(0, one.remaining_seconds - since), true)} left`
                      : ""}
                  </span>
                  <span class="s">
                    <Text>{`${person(one.requested_by)} asks to run ${one.job.command_type} on ${plural(one.job.hosts, "host")}`}</Text>
                  </span>
                  <span class="p">
                    <span class="tag person">approval</span>
                    <span class="tag">{plural(sum(one.need), "vote")} needed</span>
                  </span>
                </a>
              ))}
              {rows.map((one) => (
                <a
                  class="it"
                  data-row
                  href={url(`/inbox/${one.id}${location.search}`)}
                  aria-current={one.id === open ? "true" : undefined}
                >
                  <Icon is="decision" of={one.state === "open" ? "person" : "idle"} />
                  <b class="strong">
                    <Text>{one.question}</Text>
                  </b>
                  <span class="d">
                    {one.state === "open" ? (
                      one.remaining_seconds !== null ? (
                        `${dur(Math.max(0, one.remaining_seconds - since), true)} left`
                      ) : (
                        ""
                      )
                    ) : (
                      <Time at={one.at} as="age" />
                    )}
                  </span>
                  <span class="s">
                    {one.state === "open" ? (
                      <>
                        task <span class="m">{short(one.task_id)}</span>
                      </>
                    ) : (
                      <Text>{`${String(one.choice)}, by ${person(one.by) || "the deadline"}`}</Text>
                    )}
                  </span>
                  <span class="p">
                    <span class="tag person">decision</span>
                    {one.options.length > 0 && (
                      <span class="tag">{plural(one.options.length, "option")}</span>
                    )}
                    {one.assignees.length > 0 && (
                      <span class="tag">
                        <Text>{one.assignees.map(person).join(", ")}</Text>
                      </span>
                    )}
                  </span>
                </a>
              ))}
              {conflicts.map((one) => (
                <a class="it" data-row href={url(`/conflicts/${one.id}`)}>
                  <Icon is="conflict" of="person" />
                  <b class="strong">
                    <Text>{one.client_id ?? short(one.task_id)}</Text>
                  </b>
                  <span class="d">
                    open <Time at={one.created_at} as="age" />
                  </span>
                  <span class="s">
                    <Text>{`${nodeName(one.node)} wrote on version ${one.base_version}, the server has ${one.server_version}`}</Text>
                  </span>
                  <span class="p">
                    <span class="tag person">conflict</span>
                  </span>
                </a>
              ))}
              {rows.length + conflicts.length + approvals.length === 0 && (
                <Empty
                  sign="inbox"
                  title={which === "decided" ? "No decisions yet" : "Nothing waits for you"}
                >
                  A task asks a person with <code>ctx.decide(question)</code>; it holds no worker while it
                  waits.
                </Empty>
              )}
            </>
          )}
        </Shown>
      </div>
      <div class="detw">
        {open ? (
          open.startsWith("job_") ? (
            <JobApproval key={open} id={open} />
          ) : (
            <One key={open} id={open} />
          )
        ) : data && rows.length + approvals.length === 0 ? (
          <Empty
            sign="inbox"
            title={conflicts.length ? "Choose a conflict to settle it" : "Nothing is open"}
          />
        ) : null}
      </div>
    </div>
  );
}

function One({ id }: { id: string }): JSX.Element {
  const loaded = useLoad(async (signal) => {
    const decision = await get<Decision>(`/decisions/${id}`, signal);
    const task = await get<Task>(`/tasks/${decision.task_id}`, signal).catch(() => null);
    return { decision, task, readAt: Date.now() };
  }, `decision ${id}`);
  if (!loaded.data && loaded.error) return <Wrong error={loaded.error} retry={loaded.reload} />;
  return <Shown of={loaded}>{(data) => <Detail key={data.decision.id} {...data} />}</Shown>;
}

function Detail({
  decision,
  task,
  readAt,
}: {
  decision: Decision;
  task: Task | null;
  readAt: number;
}): JSX.Element {
  const [seenVersion] = useState(decision.version);
  const [choice, setChoice] = useState<unknown>(undefined);
  const [text, setText] = useState("");
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const isOpen = decision.state === "open";
  const isFree = decision.options.length === 0;
  const left =
    decision.remaining_seconds === null ? null : decision.remaining_seconds - (second.value - readAt) / 1000;
  const off = missing("decisions.decide", "Deciding");
  const answer = isFree ? parsed(text) : choice;
  useLayoutEffect(() => {
    if (!isOpen) return;
    screenKeys.value = [
      ...decision.options.slice(0, 9).map((option, index) => ({
        keys: String(index + 1),
        what: `Choose “${unmarked(String(option))}”`,
        run: () => setChoice(option),
      })),
      { keys: "a", what: "Answer", run: () => setAsking(true) },
    ];
    return () => void (screenKeys.value = []);
  });
  const send = async (event?: Event) => {
    event?.preventDefault();
    setBusy(true);
    try {
      await post<Decision>(`/decisions/${decision.id}`, {
        choice: answer,
        reason,
        expected_version: seenVersion,
      });
      keepReason(reason);
      toast(`Decided: ${unmarked(String(answer))}. The task goes on.`);
      setAsking(false);
      afterAct();
      go("/inbox", { keep: true });
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  return (
    <>
      <article class="det">
        <button type="button" class="back btn gho" onClick={() => go("/inbox")}>
          <Icon is="left" />
          Inbox
        </button>
        <h1>
          <Text>{decision.question}</Text>
        </h1>
        <p class="sub">
          {task ? (
            <>
              <Text>{task.type}</Text> asks
            </>
          ) : (
            "A task asks"
          )}
          {decision.checkpoint ? `, ${time(decision.checkpoint.created_at)}` : ""}.{" "}
          {isOpen ? (
            left !== null ? (
              <>
                Without an answer by <b class="strong">{time(decision.deadline_at)}</b>{" "}
                {decision.default != null ? (
                  <>
                    “<Text>{unmarked(String(decision.default))}</Text>” is taken.
                  </>
                ) : (
                  "it expires, and the task fails."
                )}
              </>
            ) : (
              "It has no deadline and holds no worker."
            )
          ) : null}
        </p>
        {!isOpen && (
          <p class="banner person">
            <Icon is="decision" of="person" />
            <span>
              <b class="strong">
                {decision.state === "decided" ? (
                  <>
                    “<Text>{unmarked(String(decision.choice))}</Text>”
                  </>
                ) : (
                  decision.state
                )}
              </b>
              {decision.by ? (
                <>
                  , by <Text>{person(decision.by)}</Text>
                </>
              ) : null}{" "}
              <Time at={decision.at} />
              {decision.reason ? (
                <>
                  : “<Text>{decision.reason}</Text>”
                </>
              ) : null}
            </span>
          </p>
        )}
        {isOpen && decision.version !== seenVersion && (
          <p class="banner person">
            <Icon is="decision" of="person" />
            <span>
              <b class="strong">It changed since you opened it.</b> Look again before you answer.
            </span>
          </p>
        )}
        <div class="blast">
          <div>
            <span class="sm sub">Time left</span>
            <b>{isOpen ? (left === null ? "no end" : dur(Math.max(0, left), true)) : "–"}</b>
          </div>
          <div>
            <span class="sm sub">Waiting for</span>
            <b>{task ? dur(age(decision.checkpoint?.created_at ?? task.updated_at), true) : "–"}</b>
          </div>
          <div>
            <span class="sm sub">Attempt</span>
            <b>{task ? `${task.attempts} of ${task.max_attempts}` : "–"}</b>
          </div>
          <div>
            <span class="sm sub">Tasks behind it</span>
            <b>{task ? num(task.dependents.length) : "–"}</b>
          </div>
        </div>
        <div class="cols2">
          <div>
            {isOpen && (
              <section class="sect">
                <h2>Your answer</h2>
                {isFree ? (
                  <Field label="Answer" help="JSON, or text">
                    <textarea
                      class="inp"
                      rows={3}
                      value={text}
                      onInput={(event) => setText(event.currentTarget.value)}
                    />
                  </Field>
                ) : (
                  <div class="opts" role="radiogroup" aria-label="Options">
                    {decision.options.map((option, index) => (
                      <label class={choice === option ? "on" : ""}>
                        <input
                          type="radio"
                          name="choice"
                          checked={choice === option}
                          onChange={() => setChoice(option)}
                        />
                        <span>
                          <Text>{unmarked(String(option))}</Text>
                        </span>
                        {option === decision.default && <span class="tag">without an answer</span>}
                        <kbd class="k">{index + 1}</kbd>
                      </label>
                    ))}
                  </div>
                )}
              </section>
            )}
            {decision.checkpoint?.data != null && (
              <section class="sect">
                <h2>
                  What it shows{" "}
                  <span class="dim">
                    {decision.checkpoint.type === "decision" ? "" : decision.checkpoint.type}
                  </span>
                </h2>
                <Json value={decision.checkpoint.data} />
              </section>
            )}
            {decision.schema != null && (
              <section class="sect">
                <h2>Form of the data</h2>
                <Json value={decision.schema} />
              </section>
            )}
          </div>
          <div>
            <section class="sect">
              <h2>The task</h2>
              {task ? (
                <dl class="kv">
                  <dt>type</dt>
                  <dd>
                    <a class="strong" href={url(`/tasks/${task.id}`)}>
                      <Text>{task.type}</Text>
                    </a>
                  </dd>
                  <dt>id</dt>
                  <dd class="m">
                    {short(task.id)}
                    <Copy text={task.id} />
                  </dd>
                  <dt>queue</dt>
                  <dd>
                    <Text>{task.queue}</Text>
                  </dd>
                  <dt>project</dt>
                  <dd>{task.project}</dd>
                  <dt>version</dt>
                  <dd>{task.version}</dd>
                </dl>
              ) : (
                <p class="dim">It was removed.</p>
              )}
            </section>
            <section class="sect">
              <h2>Who may answer</h2>
              <p class="sub">
                {decision.assignees.length ? (
                  <Text>{decision.assignees.map(person).join(", ")}</Text>
                ) : (
                  "Anyone with the role approver."
                )}
              </p>
            </section>
            <section class="sect">
              <h2>What you answer</h2>
              <dl class="kv">
                <dt>decision</dt>
                <dd class="m">{short(decision.id)}</dd>
                <dt>version</dt>
                <dd>{seenVersion}</dd>
              </dl>
              <p class="sm sub">
                If it changes before your answer arrives, the answer is void and you are asked again.
              </p>
            </section>
            {task && (
              <section class="sect">
                <h2>Payload</h2>
                <Json value={task.payload} size={task.payload_bytes} />
              </section>
            )}
            <section class="sect">
              <Command>{`holdfast decision answer ${decision.id} ${answer === undefined ? "CHOICE" : json(answer)}`}</Command>
            </section>
          </div>
        </div>
      </article>
      {isOpen && (
        <div class="act">
          <input
            class="inp"
            placeholder="Reason, optional"
            aria-label="Reason, optional"
            value={reason}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
          <span class="sp" />
          {off && <span class="sm sub">{off}</span>}
          <Button
            rank="per"
            right="decisions.decide"
            name="Answer"
            off={answer === undefined ? "Choose an answer first." : undefined}
            onClick={() => setAsking(true)}
          >
            {answer === undefined ? "Answer…" : `Answer “${unmarked(String(answer)).slice(0, 24)}”…`}
            <kbd class="k">a</kbd>
          </Button>
        </div>
      )}
      {asking && answer !== undefined && (
        <Dialog label="Answer" kind="conf" onClose={() => setAsking(false)}>
          <form class="stack" onSubmit={(event) => void send(event)}>
            <div>
              <h2 class="big">
                Answer “<Text>{unmarked(String(answer))}</Text>”?
              </h2>
              <p class="sub">The task goes on with it at once. An answer cannot be taken back.</p>
            </div>
            <ul class="dry">
              <li>
                <Icon is="decision" of="person" />
                <span>
                  <Text>{decision.question}</Text>
                </span>
                <b />
              </li>
              <li>
                <Icon is="queued" of="idle" />
                <span>{task?.type ?? "the task"} is queued again</span>
                <b>{short(decision.task_id)}</b>
              </li>
            </ul>
            {wrong && <Refused error={wrong} />}
            <Field label="Reason, optional" help="Kept with your name.">
              <input class="inp" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
            </Field>
            <div class="row acts">
              <span class="sp" />
              <Button onClick={() => setAsking(false)}>Back</Button>
              <Button rank="per" type="submit" right="decisions.decide" name="Send the answer" busy={busy}>
                Answer “{unmarked(String(answer)).slice(0, 32)}”
              </Button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  );
}

function parsed(text: string): unknown {
  if (!text.trim()) return undefined;
  try {
    return parse(text);
  } catch {
    return text;
  }
}
