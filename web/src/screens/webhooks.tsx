// Webhooks: endpoints that get events with their deliveries, and sources of signed requests.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get, may, missing, post, type Page, type Problem } from "../lib/api";
import { plural } from "../lib/format";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { param, setParams } from "../lib/place";
import { Refused } from "../ui/act";
import { confirm } from "../ui/confirm";
import { Icon, type Family, type Sign } from "../ui/marks";
import {
  Button,
  Dialog,
  Empty,
  Field,
  Gone,
  Seg,
  Shown,
  Text,
  Time,
  Title,
  toast,
  scrollable,
} from "../ui/parts";
import { Secret } from "./tokens";

interface Webhook {
  id: string;
  project: string;
  direction: "in" | "out";
  name: string;
  url: string;
  kinds: string[];
  state: "active" | "disabled";
  secrets: number;
  created_by: string;
  created_at: string;
  version: number;
  secret?: string | null;
}
interface Delivery {
  id: number;
  message_id: string;
  type: string;
  state: "waiting" | "done" | "failed";
  attempts: number;
  error: string;
  created_at: string;
  due_at: string | null;
  done_at: string | null;
  body: string;
}
type Made = { secret: string; of: string };

const READ_MS = 1_000;
const MARK: Record<Delivery["state"], [Sign, Family]> = {
  waiting: ["queued", "idle"],
  done: ["completed", "good"],
  failed: ["failed", "bad"],
};
const nameOf = (hook: Webhook): string => hook.name || hook.url;

