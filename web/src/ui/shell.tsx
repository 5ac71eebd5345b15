// The frame: navigation, bar, live mark, keys, and the tab bar of phones.
import type { ComponentChildren, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { everywhere, get, logout, may, who, type Page } from "../lib/api";
import { clock, dur, initials, num, person, serverNow, skew, tight, zoneName } from "../lib/format";
import { isOver, type JobRow, type OpenApproval } from "../lib/fleet";
import { allKeys, helpOpen, paletteOpen } from "../lib/keys";
import { caughtUpCount, connection, headOffset, held, mark, second, togglePause } from "../lib/live";
import { useLoad } from "../lib/load";
import { NAV, PLACES, type Counts, type Item } from "../lib/nav";
import { place, url } from "../lib/place";
import { density, theme, turnTheme, zone } from "../lib/prefs";
import type { ConflictRow, DecisionRow, Operation, Stats } from "../lib/types";
import { Brand, Icon } from "./marks";
import { Palette } from "./palette";
import { Button, Dialog, toast, Toasts } from "./parts";

const under = (path: string): boolean =>
  path === "/"
    ? place.value.path === "/"
    : place.value.path === path || place.value.path.startsWith(`${path}/`);
const OF_HOSTS = /^\/fleet\/(groups|blocks)/;
/** Whether the person is there, and not at a place of the navigation below it. */
const isHere = (path: string): boolean =>
  (under(path) &&
    !PLACES.some((item) => item.path.startsWith(`${path}/`) && under(item.path)) &&
    !(path === "/fleet" && OF_HOSTS.test(place.value.path))) ||
  (path === "/fleet/hosts" && OF_HOSTS.test(place.value.path));

const COUNTS_MS = 2_000;
const DOCTOR_MS = 60_000;
async function counts(signal: AbortSignal): Promise<Counts> {
  const none = { items: [] };
  const [stats, decisions, conflicts, operations, approvals, jobs] = await Promise.all([
    get<Stats>("/stats", signal),
    get<Page<DecisionRow>>("/decisions?q=state:open&limit=100", signal).catch(
      () => none as unknown as Page<DecisionRow>,
    ),
    get<Page<ConflictRow>>("/conflicts?q=state:open&limit=100", signal).catch(
      () => none as unknown as Page<ConflictRow>,
    ),
    get<Page<Operation>>("/operations?limit=50", signal).catch(() => none as unknown as Page<Operation>),
    get<Page<OpenApproval>>("/approvals?limit=100", signal).catch(
      () => none as unknown as Page<OpenApproval>,
    ),
    get<Page<JobRow>>("/jobs?limit=50", signal).catch(() => none as unknown as Page<JobRow>),
  ]);
  return {
    inbox:
      (may("decisions.decide") ? decisions.items.length : 0) +
      (may("jobs.approve") ? approvals.items.length : 0) +
      (may("conflicts.settle") ? conflicts.items.length : 0),
    jobs: jobs.items.filter((job) => !isOver(job)).length,
    dead: Number(stats.dead_letter_count ?? 0),
    conflicts: conflicts.items.length,
    operations: operations.items.filter((run) => run.state === "running").length,
  };
}

export function Shell({
  title,
  children,
}: {
  title: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  const found = useLoad(counts, "counts", COUNTS_MS).data;
  const shown = (item: Item): JSX.Element | null => {
    const n = item.count && found ? found[item.count] : 0;
    return n ? (
      <span class={`c ${item.kind ?? ""}`}>{n >= 100 && item.count !== "dead" ? "100+" : tight(n)}</span>
    ) : null;
  };
  useEffect(() => {
    void get<{ now: string }>("/about")
      .then((about) => (skew.value = Date.parse(about.now) - Date.now()))
      .catch(() => undefined);
  }, []);
  return (
    <div class="app">
      <a class="skip" href="#main">
        To the content
      </a>
      <nav class="nav" aria-label="Main">
        <a class="brand" href={url("/")}>
          <Brand />
          Holdfast
        </a>
        {NAV.map((item) =>
          typeof item === "string" ? (
            <h3>{item}</h3>
          ) : (
            <a href={url(item.path)} aria-current={isHere(item.path) ? "page" : undefined} title={item.name}>
              <Icon is={item.sign} />
              {item.name}
              {shown(item)}
            </a>
          ),
        )}
        <div class="foot">
          <a href={url("/settings")} aria-current={isHere("/settings") ? "page" : undefined} title="Settings">
            <Icon is="settings" />
            Settings
            <Doctor />
          </a>
        </div>
      </nav>
      <main class="main" id="main">
        <div class="bar">
          <div class="crumbs">{title}</div>
          <span class="sp" />
          <button type="button" class="find" onClick={() => (paletteOpen.value = true)}>
            <Icon is="search" />
            Search or run<kbd class="k">{/Mac|iP/.test(navigator.platform) ? "⌘K" : "ctrl K"}</kbd>
          </button>
          <LiveMark />
          <button
            type="button"
            class="clock sm dim m nw"
            title="UTC or the zone of this machine"
            onClick={() => (zone.value = zone.value === "utc" ? "local" : "utc")}
          >
            {clock(serverNow())} {zoneName()}
          </button>
          <Me />
        </div>
        <Stale />
        {children}
      </main>
      <TabBar inbox={found?.inbox ?? 0} />
      {paletteOpen.value && <Palette />}
      {helpOpen.value && <Keys />}
      <Toasts />
    </div>
  );
}

function Doctor(): JSX.Element | null {
  const checks = useLoad(
    may("stats.read") && everywhere() ? (signal) => get<Page<{ level: string }>>("/doctor", signal) : null,
    "doctor",
    DOCTOR_MS,
  ).data;
  if (!checks) return null;
  const broken = checks.items.filter((one) => one.level !== "ok" && one.level !== "warn").length;
  return broken ? (
    <span class="c b">{broken} broken</span>
  ) : (
    <span class="c good doc">
      <Icon is="check" size={12} />
      doctor
    </span>
  );
}

/** The one mark of how old the page is. */
function LiveMark(): JSX.Element {
  const now = connection.value;
  const gone = now.lostAt ? (second.value - now.lostAt) / 1000 : 0;
  const wait = Math.max(0, (now.retryAt - second.value) / 1000);
  switch (mark.value) {
    case "paused":
      return (
        <button type="button" class="live paused" data-mark="paused" title="Go on (p)" onClick={togglePause}>
          <Icon is="paused" of="hold" />
          <b>Paused by you</b>
          <span class="x">{held.value ? `${num(held.value)} changes wait` : "nothing new"}</span>
        </button>
      );
    case "reconnecting":
      return (
        <button type="button" class="live" data-mark="reconnecting" title="Try now" onClick={togglePause}>
          <Icon is="queued" of="idle" />
          <b>{now.lostAt ? "Reconnecting" : "Connecting"}</b>
          {now.attempt > 0 && (
            <span class="x">
              try {now.attempt}
              {wait >= 1 ? `, in ${dur(Math.round(wait))}` : ""}
            </span>
          )}
        </button>
      );
    case "stale":
      return (
        <button type="button" class="live stale" data-mark="stale" title="Try now" onClick={togglePause}>
          <Icon is="stuck" of="warn" />
          <b>Stale {dur(Math.floor(gone))}</b>
          <span class="x">since {clock(now.lostAt + skew.value)}</span>
        </button>
      );
    case "caught-up":
      return (
        <button type="button" class="live" data-mark="caught-up" onClick={togglePause}>
          <Icon is="completed" of="good" />
          <b>Caught up</b>
          <span class="x">{num(caughtUpCount())} events</span>
        </button>
      );
    default:
      return (
        <button
          type="button"
          class="live"
          data-mark="live"
          title="Position of the feed. Pause with p"
          onClick={togglePause}
        >
          <i />
          <b>Live</b>
          <span class="m x">{num(headOffset.value)}</span>
        </button>
      );
  }
}

function Stale(): JSX.Element | null {
  if (mark.value !== "stale") return null;
  return (
    <div class="strip" role="alert">
      <p class="banner warn">
        <Icon is="stuck" of="warn" />
        <span>
          <b class="strong">Stale since {clock(connection.value.lostAt + skew.value)}.</b> The gateway does
          not answer; numbers stay as they were. What you do is checked by the server.
        </span>
      </p>
    </div>
  );
}

function Me(): JSX.Element {
  const me = who.value;
  if (!me) return <span />;
  return (
    <details
      class="menu"
      onBlur={(event) => {
        if (!(event.currentTarget as HTMLElement).contains(event.relatedTarget as Element | null))
          (event.currentTarget as HTMLDetailsElement).open = false;
      }}
    >
      <summary aria-label={`You are ${person(me.name)}`}>
        <span class="who" aria-hidden="true">
          {initials(me.name)}
        </span>
      </summary>
      <div class="pop">
        <p>
          <b class="strong">{person(me.name)}</b>
          <br />
          <span class="dim sm">
            {me.roles.join(", ")} · {me.projects.includes("all") ? "all projects" : me.projects.join(", ")}
          </span>
        </p>
        <button type="button" onClick={turnTheme}>
          Light or dark<kbd class="k">t</kbd>
        </button>
        <button type="button" onClick={() => (theme.value = "system")}>
          Theme of the system
        </button>
        <button
          type="button"
          onClick={() => (density.value = density.value === "compact" ? "comfortable" : "compact")}
        >
          {density.value === "compact" ? "Comfortable rows" : "Compact rows"}
        </button>
        <button type="button" onClick={() => (zone.value = zone.value === "utc" ? "local" : "utc")}>
          {zone.value === "utc" ? "Times of this machine" : "Times in UTC"}
        </button>
        <button type="button" onClick={() => (helpOpen.value = true)}>
          All keys<kbd class="k">?</kbd>
        </button>
        <button
          type="button"
          onClick={() => void logout().catch((error: Error) => toast(error.message, "bad"))}
        >
          Log out
        </button>
      </div>
    </details>
  );
}

const TABS: Item[] = [
  { path: "/", name: "Overview", sign: "overview" },
  { path: "/inbox", name: "Inbox", sign: "inbox" },
  { path: "/tasks", name: "Tasks", sign: "tasks" },
  { path: "/fleet", name: "Fleet", sign: "jobs" },
];
function TabBar({ inbox }: { inbox: number }): JSX.Element {
  return (
    <nav class="tabbar" aria-label="Main, short">
      {TABS.map((tab) => (
        <a href={url(tab.path)} aria-current={under(tab.path) ? "page" : undefined}>
          <Icon is={tab.sign} />
          {tab.name}
          {tab.path === "/inbox" && inbox > 0 && <span class="c">{inbox}</span>}
        </a>
      ))}
      <button
        type="button"
        aria-current={TABS.some((tab) => under(tab.path)) ? undefined : "page"}
        onClick={() => (paletteOpen.value = true)}
      >
        <Icon is="more" />
        More
      </button>
    </nav>
  );
}

function Keys(): JSX.Element {
  return (
    <Dialog label="All keys" onClose={() => (helpOpen.value = false)}>
      <h2>Keys</h2>
      <dl class="keys">
        <div>
          <dt>
            <kbd class="k">ctrl K</kbd>
          </dt>
          <dd>Palette: go to, run, paste an id</dd>
        </div>
        {allKeys().map((key) => (
          <div>
            <dt>
              {(key.keys === " " ? "space" : key.keys).split(" ").map((one) => (
                <kbd class="k">{one}</kbd>
              ))}
            </dt>
            <dd>{key.what}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd class="k">esc</kbd>
          </dt>
          <dd>Back, close</dd>
        </div>
      </dl>
      <p class="row">
        <span class="sub sm">Shift and a letter changes state, and opens its preview first.</span>
        <span class="sp" />
        <Button onClick={() => (helpOpen.value = false)}>Close</Button>
      </p>
    </Dialog>
  );
}
