// Presets: views of tasks and templates of commands, kept by the server and shared by name.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ask, get, may, type Page, type Problem } from "../lib/api";
import { afterAct } from "../lib/live";
import { useLoad } from "../lib/load";
import { PRESET_NAME_MAX } from "../lib/rules";
import { confirm } from "./confirm";
import { Refused } from "./act";
import { Button, Dialog, Field, Text, toast } from "./parts";

type PresetKind = "view" | "template";
export interface Preset {
  project: string;
  kind: PresetKind;
  name: string;
  body: Record<string, unknown>;
  changed_by: string;
  changed_at: string;
  version: number;
}

const READ_MS = 5_000;
const path = (kind: PresetKind, name: string): string => `/presets/${kind}/${encodeURIComponent(name)}`;

export function usePresets(kind: PresetKind): Preset[] {
  return (
    useLoad(
      may("presets.read")
        ? (signal) => get<Page<Preset>>(`/presets?kind=${kind}`, signal).then((page) => page.items)
        : null,
      `presets ${kind}`,
      READ_MS,
    ).data ?? []
  );
}

/** Asks for a name and keeps the body under it. A name that is there is replaced, after a word of warning. */
export function SavePreset(props: {
  kind: PresetKind;
  body: Record<string, unknown>;
  known: Preset[];
  first?: string;
  onClose: () => void;
  onSaved?: (name: string) => void;
}): JSX.Element {
  const [name, setName] = useState(props.first ?? "");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const old = props.known.find((one) => one.name === name.trim());
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await ask("PUT", `/api/v1${path(props.kind, name.trim())}`, {
        body: props.body,
        expected_version: old?.version ?? 0,
        ...(old ? { project: old.project } : {}),
      });
      afterAct();
      toast(
        old ? `The ${props.kind} was replaced.` : `The ${props.kind} is there for everyone in the project.`,
      );
      props.onSaved?.(name.trim());
      props.onClose();
    } catch (error) {
      setWrong(error as Problem);
      setBusy(false);
    }
  };
  return (
    <Dialog label={`Save as ${props.kind}`} onClose={props.onClose}>
      <form class="stack" onSubmit={send}>
        <div>
          <h2 class="big">Save as {props.kind}</h2>
          <p class="sub">
            {props.kind === "view"
              ? "This search, under a name. Everyone in the project sees it above the list."
              : "This form, under a name. It starts nothing: a job from it is planned and approved as any other."}
          </p>
        </div>
        <Field
          label="Name"
          help={
            old ? (
              <>
                Replaces{" "}
                <b class="strong">
                  <Text>{old.name}</Text>
                </b>{" "}
                of <Text>{old.changed_by.replace(/^user:/, "")}</Text>.
              </>
            ) : undefined
          }
        >
          <input
            class="inp"
            required
            autoFocus
            maxLength={PRESET_NAME_MAX}
            autocomplete="off"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        {wrong && <Refused error={wrong} />}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={props.onClose}>Cancel</Button>
          <Button
            rank="pri"
            type="submit"
            right="presets.write"
            name="Save"
            busy={busy}
            off={name.trim() ? undefined : "Give a name first."}
          >
            {old ? "Replace" : "Save"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export const dropPreset = (preset: Preset, onDone?: () => void): void =>
  confirm({
    title: `Remove the ${preset.kind} ${preset.name}?`,
    says: "For everyone in the project. Nothing else changes.",
    verb: "Remove it",
    keep: "Keep it",
    path: path(preset.kind, preset.name),
    method: "DELETE",
    query: true,
    params: { project: preset.project },
    danger: true,
    right: "presets.write",
    done: "It is removed.",
    ...(onDone ? { onDone } : {}),
  });
