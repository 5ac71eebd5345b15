// The one dialog of all acts.
import type { JSX } from "preact";
import { ManyTasks } from "./many";
import { OneTask } from "./one";
import { acting } from "./open";

export function ActDialog(): JSX.Element | null {
  const now = acting.value;
  if (!now) return null;
  const close = () => (acting.value = null);
  if ("task" in now.target && now.verb !== "discard")
    return (
      <OneTask key={now.target.task.id + now.verb} verb={now.verb} task={now.target.task} onClose={close} />
    );
  const target = "task" in now.target ? { ids: [now.target.task.id] } : now.target;
  return <ManyTasks verb={now.verb} target={target} onClose={close} />;
}
