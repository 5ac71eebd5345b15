// The host matrix: one cell a host on a canvas, so that 10,000 of them stay fluid. Shape repeats what colour says.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { clean, dur } from "../lib/format";
import { OUTCOME_OF, outcomeOf, type Execution, type Outcome } from "../lib/fleet";
import { isDark, theme } from "../lib/prefs";
import { Icon, type Sign } from "./marks";

const SMALL_FROM = 2_000;
interface Cell { x: number; y: number; execution: Execution; outcome: Outcome }
interface Group { name: string; y: number; count: number }

function colours(): Record<string, string> {
  const probe = document.createElement("i");
  document.body.append(probe);
  const read = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const all: Record<string, string> = { on: read("on-fill"), bad: read("on-bad"), line: read("line-strong"), person: read("person-fill") };
  for (const [outcome, family] of Object.entries(OUTCOME_OF)) all[outcome] = outcome === "waiting" ? (all.line ?? "") : read(`${family}-fill`);
  probe.remove();
  return all;
}

function draw(c: CanvasRenderingContext2D, cell: Cell, size: number, of: Record<string, string>): void {
  const { x, y, outcome } = cell;
  const colour = of[outcome] ?? "";
  c.fillStyle = c.strokeStyle = colour;
  const frame = (width: number) => {
    c.lineWidth = width;
    c.strokeRect(x + width / 2, y + width / 2, size - width, size - width);
  };
  const line = (from: [number, number], to: [number, number], style: string, width = 1.5) => {
    c.strokeStyle = style;
    c.lineWidth = width;
    c.beginPath();
    c.moveTo(x + from[0] * size, y + from[1] * size);
    c.lineTo(x + to[0] * size, y + to[1] * size);
    c.stroke();
  };
  const big = size >= 8;
  if (outcome === "success") c.fillRect(x, y, size, size);
  else if (outcome === "failed") {
    c.fillRect(x, y, size, size);
    if (big) { line([0.25, 0.25], [0.75, 0.75], of.bad ?? ""); line([0.75, 0.25], [0.25, 0.75], of.bad ?? ""); }
  } else if (outcome === "timeout") {
    c.fillRect(x, y, size, size);
    if (big) { line([0.5, 0.2], [0.5, 0.55], of.on ?? ""); line([0.5, 0.55], [0.8, 0.55], of.on ?? ""); }
  } else if (outcome === "lost") frame(big ? 3 : 2);
  else if (outcome === "unknown") {
    frame(1.2);
    c.beginPath(); c.moveTo(x, y + size); c.lineTo(x + size, y); c.lineTo(x + size, y + size); c.fill();
  } else if (outcome === "unreachable") { frame(1.2); if (big) line([0.1, 0.9], [0.9, 0.1], colour, 1.2); }
  else if (outcome === "blocked") { frame(1.2); if (big) line([0.2, 0.5], [0.8, 0.5], colour, 2); }
  else if (outcome === "skipped") c.fillRect(x + size * 0.35, y + size * 0.35, size * 0.3, size * 0.3);
  else if (outcome === "running") { frame(1.2); c.fillRect(x + size / 2, y, size / 2, size); }
  else frame(1);
}

export type By = "wave" | "outcome" | "name";
const groupOf = (execution: Execution, by: By): string =>
  by === "wave" ? (execution.wave === null ? "later" : `wave ${execution.wave}`) : by === "outcome" ? outcomeOf(execution.status, execution.kind) : /^([a-z]+\d*)[-_.\d]/i.exec(execution.host)?.[1] ?? execution.host;

