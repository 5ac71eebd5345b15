// Dead letters: grouped by cause, by type or one by one, with the replays that run.
import type { JSX } from "preact";
import { type Page, get } from "../../lib/api";
import { plural } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { param, setParams } from "../../lib/place";
import { EXECUTION } from "../../lib/rules";
import type { Group, Operation } from "../../lib/types";
import { act } from "../../ui/act";
import { Button, Empty, Gone, Seg, Shown, Title } from "../../ui/parts";
import { ByCause } from "./causes";
import { OneByOne } from "./one";
import { Replay } from "./replays";
import { ReplaySheet } from "./sheet";
import { ByType } from "./types";

export type By = "cause" | "type" | "one";

export function DeadLetters(): JSX.Element {
  const by = (param("by") || (param("q") ? "one" : "cause")) as By;
  const cause = param("cause");
  const groups = useLoad(
    (signal) => get<Page<Group>>("/dead-letters/groups?limit=200", signal),
    "groups",
    1_000,
  );
  const replays =
    useLoad(
      (signal) =>
        get<Page<Operation>>("/operations?limit=20", signal).then((page) =>
          page.items.filter((run) => run.action === "replay"),
        ),
      "replays",
      1_000,
      (runs) => runs.some((run) => run.state === "running"),
    ).data ?? [];
  const chosen = groups.data?.items.find((group) => group.fingerprint === cause);
  const total = groups.data?.items.reduce((sum, group) => sum + group.count, 0) ?? 0;
  return (
    <div class={chosen && by === "cause" ? "split" : "one"}>
      <div class="page">
        <Title
          sub="Tasks that rest in failed. They keep their payload and history until you replay or discard them."
          acts={
            total > 0 && (
              <Button
                right="dead.replay"
                onClick={() => act("replay", { query: `status:failed -type:${EXECUTION}`, count: total })}
              >
                Replay all…
              </Button>
            )
          }
        >
          {groups.data
            ? total === 0
              ? "No dead letters"
              : `${plural(total, "dead letter")}, ${plural(groups.data.items.length, "cause")}`
            : "Dead letters"}
        </Title>
        <div class="row">
          <Seg
            label="Grouped"
            value={by}
            onPick={(value) => setParams({ by: value === "cause" ? null : value, cause: null })}
            options={[
              ["cause", "By cause"],
              ["type", "By type"],
              ["one", "One by one"],
            ]}
          />
        </div>
        {groups.data && cause && !chosen && (
          <Gone
            what="cause"
            name={cause}
            why="its dead letters were replayed or discarded, or there were none"
          />
        )}
        {by === "one" ? (
          <OneByOne />
        ) : (
          <Shown of={groups}>
            {(page) =>
              page.items.length === 0 ? (
                <div class="wrap gap">
                  <Empty sign="letters" title="No dead letters" command="holdfast dlq groups">
                    A task comes here when its last attempt fails.
                  </Empty>
                </div>
              ) : by === "type" ? (
                <ByType groups={page.items} />
              ) : (
                <ByCause groups={page.items} chosen={cause} />
              )
            }
          </Shown>
        )}
        {replays.length > 0 && (
          <>
            <div class="sec">
              <h2>Replays</h2>
            </div>
            <ul class="wrap list">
              {replays.slice(0, 5).map((run) => (
                <Replay run={run} />
              ))}
            </ul>
          </>
        )}
      </div>
      {chosen && by === "cause" && (
        <ReplaySheet key={chosen.fingerprint} group={chosen} onClose={() => setParams({ cause: null })} />
      )}
    </div>
  );
}
