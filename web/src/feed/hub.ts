// Holds the one connection to the live feed for all pages of a browser.
//
// A page that watches a channel gets each of its events once: a subscription resumes from its last position, and a
// frame whose `prev` is not that position makes a new connection from there. Between events the head of the feed is
// asked for: a page reads its lists again when the head has moved.
import type { Frame, FromPage, State, ToPage } from "./messages";

const ASK_MS = 150;
const ASK_IDLE_MS = 5_000;
const SILENT_MS = 6_000;
const RETRY_MS = [300, 1_000, 2_000, 4_000, 8_000, 10_000];
const SIGNED_OUT = 4401;

interface Page {
  send(message: ToPage): void;
}

interface Client {
  channels: Map<string, string[] | undefined>;
  active: boolean;
}

interface Subscription {
  position: string | null;
  kinds: string[] | undefined;
}

const offset = (position: string | null): number => Number((position ?? "").split(":")[1] ?? 0);

export class Hub {
  private readonly clients = new Map<Page, Client>();
  private readonly subscriptions = new Map<string, Subscription>();
  private socket: WebSocket | null = null;
  private url = "";
  private state: State = "connecting";
  private attempt = 0;
  private retryAt = 0;
  private lostAt = 0;
  private caughtUp = 0;
  private reason = "";
  private head: string | null = null;
  /** The head before the connection was lost. The first answer after it says how much was missed. */
  private missedFrom: string | null = null;
  private heardAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private asker: ReturnType<typeof setInterval> | undefined;
  private asked = 0;

  receive(page: Page, message: FromPage): void {
    const client = this.clients.get(page);
    switch (message.type) {
      case "hello":
        this.clients.set(page, { channels: new Map(), active: true });
        if (this.url !== message.url || this.state === "out") {
          this.url = message.url;
          this.connect();
        } else this.tell(page);
        this.pace();
        break;
      case "watch":
        client?.channels.set(message.channel, message.kinds);
        this.subscribe(message.channel, message.kinds);
        break;
      case "unwatch":
        client?.channels.delete(message.channel);
        this.release(message.channel);
        break;
      case "mood":
        if (client) client.active = message.active;
        this.pace();
        break;
      case "retry":
        if (this.state !== "live") this.connect();
        break;
      case "bye":
        this.clients.delete(page);
        for (const channel of client?.channels.keys() ?? []) this.release(channel);
        this.pace();
        if (this.clients.size === 0) this.close();
    }
  }

  private connect(): void {
    this.close();
    clearTimeout(this.timer);
    if (this.state === "out") this.state = "connecting";
    const socket = new WebSocket(this.url, "holdfast.v1");
    this.socket = socket;
    this.heardAt = Date.now();
    socket.onmessage = (event) =>
      socket === this.socket && this.hear(JSON.parse(String(event.data)) as Frame);
    socket.onclose = (event) => socket === this.socket && this.lost(event.code, event.reason);
    this.pace();
  }

  private close(): void {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  private lost(code: number, reason: string): void {
    this.socket = null;
    if (this.state === "live" || this.lostAt === 0) this.lostAt = Date.now();
    this.reason = reason;
    if (code === SIGNED_OUT) {
      this.state = "out";
      return this.tellAll();
    }
    this.state = "lost";
    const base = RETRY_MS[Math.min(this.attempt, RETRY_MS.length - 1)] ?? 10_000;
    const wait = base * (0.8 + 0.4 * Math.random());
    this.attempt += 1;
    this.retryAt = Date.now() + wait;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.connect(), wait);
    this.tellAll();
  }

  private hear(frame: Frame): void {
    this.heardAt = Date.now();
    if (frame.type === "hello") return this.opened();
    if (frame.type === "pong") return this.atHead(frame.head ?? "");
    if (frame.type === "bye") return;
    const id = frame.id ?? "";
    const subscription = this.subscriptions.get(id);
    if (!subscription) return;
    if (frame.type === "reset" || frame.type === "error") {
      subscription.position = null;
      for (const [page, client] of this.clients)
        if (client.channels.has(id))
          page.send({
            type: "reset",
            channel: id,
            reason: String(frame.reason ?? frame.detail ?? frame.type),
          });
      if (frame.type === "reset" && frame.reason !== "revoked" && frame.reason !== "gone")
        this.ask(id, subscription);
      return;
    }
    if (frame.type === "subscribed") {
      subscription.position = frame.position ?? subscription.position;
      return;
    }
    if (!frame.position) return;
    if (frame.prev && subscription.position && frame.prev !== subscription.position) return this.connect();
    subscription.position = frame.position;
    if (frame.type === "bookmark") return;
    for (const [page, client] of this.clients)
      if (client.channels.has(id)) page.send({ type: "frame", channel: id, frame });
    this.atHead(frame.position);
  }

  private opened(): void {
    const wasLost = this.lostAt > 0;
    this.state = "live";
    this.attempt = 0;
    for (const [channel, subscription] of this.subscriptions) this.ask(channel, subscription);
    this.send({ type: "ping", n: ++this.asked });
    this.caughtUp = 0;
    this.missedFrom = wasLost ? this.head : null;
    this.lostAt = 0;
    this.tellAll();
  }

  private atHead(head: string): void {
    const from = this.missedFrom;
    this.missedFrom = null;
    if (from !== null) this.caughtUp = Math.max(0, offset(head) - offset(from));
    if (
      this.head === null ||
      offset(head) > offset(this.head) ||
      head.split(":")[0] !== this.head.split(":")[0]
    ) {
      this.head = head;
      for (const page of this.clients.keys()) page.send({ type: "head", head });
    }
    if (from !== null) this.tellAll();
  }

  private subscribe(channel: string, kinds: string[] | undefined): void {
    if (this.subscriptions.has(channel)) return;
    const subscription = { position: null, kinds };
    this.subscriptions.set(channel, subscription);
    if (this.state === "live") this.ask(channel, subscription);
  }

  private ask(channel: string, subscription: Subscription): void {
    const { position, kinds } = subscription;
    const wish: Record<string, unknown> = {
      type: "subscribe",
      id: channel,
      channel,
      position: position ?? "now",
    };
    if (kinds) wish.kinds = kinds;
    this.send(wish);
  }

  private release(channel: string): void {
    if ([...this.clients.values()].some((client) => client.channels.has(channel))) return;
    if (this.subscriptions.delete(channel) && this.state === "live")
      this.send({ type: "unsubscribe", id: channel });
  }

  private send(frame: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(frame));
  }

  private pace(): void {
    clearInterval(this.asker);
    if (this.clients.size === 0) return;
    const active = [...this.clients.values()].some((client) => client.active);
    this.asker = setInterval(
      () => {
        if (this.state === "live" && Date.now() - this.heardAt > SILENT_MS + (active ? 0 : 2 * ASK_IDLE_MS)) {
          this.close();
          this.lost(0, "the gateway does not answer");
        } else this.send({ type: "ping", n: ++this.asked });
      },
      active ? ASK_MS : ASK_IDLE_MS,
    );
  }

  private tell(page: Page): void {
    const { state, attempt, retryAt, lostAt, caughtUp, reason } = this;
    page.send({ type: "state", state, attempt, retryAt, lostAt, caughtUp, reason });
    if (this.head !== null) page.send({ type: "head", head: this.head });
  }

  private tellAll(): void {
    for (const page of this.clients.keys()) this.tell(page);
  }
}
