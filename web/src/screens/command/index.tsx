// A new command: where, what, how, with its plan beside it.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Page, type Problem, get, post } from "../../lib/api";
import { json } from "../../lib/exact";
import {
  type HostGroup,
  type Job,
  type JobAnswer,
  type Selection,
  digestShort,
  isOver,
} from "../../lib/fleet";
import { clean, num, plural, time } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { go, param, setParams, withParams } from "../../lib/place";
import { keepReason } from "../../lib/prefs";
import { Refused } from "../../ui/act";
import { Icon } from "../../ui/marks";
import { Button, Command, Empty, Field, Seg, Text, Title, toast } from "../../ui/parts";
import { SavePreset, usePresets } from "../../ui/presets";
import {
  DEFAULTS,
  FIELDS,
  Form,
  TYPES,
  amount,
  bodyOf,
  commandLine,
  formOf,
  formOfBody,
  templateOf,
} from "./form";
import { PLAN_MS, Planned, Spread } from "./plan";
import { Templates } from "./templates";

export function NewCommand(): JSX.Element {
  const [form, setForm] = useState<Form>(
    () => Object.fromEntries(FIELDS.map((name) => [name, param(name) || DEFAULTS[name]])) as Form,
  );
  const [plan, setPlan] = useState<(JobAnswer & { at: string; key: string }) | null>(null);
  const [chosen, setChosen] = useState<Selection | null>(null);
  const [where, setWhere] = useState<Problem | null>(null);
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [all, setAll] = useState(false);
  const templates = usePresets("template");
  const [saving, setSaving] = useState(false);
  const like = param("like");
  const before = useLoad(
    like ? (signal) => get<Job>(`/jobs/${encodeURIComponent(like)}`, signal) : null,
    `like ${like}`,
    600_000,
  ).data;
  useEffect(() => void (before && setForm((old) => ({ ...old, ...formOf(before) }))), [before?.id]);
  const groups =
    useLoad(
      (signal) =>
        get<Page<HostGroup>>(withParams("/groups", { limit: "100", project: form.project }), signal)
          .then((page) => page.items)
          .catch(() => [] as HostGroup[]),
      `groups ${form.project}`,
      60_000,
    ).data ?? [];
  const set = (name: keyof Form) => (event: { currentTarget: { value: string } }) =>
    setForm({ ...form, [name]: event.currentTarget.value });
  const type = TYPES[form.type];
  const needsCommand = form.type !== "other" && type?.label !== "";
  const { body, wrong: malformed } = bodyOf(form);
  const key = json({ ...body, reason: "" });
  const isReady =
    form.selector.trim() !== "" &&
    (!needsCommand || form.command.trim() !== "") &&
    (form.type !== "other" || form.other.trim() !== "") &&
    !malformed;
  // The address holds the form: it can be sent to someone, and back brings it again.
  useEffect(() => {
    const timer = setTimeout(
      () =>
        setParams(
          Object.fromEntries(FIELDS.map((name) => [name, form[name] === DEFAULTS[name] ? null : form[name]])),
          true,
        ),
      PLAN_MS,
    );
    return () => clearTimeout(timer);
  }, [JSON.stringify(form)]);
  useEffect(() => {
    let over = false;
    const selector = form.selector.trim();
    if (!selector) return (setChosen(null), setWhere(null));
    const timer = setTimeout(() => {
      get<Selection>(withParams("/hosts/select", { selector, project: form.project }))
        .then((found) => !over && (setChosen(found), setWhere(null)))
        .catch((error: Problem) => !over && (setChosen(null), setWhere(error)));
    }, PLAN_MS / 2);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [form.selector, form.project]);
  useEffect(() => {
    if (!isReady) return (setPlan(null), setWrong(null));
    let over = false;
    const timer = setTimeout(() => {
      post<JobAnswer>("/jobs", { ...body, dry_run: true })
        .then((found) => !over && (setPlan({ ...found, at: new Date().toISOString(), key }), setWrong(null)))
        .catch((error: Problem) => !over && (setPlan(null), setWrong(error)));
    }, PLAN_MS);
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [key]);
  const isFresh = plan?.key === key;
  const send = async (event: Event) => {
    event.preventDefault();
    if (!plan || !isFresh) return;
    setBusy(true);
    try {
      const made = await post<JobAnswer>("/jobs", body);
      keepReason(form.reason);
      toast(made.approval_state === "WAIT_APPROVAL" ? "It waits for approval." : "The first wave starts.");
      go(`/fleet/jobs/${made.job_id}`);
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  const needs = plan?.approval_state === "WAIT_APPROVAL";
  const runs = plan ? plan.hosts - plan.excluded.length : 0;
  return (
    <>
      <form class="split newc" onSubmit={send}>
        <div class="page stack">
          <Title
            sub={
              before ? (
                <>
                  As <Text>{before.external_id ?? before.command}</Text>
                  {isOver(before) ? "" : ", which still runs"}. Nothing runs before you have seen the plan.
                </>
              ) : (
                "Nothing runs before you have seen the plan."
              )
            }
            acts={
              <Templates
                all={templates}
                onPick={(one) => {
                  setForm(formOfBody(one.body));
                  toast(
                    <>
                      The form of{" "}
                      <b class="strong">
                        <Text>{one.name}</Text>
                      </b>
                      . Nothing runs yet.
                    </>,
                  );
                }}
              />
            }
          >
            New command
          </Title>
          <section class="panel">
            <header>
              <span class="num1">1</span>
              <h2>Where</h2>
              <span class="sp" />
              <span class="sm sub hid">pinned when you ask; hosts that join later are not added</span>
            </header>
            <div class="in stack">
              <Field
                label="Hosts"
                error={where?.message}
                help={chosen ? undefined : "role=web & env=production ! @drained, web-[001-120], *"}
              >
                <span class="inp">
                  <Icon is="search" of="dim" />
                  <input
                    class="m"
                    autoFocus
                    required
                    value={form.selector}
                    spellcheck={false}
                    autocomplete="off"
                    aria-invalid={where ? "true" : undefined}
                    onInput={set("selector")}
                  />
                  <span class={`u ${chosen ? "strong ink" : ""}`}>
                    {chosen ? plural(chosen.count, "host") : ""}
                  </span>
                </span>
              </Field>
              {groups.length > 0 && (
                <p class="row wrapf sm">
                  <span class="dim">Groups</span>
                  {groups.slice(0, 8).map((group) => (
                    <button
                      type="button"
                      class="tok"
                      title={group.selector}
                      onClick={() =>
                        setForm({
                          ...form,
                          selector: form.selector.trim()
                            ? `${form.selector.trim()}&@${group.name}`
                            : `@${group.name}`,
                        })
                      }
                    >
                      @<Text>{group.name}</Text>
                    </button>
                  ))}
                </p>
              )}
              {chosen && <Spread hosts={chosen.hosts} />}
              {chosen && chosen.count > 0 && (
                <p class="row top">
                  <code class={`sub min wrapt ${all ? "allh" : "cut"}`}>{clean(chosen.folded)}</code>
                  {chosen.folded.length > 90 && (
                    <>
                      <span class="sp" />
                      <button type="button" class="lnk nw" onClick={() => setAll(!all)}>
                        {all ? "Show less" : `Show all ${num(chosen.count)}`}
                      </button>
                    </>
                  )}
                </p>
              )}
              {chosen?.count === 0 && <p class="sm bad">No host matches. A job needs at least one.</p>}
            </div>
          </section>
          <section class="panel">
            <header>
              <span class="num1">2</span>
              <h2>What</h2>
              <span class="sp" />
              <Seg
                label="Type"
                value={form.type}
                onPick={(next) => setForm({ ...form, type: next })}
                options={[
                  ...Object.keys(TYPES).map((name) => [name, name] as [string, string]),
                  ["other", "other"],
                ]}
              />
            </header>
            <div class="in stack">
              {form.type === "other" && (
                <Field label="Command type" help="A type of the settings of the server">
                  <input class="inp m" value={form.other} spellcheck={false} onInput={set("other")} />
                </Field>
              )}
              {(needsCommand || form.type === "other") && (
                <Field label={type?.label || "Command"} help={type?.help}>
                  <input
                    class="inp m"
                    value={form.command}
                    spellcheck={false}
                    autocomplete="off"
                    onInput={set("command")}
                  />
                </Field>
              )}
              <div class="two">
                <Field label="Name, optional" help="The same name with the same body is the same job.">
                  <input class="inp" value={form.name} onInput={set("name")} />
                </Field>
                <Field label="Timeout">
                  <span class="inp">
                    <input
                      inputMode="numeric"
                      placeholder="default"
                      value={form.timeout}
                      onInput={set("timeout")}
                    />
                    <span class="u">s</span>
                  </span>
                </Field>
              </div>
              {form.type === "other" && (
                <Field label="Arguments" help="A JSON object" error={malformed || undefined}>
                  <input
                    class="inp m"
                    value={form.args}
                    placeholder='{"release": "1.4"}'
                    onInput={set("args")}
                  />
                </Field>
              )}
              {type && (
                <p class="row sm sub">
                  <Icon is={type.repeats ? "completed" : "info"} of={type.repeats ? "good" : "dim"} />
                  <span>
                    <b class="strong">{form.type}</b> {type.says}.{" "}
                    {type.repeats
                      ? "It may be repeated: a host that is lost is retried."
                      : "It runs at most once on each host; a host that is lost is not retried."}
                  </span>
                </p>
              )}
            </div>
          </section>
          <section class="panel">
            <header>
              <span class="num1">3</span>
              <h2>How</h2>
            </header>
            <div class="in stack">
              <div class="three">
                <Field label="Waves" help="Numbers or shares of the hosts, in order.">
                  <input class="inp m" value={form.waves} onInput={set("waves")} />
                </Field>
                <Field label="At once">
                  <span class="inp">
                    <input value={form.at_once} onInput={set("at_once")} />
                    <span class="u">hosts</span>
                  </span>
                </Field>
                <Field label="Rest between">
                  <span class="inp">
                    <input inputMode="numeric" placeholder="0" value={form.rest} onInput={set("rest")} />
                    <span class="u">s</span>
                  </span>
                </Field>
              </div>
              <fieldset class="four">
                <legend class="lab">
                  Budgets <span class="dim">of hosts; one more stops the job</span>
                </legend>
                {(
                  [
                    ["failed", "Failed"],
                    ["timed_out", "Timed out"],
                    ["lost", "Lost"],
                    ["unreachable", "Out of reach"],
                  ] as [keyof Form, string][]
                ).map(([name, word]) => (
                  <Field label={word}>
                    <span class="inp">
                      <input value={form[name]} placeholder="no limit" onInput={set(name)} />
                      <span class="u">
                        {typeof amount(form[name]) === "string" && chosen
                          ? num(Math.floor((Number.parseFloat(form[name]) * chosen.count) / 100))
                          : ""}
                      </span>
                    </span>
                  </Field>
                ))}
              </fieldset>
              <div class="two">
                <Field label="Between waves">
                  <select class="inp" value={form.gate} onChange={set("gate")}>
                    <option value="auto">continue</option>
                    <option value="ask">ask a person</option>
                  </select>
                </Field>
                <Field label="When a budget is full">
                  <select class="inp" value={form.breach} onChange={set("breach")}>
                    <option value="drain">stop; running hosts finish</option>
                    <option value="pause">pause until a person resumes</option>
                    <option value="abort">stop and end running hosts</option>
                  </select>
                </Field>
              </div>
              <Field label="Reason" help="Kept with your name.">
                <input class="inp" value={form.reason} onInput={set("reason")} />
              </Field>
            </div>
          </section>
        </div>
        <aside class="sheet plan" aria-label="Plan">
          <div class="row">
            <h2 class="big">Plan</h2>
            <span class="sub">{plan ? `at ${time(plan.at)}, nothing was changed` : ""}</span>
            <span class="sp" />
            {plan && (
              <code class="dim" title={plan.digest}>
                {digestShort(plan.digest)}
              </code>
            )}
          </div>
          {wrong ? (
            <div class="gap">
              <Refused error={wrong} />
            </div>
          ) : !plan ? (
            <Empty
              sign="jobs"
              title={
                !form.selector.trim()
                  ? "Say where first"
                  : where
                    ? "Say where it can be read"
                    : isReady
                      ? "The plan is being made"
                      : "Say what first"
              }
            >
              {isReady && !where
                ? "It reads the hosts, their blocks and the rules of approval."
                : "The plan is here as soon as hosts and a command are chosen."}
            </Empty>
          ) : (
            <Planned plan={plan} form={form} runs={runs} needs={needs} />
          )}
          <div class="planact">
            <Button
              rank="pri"
              type="submit"
              right="jobs.create"
              name={needs ? "Ask for approval" : "Run"}
              busy={busy}
              off={
                plan && isFresh ? (runs > 0 ? undefined : "No host would run it.") : "There is no plan yet."
              }
            >
              {plan ? (needs ? `Ask for approval of ${num(runs)}` : `Run on ${plural(runs, "host")}`) : "Run"}
            </Button>
            <Button
              right="presets.write"
              name="Save as template"
              off={isReady ? undefined : "Say where and what first."}
              onClick={() => setSaving(true)}
            >
              Save as template…
            </Button>
            <p class="sm sub">
              {needs
                ? "Bound to this plan. If hosts, blocks or the command change before it starts, the votes are void."
                : "The hosts are chosen again when you run it."}
            </p>
            {isReady && <Command>{commandLine(form)}</Command>}
          </div>
        </aside>
      </form>
      {saving && (
        <SavePreset
          kind="template"
          body={templateOf(body)}
          known={templates}
          first={form.name}
          onClose={() => setSaving(false)}
        />
      )}
    </>
  );
}
