// The shared worker: one for all pages of this browser at this gateway.
import { Hub } from "./hub";
import type { FromPage } from "./messages";

const hub = new Hub();

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  const page = { send: (message: unknown) => port.postMessage(message) };
  port.onmessage = (sent: MessageEvent<FromPage>) => hub.receive(page, sent.data);
};
