// Templates of commands that a project shares.
import type { JSX } from "preact";
import { Icon } from "../../ui/marks";
import { Text } from "../../ui/parts";
import { type Preset, dropPreset } from "../../ui/presets";

export function Templates({
  all,
  onPick,
}: {
  all: Preset[];
  onPick: (template: Preset) => void;
}): JSX.Element | null {
  if (all.length === 0) return null;
  const close = (event: Event) =>
    (event.currentTarget as Element).closest("details")?.removeAttribute("open");
  return (
    <details class="menu">
      <summary class="btn">
        From template
        <Icon is="down" size={12} />
      </summary>
      <div class="pop">
        {all.map((one) => (
          <div class="row popr">
            <button
              type="button"
              onClick={(event) => {
                close(event);
                onPick(one);
              }}
            >
              <Text>{one.name}</Text>
              <span class="dim sm">
                <Text>{String(one.body.command_type ?? "")}</Text>
              </span>
            </button>
            <button
              type="button"
              class="x"
              aria-label={`Remove the template ${one.name}`}
              onClick={(event) => {
                close(event);
                dropPreset(one);
              }}
            >
              <Icon is="close" size={12} />
            </button>
          </div>
        ))}
      </div>
    </details>
  );
}
