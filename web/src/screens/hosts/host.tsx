// One host: its agent, what runs there, its labels and blocks.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type Page, get, may, q } from "../../lib/api";
import {
  type BlockRow,
  type Host as HostView,
  type JobRow,
  commandOf,
  endedBar,
  endedOf,
  jobMark,
  jobPath,
  nameOf,
} from "../../lib/fleet";
import { dur, num, person, short } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { go, url, withParams } from "../../lib/place";
import { confirm } from "../../ui/confirm";
import { Icon } from "../../ui/marks";
import { Button, Command, Copy, Empty, Json, Meter, Shown, Text, Time, scrollable } from "../../ui/parts";
import { AddBlock } from "./block_add";
import { lift } from "./blocks";
import { Labels } from "./parts";
import { LIVE_MS, hostState } from "./state";

export function Host({ name }: { name: string }): JSX.Element {
  const loaded = useLoad(
    async (signal) => {
      const host = await get<HostView>(`/hosts/${q(name)}`, signal);
      const [blocks, jobs] = await Promise.all([
        get<Page<BlockRow>>(`/blocks?host=${q(host.id)}`, signal)
          .then((page) => page.items)
          .catch(() => [] as BlockRow[]),
        get<Page<JobRow>>(`/jobs?host=${q(host.id)}&limit=15`, signal)
          .then((page) => page.items)
          .catch(() => [] as JobRow[]),
      ]);
      return { host, blocks, jobs };
    },
    `host ${name}`,
    LIVE_MS,
  );
  return (
    <div class="page host">
      <Shown of={loaded} rows={8} isWhole>
        {(found) => <HostBody {...found} />}
      </Shown>
    </div>
  );
}

