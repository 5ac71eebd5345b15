// Settings: doctor first, then tokens, roles, webhooks, projects and what runs.
import type { JSX } from "preact";
import { everywhere, get, who, type Page } from "../lib/api";
import { num, person, plural, time } from "../lib/format";
import { useLoad } from "../lib/load";
import { place, url } from "../lib/place";
import type { Project } from "../lib/types";
import { Icon, type Family, type Sign } from "../ui/marks";
import { Button, Command, Copy, Empty, NoPage, Shown, Text, Title, scrollable } from "../ui/parts";
import { Tokens } from "./tokens";
import { Webhooks } from "./webhooks";

const TABS: [string, string, Sign][] = [
  ["", "Doctor", "overview"],
  ["tokens", "Tokens", "key"],
  ["roles", "Roles", "person"],
  ["webhooks", "Webhooks", "link"],
  ["projects", "Projects", "queues"],
  ["about", "About", "info"],
];

/** On a phone the tabs scroll: the chosen one is in view. */
const inView = (link: HTMLElement | null): void =>
  link?.scrollIntoView({ block: "nearest", inline: "center" });

export function Settings({ tab }: { tab: string }): JSX.Element {
  return (
    <div class="setg">
      <nav class="subnav" aria-label="Settings">
        {TABS.map(([name, word, sign]) => (
          <a
            href={url(`/settings${name ? `/${name}` : ""}`)}
            aria-current={tab === name ? "page" : undefined}
            ref={tab === name ? inView : undefined}
          >
            <Icon is={sign} />
            {word}
          </a>
        ))}
      </nav>
      <div class="page">
        {tab === "tokens" ? (
          <Tokens />
        ) : tab === "roles" ? (
          <Roles />
        ) : tab === "webhooks" ? (
          <Webhooks />
        ) : tab === "projects" ? (
          <Projects />
        ) : tab === "about" ? (
          <About />
        ) : tab === "" ? (
          <DoctorPage />
        ) : (
          <NoPage />
        )}
      </div>
    </div>
  );
}

