// The Control Center: routes over the screens.
import "./styles/tokens.css";
import "./styles/components.css";
import "./styles/app.css";
import "./styles/fleet.css";
import { signal } from "@preact/signals";
import { render, type ComponentChildren, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { enter, signedIn, type Problem } from "./lib/api";
import { decoded, named, place, url } from "./lib/place";
import { clean, short } from "./lib/format";
import { mark } from "./lib/live";
import { Login } from "./screens/login";
import { ActDialog } from "./ui/act";
import { ConfirmDialog } from "./ui/confirm";
import { Icon } from "./ui/marks";
import { Button, Empty, NoPage, Skeleton, Text, Wrong } from "./ui/parts";
import { Shell } from "./ui/shell";

type Show = (rest: string) => ComponentChildren;
interface Screen {
  title: string;
  /** Brings the code of the screen: each is a separate file, so that the first load stays small. */
  bring: () => Promise<Show>;
}
const SCREENS: Record<string, Screen> = {
  "": {
    title: "Overview",
    bring: () => import("./screens/overview").then(({ Overview }) => () => <Overview />),
  },
  inbox: {
    title: "Inbox",
    bring: () => import("./screens/inbox").then(({ Inbox }) => (id) => <Inbox id={id} />),
  },
  tasks: {
    title: "Tasks",
    bring: () =>
      Promise.all([import("./screens/tasks"), import("./screens/task")]).then(
        ([{ Tasks }, { Task }]) =>
          (id) =>
            id ? <Task key={id} id={id} /> : <Tasks />,
      ),
  },
  "dead-letters": {
    title: "Dead letters",
    bring: () => import("./screens/dead").then(({ DeadLetters }) => () => <DeadLetters />),
  },
  queues: { title: "Queues", bring: () => import("./screens/queues").then(({ Queues }) => () => <Queues />) },
  schedules: {
    title: "Schedules",
    bring: () => import("./screens/schedules").then(({ Schedules }) => () => <Schedules />),
  },
  fleet: {
    title: "Jobs",
    bring: () =>
      Promise.all([
        import("./screens/jobs"),
        import("./screens/job"),
        import("./screens/command"),
        import("./screens/hosts"),
      ]).then(([{ Jobs }, { Job }, { NewCommand }, { Hosts, Host, Groups, Blocks }]) => (rest) => {
        const [part, ...id] = rest.split("/");
        if (part === "jobs" && id.length) return <Job key={id.join("/")} id={id.join("/")} />;
        if (part === "hosts" && id.length) return <Host key={id.join("/")} name={id.join("/")} />;
        return part === "new" ? (
          <NewCommand />
        ) : part === "hosts" ? (
          <Hosts />
        ) : part === "groups" ? (
          <Groups />
        ) : part === "blocks" ? (
          <Blocks />
        ) : part === "" || part === "jobs" ? (
          <Jobs />
        ) : (
          <div class="page">
            <NoPage />
          </div>
        );
      }),
  },
  nodes: {
    title: "Nodes",
    bring: () =>
      import("./screens/nodes").then(
        ({ Node, Nodes }) =>
          (id) =>
            id ? <Node key={id} id={id} /> : <Nodes />,
      ),
  },
  sync: { title: "Sync", bring: () => import("./screens/sync").then(({ Sync }) => () => <Sync />) },
  conflicts: {
    title: "Conflicts",
    bring: () => import("./screens/conflicts").then(({ Conflicts }) => (id) => <Conflicts id={id} />),
  },
  locks: { title: "Locks", bring: () => import("./screens/locks").then(({ Locks }) => () => <Locks />) },
  events: { title: "Events", bring: () => import("./screens/events").then(({ Events }) => () => <Events />) },
  operations: {
    title: "Operations",
    bring: () => import("./screens/operations").then(({ Operations }) => (id) => <Operations id={id} />),
  },
  start: { title: "Start", bring: () => import("./screens/steps").then(({ Start }) => () => <Start />) },
  settings: {
    title: "Settings",
    bring: () => import("./screens/settings").then(({ Settings }) => (tab) => <Settings tab={tab} />),
  },
};
const brought = signal<Record<string, Show>>({});
const failed = signal("");
function bring(name: string): void {
  const screen = SCREENS[name];
  if (!screen || brought.peek()[name]) return;
  screen.bring().then(
    (show) => {
      brought.value = { ...brought.value, [name]: show };
      if (failed.peek() === name) failed.value = "";
    },
    () => (failed.value = name),
  );
}
/** The other screens come when the first one is there, so that a click does not wait. */
const REST_MS = 1_500;
setTimeout(() => signedIn.value && Object.keys(SCREENS).forEach(bring), REST_MS);

function Shown({ name, rest }: { name: string; rest: string }): JSX.Element {
  const show = brought.value[name];
  const isAway = mark.value === "stale" || mark.value === "reconnecting";
  useEffect(() => void (isAway || bring(name)), [name, isAway]);
  if (show) return <>{show(rest)}</>;
  if (failed.value === name || isAway)
    return (
      <div class="page">
        {isAway ? (
          <Empty
            sign="stuck"
            of="warn"
            title={<h1>The gateway does not answer</h1>}
            command="holdfast doctor"
          >
            This screen was not loaded before. It comes when the gateway is back.
          </Empty>
        ) : (
          <Empty
            sign="stuck"
            of="warn"
            title={<h1>This page was built again</h1>}
            act={<Button onClick={() => location.reload()}>Load it</Button>}
          >
            The gateway has another version than this page.
          </Empty>
        )}
      </div>
    );
  return (
    <div class="page">
      <Skeleton rows={8} />
    </div>
  );
}
const WITH_CRUMBS = new Set(["tasks", "nodes"]);
const FLEET_PAGES: Record<string, string> = { hosts: "Hosts", groups: "Groups", blocks: "Blocks" };

function App(): JSX.Element {
  const [wrong, setWrong] = useState<Problem | null>(null);
  const begin = () => {
    setWrong(null);
    enter().catch((error: Problem) => setWrong(error));
  };
  useEffect(begin, []);
  const [, name = "", ...parts] = place.value.path.split("/");
  const rest = decoded(parts.join("/"));
  const screen = SCREENS[name];
  const [part = "", ...inside] = name === "fleet" ? rest.split("/") : [];
  const own = named.value.path === place.value.path ? named.value.name : "";
  const isOne = rest !== "" && (WITH_CRUMBS.has(name) || (inside.length > 0 && part !== "hosts"));
  const page = FLEET_PAGES[part] ?? screen?.title ?? "Not found";
  const what =
    part === "hosts" && inside.length
      ? inside.join("/")
      : isOne
        ? own || short(inside.join("/") || rest)
        : part === "new"
          ? "New command"
          : "";
  useEffect(() => {
    document.title = `${what ? `${clean(what)} · ` : ""}${page} · Holdfast`;
  }, [what, page]);
  if (wrong)
    return (
      <main class="login">
        <div class="panel">
          <Wrong error={wrong} retry={begin} />
        </div>
      </main>
    );
  if (signedIn.value === null) return <main class="login" aria-busy="true" />;
  if (!signedIn.value) return <Login />;
  const up = part === "hosts" ? "/fleet/hosts" : name === "fleet" ? "/fleet" : `/${name}`;
  const title = what ? (
    <>
      <a class="upl" href={url(up)}>
        <span>{page}</span>
      </a>
      <Icon is="right" size={12} />
      <b class={`cut ${isOne && !own ? "m" : ""}`}>
        <Text>{what}</Text>
      </b>
      {isOne && own && !own.includes(short(rest)) && <span class="m dim cid">{short(rest)}</span>}
    </>
  ) : (
    <b>{page}</b>
  );
  return (
    <>
      <Shell title={title}>
        {screen ? (
          <Shown name={name} rest={rest} />
        ) : (
          <div class="page">
            <NoPage />
          </div>
        )}
      </Shell>
      <ActDialog />
      <ConfirmDialog />
    </>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