function HostBody({
  host,
  blocks,
  jobs,
}: {
  host: HostView;
  blocks: BlockRow[];
  jobs: JobRow[];
}): JSX.Element {
  const [word, sign, of, why] = hostState(host);
  const isCordoned = host.state === "cordoned";
  const [blocking, setBlocking] = useState(false);
  const turn = () =>
    confirm({
      title: `${isCordoned ? "Admit" : "Cordon"} ${host.name}?`,
      says: isCordoned ? "Jobs may choose it again." : "New jobs leave it out. What runs goes on.",
      verb: isCordoned ? "Admit the host" : "Cordon the host",
      keep: "Leave it",
      path: `/hosts/${q(host.name)}`,
      method: "PATCH",
      body: { state: isCordoned ? "active" : "cordoned", expected_version: host.version },
      needsReason: !isCordoned,
      right: "hosts.write",
      done: isCordoned ? "Jobs may choose it again." : "New jobs leave it out.",
      command: `holdfast host edit ${host.name} --state ${isCordoned ? "active" : "cordoned"}`,
    });
  return (
    <>
      <div class="ttl">
        <div class="min">
          <h1>
            <Text>{host.name}</Text>
          </h1>
          <p class="cmd">
            <span class={`tag ${of}`}>
              <Icon is={sign} of={of} size={12} />
              {word}
            </span>
            <Labels of={host.labels} />
          </p>
        </div>
        <span class="sp" />
        <div class="row wrapf acts">
          {may("jobs.create") && host.state === "active" && (
            <a class="btn" href={url(withParams("/fleet/new", { selector: host.name }))}>
              Run on it…
            </a>
          )}
          <Button right="blocks.write" name="Block" onClick={() => setBlocking(true)}>
            Block…
          </Button>
          {host.state !== "gone" && (
            <Button right="hosts.write" name={isCordoned ? "Admit" : "Cordon"} onClick={turn}>
              {isCordoned ? "Admit…" : "Cordon…"}
            </Button>
          )}
        </div>
      </div>
      <div class="why">
        <Icon is={sign} of={of} size={20} />
        <div>
          <p class="strong">
            {capitalWhy(word)}
            {blocks.length ? ", but blocked" : ""}
          </p>
          <p>
            {blocks.length && word === "ready" ? "Its agent answers; a block keeps commands off it." : why}
            {host.slot ? (
              <>
                {" "}
                It runs{" "}
                <a class="lnk m" href={url(`/tasks/${host.slot.execution_id}`)}>
                  {short(host.slot.execution_id)}
                </a>{" "}
                since <Time at={host.slot.since} />, token {host.slot.token}.
              </>
            ) : null}
          </p>
        </div>
      </div>
      {blocks.map((block) => (
        <p class="banner hold gap">
          <Icon is="host-blocked" of="hold" />
          <span>
            <b class="strong">
              A block {block.effect === "hold" ? "holds" : "refuses"}{" "}
              {block.command_type === "*" ? (
                "all commands"
              ) : (
                <code>
                  <Text>{block.command_type}</Text>
                </code>
              )}
            </b>
            : <Text>{block.reason}</Text>, by <Text>{person(block.owner)}</Text>
            {block.remaining_seconds !== null ? `, ${dur(block.remaining_seconds, true)} left` : ""}
          </span>
          <span class="sp" />
          <Button small right="blocks.write" name="Lift" onClick={() => lift(block)}>
            Lift…
          </Button>
        </p>
      ))}
      <div class="lay side-r">
        <div class="min">
          <section>
            <div class="sec">
              <h2>Jobs</h2>
              <span class="sub">the latest that have this host</span>
            </div>
            <div class="wrap">
              {jobs.length === 0 ? (
                <Empty
                  sign="jobs"
                  title="No job has run here"
                  command={`holdfast run uptime --hosts ${host.name} --plan`}
                />
              ) : (
                <div class="scroll" ref={scrollable}>
                  <table class="t">
                    <thead>
                      <tr>
                        <th>Job</th>
                        <th class="c2">Command</th>
                        <th class="n">Hosts</th>
                        <th>All hosts</th>
                        <th class="n">When</th>
                        <th />
                      </tr>
                    </thead>
                    <tbody>
                      {jobs.map((job) => {
                        const [mark, family, said] = jobMark(job);
                        const here = `${jobPath(job)}?host=${q(host.name)}`;
                        return (
                          <tr data-row key={job.id} onClick={() => go(here)}>
                            <td>
                              <span class="st">
                                <Icon is={mark} of={family} />
                                <a class="strong cut jn" href={url(here)}>
                                  <Text>{nameOf(job)}</Text>
                                </a>
                              </span>
                            </td>
                            <td class="m jc cut c2">
                              <Text>{commandOf(job)}</Text>
                            </td>
                            <td class="n">{num(job.hosts)}</td>
                            <td class="ob">
                              <Meter
                                parts={endedBar(job)}
                                total={job.hosts}
                                label={`${num(endedOf(job))} of ${num(job.hosts)} ended, ${said}`}
                              />
                            </td>
                            <td class="n">
                              <Time at={job.created_at} as="age" />
                            </td>
                            <td class="n">
                              <a class="lnk sm" href={url(here)}>
                                this host
                              </a>
                            </td>
                          </tr>
                        );
                      })}
                    </tbody>
                  </table>
                </div>
              )}
            </div>
          </section>
          <section class="gapl">
            <div class="sec">
              <h2>Facts</h2>
              <span class="sub">{Object.keys(host.facts).length ? "as its agent reported them" : ""}</span>
            </div>
            {Object.keys(host.facts).length ? (
              <Json value={host.facts} />
            ) : (
              <div class="wrap">
                <Empty
                  sign="info"
                  title="No facts yet"
                  command={`holdfast run --type facts --hosts ${host.name}`}
                >
                  The agent reports them when it starts, and when it is asked.
                </Empty>
              </div>
            )}
          </section>
        </div>
        <aside class="side">
          <section>
            <h2>About</h2>
            <dl class="kv">
              <dt>id</dt>
              <dd class="m">
                {short(host.id)}
                <Copy text={host.id} name="Copy the id" />
              </dd>
              <dt>driver</dt>
              <dd>{host.driver}</dd>
              {host.address && (
                <>
                  <dt>address</dt>
                  <dd class="m">
                    <Text>{host.address}</Text>
                  </dd>
                </>
              )}
              <dt>project</dt>
              <dd>{host.project}</dd>
              <dt>added</dt>
              <dd>
                <Time at={host.created_at} />
              </dd>
              <dt>version</dt>
              <dd>{host.version}</dd>
            </dl>
          </section>
          <section>
            <h2>Agent</h2>
            {host.agent ? (
              <dl class="kv">
                <dt>heard</dt>
                <dd>{dur(host.agent.seen_seconds_ago, true)} ago</dd>
                <dt>version</dt>
                <dd class="m">
                  <Text>{host.agent.version}</Text>
                </dd>
                <dt>incarnation</dt>
                <dd>{num(host.agent.incarnation)}</dd>
              </dl>
            ) : (
              <p class="sub">
                {host.driver === "agent" ? "None has enrolled." : `Reached by ${host.driver}.`}
              </p>
            )}
          </section>
          <section>
            <h2>Groups</h2>
            {host.groups.length ? (
              <p class="tags">
                {host.groups.map((group) => (
                  <a class="tag line" href={url(`/fleet/hosts?q=${q(`@${group}`)}`)}>
                    @<Text>{group}</Text>
                  </a>
                ))}
              </p>
            ) : (
              <p class="sub">In no group.</p>
            )}
          </section>
          <section>
            <Command>{`holdfast host show ${host.name}`}</Command>
          </section>
        </aside>
      </div>
      {blocking && <AddBlock host={host.name} onClose={() => setBlocking(false)} />}
    </>
  );
}

const capitalWhy = (word: string): string =>
  ({
    ready: "Ready",
    busy: "Busy",
    cordoned: "Cordoned",
    "out of reach": "Out of reach",
    "shut out": "Shut out",
    "takes nothing": "Takes nothing",
    "no agent yet": "No agent yet",
    removed: "Removed",
  })[word] ?? word;

// -- groups ------------------------------------------------------------------------------------------
