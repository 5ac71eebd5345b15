// Events and audit.
import type { JSX } from "preact";
import { param, setParams } from "../../lib/place";
import { Seg } from "../../ui/parts";
import { Audit } from "./audit";
import { Feed } from "./feed";

type Tab = "feed" | "audit";

export function Events(): JSX.Element {
  const tab = (param("tab") || "feed") as Tab;
  const pick = (
    <Seg
      label="Which"
      value={tab}
      onPick={(value) =>
        setParams({
          tab: value === "feed" ? null : value,
          at: null,
          before: null,
          q: null,
          after: null,
          open: null,
        })
      }
      options={[
        ["feed", "Feed"],
        ["audit", "Audit"],
      ]}
    />
  );
  return tab === "audit" ? <Audit pick={pick} /> : <Feed pick={pick} />;
}
