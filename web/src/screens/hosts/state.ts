// How a host is, in a word, a mark and a colour.
import type { HostRow } from "../../lib/fleet";
import { dur } from "../../lib/format";
import type { Family, Sign } from "../../ui/marks";

export const LIVE_MS = 1_500;

/** Where a host stands, as the server says it: word, mark, family, and why. */
export function hostState(host: HostRow): [string, Sign, Family, string] {
  switch (host.standing) {
    case "gone":
      return ["removed", "host-skipped", "idle", "It was removed and gets no commands."];
    case "cordoned":
      return ["cordoned", "host-blocked", "hold", "New jobs leave it out."];
    case "silent":
      return ["out of reach", "host-unreachable", "warn", `${lastHeard(host)} Commands wait for it.`];
    case "no_agent":
      return [
        "no agent yet",
        "host-unreachable",
        "idle",
        "No agent has enrolled for it. Commands wait until one does.",
      ];
    case "shut_out":
      return [
        "shut out",
        "host-blocked",
        "warn",
        "Its agent is quarantined or revoked. An operator has to admit it.",
      ];
    case "closed":
      return [
        "takes nothing",
        "host-blocked",
        "hold",
        "It answers, but takes nothing new: it drains, updates, is full, or its node is out of service.",
      ];
    case "busy":
      return ["busy", "host-running", "work", "A command runs; the next one waits for its slot."];
    default:
      return ["ready", "host-success", "good", "It takes the next command at once."];
  }
}

const lastHeard = (host: HostRow): string =>
  host.agent
    ? `Its agent was last heard ${dur(host.agent.seen_seconds_ago, true)} ago.`
    : "It could not be reached.";