export function Matrix({ executions, by, only, onOpen }: { executions: Execution[]; by: By; only: Outcome | null; onOpen: (execution: Execution) => void }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(640);
  const [at, setAt] = useState(-1);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(Math.max(240, Math.floor(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const small = executions.length >= SMALL_FROM;
  const [size, pitch, left] = small ? [6, 8, 64] : [11, 14, 76];
  const columns = Math.max(8, Math.floor((width - left) / pitch));
  const grouped = new Map<string, Execution[]>();
  for (const execution of executions) {
    const name = groupOf(execution, by);
    const list = grouped.get(name);
    if (list) list.push(execution);
    else grouped.set(name, [execution]);
  }
  const cells: Cell[] = [];
  const groups: Group[] = [];
  let y = 2;
  for (const [name, list] of [...grouped].sort(([a], [b]) => Number(a === "later") - Number(b === "later") || a.localeCompare(b, "en", { numeric: true }))) {
    groups.push({ name, y, count: list.length });
    list.forEach((execution, index) => cells.push({ x: left + (index % columns) * pitch, y: y + Math.floor(index / columns) * pitch, execution, outcome: outcomeOf(execution.status, execution.kind) }));
    y += Math.max(Math.ceil(list.length / columns) * pitch, 30) + 10;
  }
  const height = y;
  const look = `${theme.value}${isDark()}`;
  const known = useRef<[string, Record<string, string>]>(["", {}]);
  useEffect(() => {
    const c = canvas.current?.getContext("2d");
    if (!c || !canvas.current) return;
    if (known.current[0] !== look) known.current = [look, colours()];
    const scale = devicePixelRatio || 1;
    canvas.current.width = width * scale;
    canvas.current.height = height * scale;
    canvas.current.style.height = `${height}px`;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, width, height);
    for (const cell of cells) {
      c.globalAlpha = only && cell.outcome !== only ? 0.18 : 1;
      draw(c, cell, size, known.current[1]);
    }
    c.globalAlpha = 1;
    const chosen = cells[at];
    if (chosen) {
      c.strokeStyle = known.current[1].person ?? "";
      c.lineWidth = 2;
      c.strokeRect(chosen.x - 2, chosen.y - 2, size + 4, size + 4);
    }
  });
  const find = (event: MouseEvent): number => {
    const place = canvas.current?.getBoundingClientRect();
    if (!place) return -1;
    const [px, py] = [event.clientX - place.left, event.clientY - place.top];
    return cells.findIndex((cell) => px >= cell.x && px < cell.x + pitch && py >= cell.y && py < cell.y + pitch);
  };
  const chosen = cells[at];
  return (
    <div class="matrix" ref={box}>
      {groups.map((group) => <span class="mx-g" style={{ top: `${group.y}px` }}><b class="strong">{clean(group.name)}</b><br /><span class="dim sm">{group.count}</span></span>)}
      <canvas ref={canvas} tabIndex={0} role="img" aria-label={`${executions.length} hosts${chosen ? `; ${chosen.execution.host}, ${chosen.outcome}` : ""}`}
        onPointerMove={(event) => setAt(find(event))} onPointerLeave={() => setAt(-1)}
        onClick={(event) => { const cell = cells[find(event)]; if (cell) onOpen(cell.execution); }}
        onKeyDown={(event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
          if (by) { event.preventDefault(); setAt(Math.max(0, Math.min(cells.length - 1, at + by))); }
          else if (event.key === "Enter" && chosen) onOpen(chosen.execution);
        }} />
      {chosen && <div class="tip mx-t" style={{ left: `${Math.min(chosen.x + pitch, width - 300)}px`, top: `${chosen.y + pitch + 2}px` }}><p class="row"><Icon is={`host-${chosen.outcome}` as Sign} of={OUTCOME_OF[chosen.outcome]} /><b class="strong">{clean(chosen.execution.host)}</b><span class="sp" /><span class="sub sm">{chosen.execution.exit_code !== null ? `exit ${chosen.execution.exit_code} · ` : ""}{chosen.execution.duration_seconds !== null ? dur(chosen.execution.duration_seconds) : chosen.execution.kind.replace(/_/g, " ")}</span></p>{chosen.execution.reason && <p class="sm sub">{clean(chosen.execution.reason)}</p>}</div>}
    </div>
  );
}