export function Webhooks(): JSX.Element {
  const off = missing("webhooks.manage", "Managing webhooks");
  const loaded = useLoad(
    may("webhooks.manage") ? (signal) => get<Page<Webhook>>("/webhooks?limit=200", signal) : null,
    "webhooks",
    READ_MS,
  );
  const [adding, setAdding] = useState(false);
  const [made, setMade] = useState<Made | null>(null);
  if (off)
    return (
      <>
        <Title>Webhooks</Title>
        <div class="wrap">
          <Empty sign="link" title="Webhooks are for administrators">
            {off}
          </Empty>
        </div>
      </>
    );
  const rows = loaded.data?.items ?? [];
  const open = rows.find((hook) => hook.id === param("id"));
  return (
    <>
      <Title
        acts={
          <Button rank="pri" onClick={() => setAdding(true)}>
            New webhook…
          </Button>
        }
        sub="An endpoint gets signed events. A source sends signed requests for jobs. Both as in Standard Webhooks."
      >
        {loaded.data ? (rows.length ? plural(rows.length, "webhook") : "No webhooks") : "Webhooks"}
      </Title>
      {loaded.data && param("id") && !open && (
        <Gone what="webhook" name={param("id")} why="it was removed, or the link is wrong" />
      )}
      <Shown of={loaded}>
        {() =>
          rows.length === 0 ? (
            <div class="wrap">
              <Empty
                sign="link"
                title="No other system gets events"
                command="holdfast webhook add chat --to https://chat.example/hook --kind 'job.*'"
              >
                Each event of the kinds that you choose becomes one signed request, tried for three days.
              </Empty>
            </div>
          ) : (
            <div class="wrap scroll" ref={scrollable}>
              <table class="t">
                <thead>
                  <tr>
                    <th>Webhook</th>
                    <th>State</th>
                    <th class="c2">Project</th>
                    <th class="whyc">What</th>
                    <th class="n">Made</th>
                    <th class="n" />
                  </tr>
                </thead>
                <tbody>
                  {rows.map((hook) => (
                    <Row key={hook.id} hook={hook} isOpen={hook.id === open?.id} onSecret={setMade} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
      {open?.direction === "out" && <Deliveries key={open.id} hook={open} />}
      {adding && (
        <NewWebhook
          onClose={() => setAdding(false)}
          onMade={(secret) => {
            setAdding(false);
            setMade(secret);
          }}
        />
      )}
      {made && <Secret {...made} onClose={() => setMade(null)} />}
    </>
  );
}

function Row({
  hook,
  isOpen,
  onSecret,
}: {
  hook: Webhook;
  isOpen: boolean;
  onSecret: (made: Made) => void;
}): JSX.Element {
  const name = nameOf(hook);
  const at = `/webhooks/${hook.id}`;
  const isActive = hook.state === "active";
  const bound = { right: "webhooks.manage", body: { expected_version: hook.version } };
  const rotate = () =>
    confirm({
      ...bound,
      title: `Make another secret for ${name}?`,
      says: "Both count until the old one is retired: change the other side in between.",
      verb: "Make another secret",
      keep: "Keep it",
      path: `${at}/rotate`,
      done: "It has another secret. The one before counts until it is retired.",
      onDone: (answer) => {
        const { secret } = answer as Webhook;
        if (secret) onSecret({ secret, of: name });
      },
      command: `holdfast webhook rotate ${hook.id}`,
    });
  const retire = () =>
    confirm({
      ...bound,
      title: `Retire the old secret of ${name}?`,
      says: "Only the newest secret counts from now on.",
      verb: "Retire it",
      keep: "Keep both",
      path: `${at}/retire`,
      done: "Only the newest secret counts.",
      command: `holdfast webhook retire ${hook.id}`,
    });
  const turn = () =>
    confirm({
      ...bound,
      body: { ...bound.body, state: isActive ? "disabled" : "active" },
      title: `${isActive ? "Disable" : "Enable"} ${name}?`,
      says:
        hook.direction === "in"
          ? isActive
            ? "Its requests are refused."
            : "Its requests count again."
          : isActive
            ? "It gets no events. What waits for it is given up."
            : "It gets events from now on. Those of the time between are not delivered.",
      verb: isActive ? "Disable" : "Enable",
      keep: "Leave it",
      method: "PATCH",
      path: at,
      done: isActive ? "It is disabled." : "It is active.",
      command: `holdfast webhook edit ${hook.id} --state ${isActive ? "disabled" : "active"}`,
    });
  const remove = () =>
    confirm({
      title: `Remove ${name}?`,
      says:
        hook.direction === "in"
          ? "Its requests are refused for good."
          : "What waits for it is not delivered. Its deliveries are no longer listed.",
      verb: "Remove the webhook",
      keep: "Keep it",
      method: "DELETE",
      path: at,
      danger: true,
      right: "webhooks.manage",
      done: "It is removed.",
      command: `holdfast webhook remove ${hook.id}`,
    });
  return (
    <tr
      class={isOpen ? "open" : ""}
      data-row={hook.direction === "out" ? true : undefined}
      onClick={(event) => {
        if (hook.direction === "out" && !(event.target as HTMLElement).closest("button,summary,.pop"))
          setParams({ id: isOpen ? null : hook.id });
      }}
    >
      <td>
        <b class="strong">
          <Text>{name}</Text>
        </b>{" "}
        <span class="dim">{hook.direction === "in" ? "source" : "endpoint"}</span>
      </td>
      <td>
        <span class="st">
          <Icon is={isActive ? "completed" : "paused"} of={isActive ? "good" : "hold"} />
          <span>{hook.state}</span>
        </span>
        {hook.secrets > 1 && <span class="tag hold">{hook.secrets} secrets count</span>}
      </td>
      <td class="c2">
        <Text>{hook.project}</Text>
      </td>
      <td class="whyc m" title={hook.direction === "in" ? "" : hook.kinds.join(", ")}>
        {hook.direction === "in" ? (
          <code>
            <Text>{`POST /api/v1/webhook/jobs/${hook.name}`}</Text>
          </code>
        ) : (
          <Text>{`${hook.name ? `${hook.url} · ` : ""}${hook.kinds.join(", ") || "the usual kinds"}`}</Text>
        )}
      </td>
      <td class="n">
        <Time at={hook.created_at} as="age" />
      </td>
      <td class="n nw">
        {hook.direction === "out" && (
          <Button
            small
            rank="gho"
            name={`Test ${name}`}
            right="webhooks.manage"
            onClick={() => void test(hook)}
          >
            Test
          </Button>
        )}
        {hook.secrets > 1 ? (
          <Button small rank="gho" name={`Retire the old secret of ${name}`} onClick={retire}>
            Retire…
          </Button>
        ) : (
          <Button small rank="gho" name={`Rotate ${name}`} onClick={rotate}>
            Rotate…
          </Button>
        )}
        <Button small rank="gho" name={`${isActive ? "Disable" : "Enable"} ${name}`} onClick={turn}>
          {isActive ? "Disable…" : "Enable…"}
        </Button>
        <Button small rank="dan" name={`Remove ${name}`} onClick={remove}>
          Remove…
        </Button>
      </td>
    </tr>
  );
}

async function test(hook: Webhook): Promise<void> {
  try {
    await post(`/webhooks/${hook.id}/test`, {});
    setParams({ id: hook.id });
    afterAct();
    toast("A test is on its way. Its delivery is below.");
  } catch (error) {
    toast((error as Problem).message, "bad");
  }
}

function Deliveries({ hook }: { hook: Webhook }): JSX.Element {
  const loaded = useLoad(
    (signal) => get<Page<Delivery>>(`/webhooks/${hook.id}/deliveries?limit=50`, signal),
    `deliveries ${hook.id}`,
    READ_MS,
  );
  const again = async (one: Delivery) => {
    try {
      await post(`/webhooks/${hook.id}/deliveries/${one.id}/resend`, {});
      afterAct();
      toast("It is sent again, under its id.");
    } catch (error) {
      toast((error as Problem).message, "bad");
    }
  };
  return (
    <section>
      <div class="sec">
        <h2>Deliveries</h2>
        <span class="sub">
          <Text>{nameOf(hook)}</Text>, the newest first
        </span>
      </div>
      <Shown of={loaded} rows={3}>
        {(page) => (
          <div class="wrap scroll" ref={scrollable}>
            {page.items.length === 0 ? (
              <Empty sign="link" title="No delivery yet">
                An event of its kinds becomes one. Test sends a first one.
              </Empty>
            ) : (
              <table class="t">
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Event</th>
                    <th class="m">Message</th>
                    <th class="n">Tries</th>
                    <th class="n">Age</th>
                    <th class="whyc">What happened</th>
                    <th class="n" />
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((one) => (
                    <tr key={one.id}>
                      <td>
                        <span class="st">
                          <Icon is={MARK[one.state][0]} of={MARK[one.state][1]} />
                          <span>{one.state}</span>
                        </span>
                      </td>
                      <td class="strong">
                        <Text>{one.type}</Text>
                      </td>
                      <td class="m dim">{one.message_id.slice(-8)}</td>
                      <td class="n">{one.attempts}</td>
                      <td class="n">
                        <Time at={one.created_at} as="age" />
                      </td>
                      <td class="whyc" title={one.error || one.body}>
                        <Text>
                          {one.error ||
                            (one.state === "done"
                              ? "delivered"
                              : one.attempts
                                ? "tried again later"
                                : "waits")}
                        </Text>
                      </td>
                      <td class="n">
                        {one.state !== "waiting" && (
                          <Button
                            small
                            rank="gho"
                            name={`Send ${one.message_id.slice(-8)} again`}
                            right="webhooks.manage"
                            onClick={() => void again(one)}
                          >
                            Send again
                          </Button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
          </div>
        )}
      </Shown>
    </section>
  );
}

function NewWebhook({ onClose, onMade }: { onClose: () => void; onMade: (made: Made) => void }): JSX.Element {
  const [way, setWay] = useState<"out" | "in">("out");
  const [name, setName] = useState("");
  const [address, setAddress] = useState("https://");
  const [kinds, setKinds] = useState("");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      const body =
        way === "in" ? { name } : { name, url: address, kinds: kinds.split(/[\s,]+/).filter(Boolean) };
      const made = await post<Webhook>("/webhooks", body);
      afterAct();
      onMade({ secret: made.secret ?? "", of: nameOf(made) });
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  return (
    <Dialog label="New webhook" onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">New webhook</h2>
          <p class="sub">
            {way === "out"
              ? "Events go to an address, each signed."
              : "Another system asks for jobs, each request signed."}
          </p>
        </div>
        <Seg
          label="Direction"
          value={way}
          onPick={setWay}
          options={[
            ["out", "Endpoint: events go out"],
            ["in", "Source: requests come in"],
          ]}
        />
        {way === "out" && (
          <Field label="Address" help="https, and no private address unless the server allows it.">
            <input
              class="inp m"
              required
              autoFocus
              value={address}
              onInput={(event) => setAddress(event.currentTarget.value)}
            />
          </Field>
        )}
        <div class="two">
          <Field label={way === "in" ? "Name" : "Name, optional"}>
            <input
              class="inp"
              required={way === "in"}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </Field>
          {way === "out" && (
            <Field label="Kinds, optional" help="For example job.finished task.dead. Empty: the usual ones.">
              <input class="inp m" value={kinds} onInput={(event) => setKinds(event.currentTarget.value)} />
            </Field>
          )}
        </div>
        {wrong && <Refused error={wrong} />}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>Cancel</Button>
          <Button rank="pri" type="submit" right="webhooks.manage" name="Make the webhook">
            Make the webhook
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
