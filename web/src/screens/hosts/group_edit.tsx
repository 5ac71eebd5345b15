// A new group, or another selector of one, with the hosts that it would have.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type Problem, ask, get, post, q } from "../../lib/api";
import type { HostGroup, Selection } from "../../lib/fleet";
import { clean, plural } from "../../lib/format";
import { afterAct } from "../../lib/live";
import { Refused } from "../../ui/act";
import { Icon } from "../../ui/marks";
import { Button, Dialog, Field, Text, toast } from "../../ui/parts";

export function EditGroup({ group, onClose }: { group: HostGroup | null; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(group?.name ?? "");
  const [selector, setSelector] = useState(group?.selector ?? "");
  const [wrong, setWrong] = useState<Problem | null>(null);
  const send = async (event: Event) => {
    event.preventDefault();
    try {
      if (group)
        await ask("PATCH", `/api/v1/groups/${q(group.name)}`, { selector, expected_version: group.version });
      else await post("/groups", { name, selector });
      toast(group ? "The group was changed." : "The group is there.");
      afterAct();
      onClose();
    } catch (error) {
      setWrong(error as Problem);
    }
  };
  return (
    <Dialog label={group ? "Change the group" : "New group"} onClose={onClose}>
      <form class="stack" onSubmit={send}>
        <h2 class="big">
          {group ? (
            <>
              Change @<Text>{group.name}</Text>
            </>
          ) : (
            "New group"
          )}
        </h2>
        {!group && (
          <Field label="Name">
            <input
              class="inp"
              required
              autoFocus
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </Field>
        )}
        <Field label="Selector" help="role=web&env=prod, web-[001-050], @other">
          <input
            class="inp m"
            required
            spellcheck={false}
            value={selector}
            onInput={(event) => setSelector(event.currentTarget.value)}
          />
        </Field>
        <Preview selector={selector} />
        {wrong && <Refused error={wrong} />}
        <div class="row acts">
          <span class="sp" />
          <Button onClick={onClose}>Cancel</Button>
          <Button rank="pri" type="submit" right="hosts.write" name="Save">
            {group ? "Change it" : "Add the group"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** The hosts of a selector, as it is typed. */
export function Preview({ selector }: { selector: string }): JSX.Element | null {
  const [found, setFound] = useState<Selection | Problem | null>(null);
  useEffect(() => {
    let over = false;
    if (!selector.trim()) return setFound(null);
    const timer = setTimeout(
      () =>
        void get<Selection>(`/hosts/select?selector=${q(selector)}`).then(
          (one) => !over && setFound(one),
          (error: Problem) => !over && setFound(error),
        ),
      250,
    );
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [selector]);
  if (!found) return null;
  if ("code" in found)
    return (
      <p class="sm bad wrapt" role="status">
        <Text>{found.message}</Text>
      </p>
    );
  return (
    <ul class="dry" aria-label="Hosts">
      <li>
        <Icon is="nodes" of={found.count ? "idle" : "warn"} />
        <span class="m cut" title={found.folded.slice(0, 2_000)}>
          {clean(found.folded).slice(0, 300) || "no host"}
        </span>
        <b>{plural(found.count, "host")}</b>
      </li>
    </ul>
  );
}

// -- blocks ------------------------------------------------------------------------------------------