interface Check {
  name: string;
  level: string;
  text: string;
}
const LEVEL: Record<string, [Sign, Family]> = {
  ok: ["completed", "good"],
  warn: ["stuck", "warn"],
  fail: ["failed", "bad"],
  error: ["failed", "bad"],
};
const FIX: Record<string, [string, string]> = {
  "dead letters": ["/dead-letters", "Open dead letters"],
  pauses: ["/queues", "Open queues"],
  nodes: ["/nodes", "Open nodes"],
  waiting: ["/queues", "Open queues"],
  schedules: ["/schedules", "Open schedules"],
  types: ["/nodes", "Open nodes"],
  handlers: ["/nodes", "Open nodes"],
};
const CHECK_MS = 30_000;
/** The command that a check names, to copy. */
const commandIn = (text: string): string | undefined => {
  const queue = /^paused: '([^']+)'/.exec(text)?.[1];
  return queue ? `holdfast queue resume ${queue}` : /\bholdfast [a-z][^;,)`]*/.exec(text)?.[0].trim();
};
function DoctorPage(): JSX.Element {
  const loaded = useLoad(
    !everywhere()
      ? null
      : async (signal) => ({
          items: (await get<Page<Check>>("/doctor", signal)).items,
          at: new Date().toISOString(),
        }),
    "doctor page",
    CHECK_MS,
  );
  if (!everywhere())
    return (
      <>
        <Title>Doctor</Title>
        <div class="wrap">
          <Empty sign="overview" title="Doctor looks at all projects">
            Your token counts in {who.value?.projects.join(", ")} only.
          </Empty>
        </div>
      </>
    );
  const items = loaded.data?.items ?? [];
  const bad = items.filter((check) => LEVEL[check.level]?.[1] === "bad").length;
  const look = items.filter((check) => check.level === "warn").length;
  const rank = (check: Check) => ["bad", "warn", "good"].indexOf(LEVEL[check.level]?.[1] ?? "good");
  return (
    <>
      <Title
        acts={
          <Button rank="pri" onClick={loaded.reload}>
            Check now
          </Button>
        }
        sub={
          loaded.data
            ? `${plural(items.length, "check")}, at ${time(loaded.data.at)}. Checks change nothing.`
            : undefined
        }
      >
        {!loaded.data
          ? "Doctor"
          : bad
            ? `${plural(bad, "thing")} ${bad === 1 ? "is" : "are"} broken`
            : `Nothing is broken${look ? `, ${plural(look, "thing")} to look at` : ""}`}
      </Title>
      <Shown of={loaded}>
        {() => (
          <ul class="wrap doctor">
            {[...items]
              .sort((a, b) => rank(a) - rank(b))
              .map((check) => {
                const [sign, of] = LEVEL[check.level] ?? ["queued", "idle"];
                const isOk = check.level === "ok";
                const fix = isOk ? undefined : FIX[check.name];
                const run = isOk ? undefined : commandIn(check.text);
                return (
                  <li class={isOk ? "" : "odd"}>
                    <Icon is={sign} of={of} />
                    <b class="strong">{check.name}</b>
                    <span class={isOk ? "sub" : ""}>
                      <Text>{run ? check.text.replace(/[;:,]? see holdfast .*$/, "") : check.text}</Text>
                    </span>
                    {fix && (
                      <a class="btn sm" href={url(fix[0])}>
                        {fix[1]}
                      </a>
                    )}
                    {run && (
                      <code class="well one run">
                        <Text>{run}</Text>
                        <Copy text={run} name="Copy the command" />
                      </code>
                    )}
                  </li>
                );
              })}
          </ul>
        )}
      </Shown>
      <div class="gap">
        <Command>holdfast doctor</Command>
      </div>
    </>
  );
}

const TABLE: [string, string][] = [
  ["read tasks, output, events, stats", "viewer operator approver admin worker"],
  ["submit, edit, copy tasks", "operator admin worker"],
  ["abort, pause, resume, retry, reassign, release", "operator admin"],
  ["force a status", "admin"],
  ["pause queues; replay, discard; operations", "operator admin"],
  ["cordon, drain, quarantine, revoke nodes", "operator admin"],
  ["revoke locks; settle conflicts; write schedules", "operator admin"],
  ["answer decisions", "approver admin"],
  ["create and control jobs; hosts, groups, blocks", "operator admin"],
  ["approve jobs of other people", "approver admin"],
  ["start a job without its approval (audited, needs a review)", "admin"],
  ["save views and templates", "operator admin"],
  ["tokens, projects, webhooks, audit", "admin"],
];
function Roles(): JSX.Element {
  const names = ["viewer", "operator", "approver", "admin", "worker"];
  return (
    <>
      <Title sub="Roles add up; what no role allows is refused. The server checks each call.">Roles</Title>
      <div class="wrap scroll" ref={scrollable}>
        <table class="t rolest">
          <thead>
            <tr>
              <th>May</th>
              {names.map((name) => (
                <th class="ctr">{name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {TABLE.map(([what, who]) => (
              <tr>
                <td>{what}</td>
                {names.map((name) => (
                  <td class="ctr">
                    {who.split(" ").includes(name) ? (
                      <>
                        <Icon is="check" size={12} />
                        <span class="vh">yes</span>
                      </>
                    ) : (
                      <span class="dim">–</span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="sub gap">
        You are <b class="strong">{who.value?.roles.join(", ")}</b>, in{" "}
        {who.value?.projects.includes("all") ? "all projects" : who.value?.projects.join(", ")}.
      </p>
    </>
  );
}

function Projects(): JSX.Element {
  const loaded = useLoad((signal) => get<Page<Project>>("/projects", signal), "projects page", 2_000);
  return (
    <>
      <Title sub="A project isolates its tasks, and says how conflicts of its nodes are settled.">
        {loaded.data ? plural(loaded.data.items.length, "project") : "Projects"}
      </Title>
      <Shown of={loaded}>
        {(page) => (
          <div class="wrap scroll" ref={scrollable}>
            <table class="t">
              <thead>
                <tr>
                  <th>Project</th>
                  <th>Conflicts</th>
                  <th class="n">Clock</th>
                  <th class="n c2">Version</th>
                  <th class="whyc">Exceptions</th>
                </tr>
              </thead>
              <tbody>
                {page.items.map((project) => (
                  <tr>
                    <td>
                      <a class="strong" href={url(`/sync?project=${encodeURIComponent(project.id)}`)}>
                        <Text>{project.id}</Text>
                      </a>
                    </td>
                    <td>{project.strategy}</td>
                    <td class="n m">{num(project.clock)}</td>
                    <td class="n c2">{project.version}</td>
                    <td class="whyc m">
                      <Text>
                        {Object.entries(project.overrides)
                          .map(([type, strategy]) => `${type}: ${strategy}`)
                          .join(", ") || "–"}
                      </Text>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Shown>
    </>
  );
}

function About(): JSX.Element {
  const loaded = useLoad(
    (signal) => get<{ version: string; now: string }>("/about", signal),
    "about",
    10_000,
  );
  return (
    <>
      <Title sub="Holdfast sends nothing anywhere.">About</Title>
      <Shown of={loaded}>
        {(about) => (
          <div class="wrap">
            <dl class="kv in">
              <dt>version</dt>
              <dd>{about.version}</dd>
              <dt>store clock</dt>
              <dd class="m">{about.now}</dd>
              <dt>API</dt>
              <dd>
                <a class="lnk" href={url("/openapi.json")} target="_blank">
                  openapi.json
                </a>
                ,{" "}
                <a class="lnk" href={url("/asyncapi.json")} target="_blank">
                  asyncapi.json
                </a>
              </dd>
              <dt>you</dt>
              <dd>{person(who.value?.name)}</dd>
              <dt>here</dt>
              <dd class="m">
                {location.origin}
                {place.value.path && ""}
              </dd>
            </dl>
          </div>
        )}
      </Shown>
    </>
  );
}
