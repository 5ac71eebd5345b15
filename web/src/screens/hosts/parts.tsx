// What the pages of hosts, groups and blocks share.
import type { JSX } from "preact";
import { url } from "../../lib/place";
import { Text } from "../../ui/parts";

export const Tabs = ({ at }: { at: "hosts" | "groups" | "blocks" }): JSX.Element => (
  <nav class="views fleetnav" aria-label="Fleet">
    {(
      [
        ["hosts", "Hosts"],
        ["groups", "Groups"],
        ["blocks", "Blocks"],
      ] as const
    ).map(([path, word]) => (
      <a href={url(`/fleet/${path}`)} aria-current={path === at ? "page" : undefined}>
        {word}
      </a>
    ))}
  </nav>
);

export const Labels = ({ of }: { of: Record<string, string> }): JSX.Element => (
  <span class="tags">
    {Object.entries(of).map(([key, value]) => (
      <span class="tag line">
        <Text>{`${key}=${value}`}</Text>
      </span>
    ))}
  </span>
);

// -- the list ----------------------------------------------------------------------------------------
