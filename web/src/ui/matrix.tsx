// All hosts of a job as one picture: a canvas whose cells are squares with the shapes of their outcomes. Only what
// changed is drawn again; a pointer or the arrow keys go from host to host.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../lib/api";
import {
  FAMILY_OF,
  lookOf,
  LOOKS,
  signOf,
  type Execution,
  type Look,
  type Matrix as Cells,
} from "../lib/fleet";
import { clean, dur, num, plural } from "../lib/format";
import { theme } from "../lib/prefs";
import { Icon } from "./marks";

interface Band {
  name: string;
  members: number[];
}
interface Layout {
  pitch: number;
  cell: number;
  columns: number;
  width: number;
  height: number;
  x: Float32Array;
  y: Float32Array;
  tops: number[];
  bands: Band[];
}

const GUTTER = 84;
const GAP = 8;
const MANY = 2_000;
const WASH_MS = 900;
const WASH_MAX = 400;
const LENS_CELL = 15;
const LENS_COLUMNS = 11;
const LENS_ROWS = 3;
const DETAIL_MS = 150;

/** How hosts are gathered: by a label, by the start of their names, by wave, by outcome. */
function bandsOf(cells: Cells, looks: Uint8Array, by: string): Band[] {
  const found = new Map<string, number[]>();
  const put = (name: string, nth: number) => {
    const members = found.get(name);
    if (members) members.push(nth);
    else found.set(name, [nth]);
  };
  const values = cells.labels[by];
  for (let nth = 0; nth < cells.hosts.length; nth++) {
    if (values) put(values[nth] || `no ${by}`, nth);
    else if (by === "wave") put(`wave ${cells.waves[nth] ?? "–"}`, nth);
    else if (by === "outcome") put(LOOKS[looks[nth] ?? 2] ?? "waiting", nth);
    else put(/^[^-._0-9]*[0-9]*(?=[-._])|^[^0-9]*/.exec(cells.hosts[nth] ?? "")?.[0] || "hosts", nth);
  }
  const rank = (name: string): number =>
    by === "outcome" ? LOOKS.indexOf(name as Look) : by === "wave" ? Number(name.slice(5)) : 0;
  return [...found]
    .map(([name, members]) => ({ name, members }))
    .sort((a, b) => rank(a.name) - rank(b.name) || a.name.localeCompare(b.name, "en", { numeric: true }));
}
export const looksOf = (cells: Cells): Uint8Array => {
  const at: Record<string, number> = {};
  for (const [letter, kind] of Object.entries(cells.kinds)) at[letter] = LOOKS.indexOf(lookOf(kind));
  return Uint8Array.from(cells.cells, (letter) => at[letter] ?? 6);
};

function layoutOf(bands: Band[], count: number, width: number): Layout {
  const isPhone = width < 480;
  const pitch = count <= MANY ? (isPhone ? 12 : 14) : count <= 5_000 ? 10 : isPhone ? 10 : 8;
  const cell = pitch - (pitch > 10 ? 3 : 2);
  const gutter = isPhone ? 0 : GUTTER;
  const columns = Math.max(1, Math.floor((width - gutter - (isPhone ? 20 : 14)) / pitch));
  const [x, y] = [new Float32Array(count), new Float32Array(count)];
  const tops: number[] = [];
  let top = 0;
  for (const band of bands) {
    if (isPhone) top += 20;
    tops.push(top);
    band.members.forEach((nth, index) => {
      x[nth] = gutter + (index % columns) * pitch;
      y[nth] = top + Math.floor(index / columns) * pitch;
    });
    // A name and a count need two lines.
    top += Math.max(isPhone ? 0 : 34, Math.ceil(band.members.length / columns) * pitch) + GAP;
  }
  return { pitch, cell, columns, width, height: Math.max(20, top - GAP), x, y, tops, bands };
}

const COLOUR: Record<Look, string> = {
  success: "good-fill",
  failed: "bad-fill",
  timeout: "warn-fill",
  lost: "doubt-fill",
  unknown: "doubt-fill",
  unreachable: "idle-fill",
  blocked: "idle-fill",
  skipped: "idle-fill",
  running: "work-fill",
  waiting: "line-strong",
};
/** Colours of the theme, resolved: `light-dark()` does not resolve in `getPropertyValue`. */
function colours(box: HTMLElement): (name: string) => string {
  const probe = document.createElement("i");
  probe.hidden = true;
  box.append(probe);
  const found: Record<string, string> = {};
  for (const name of [
    ...new Set(Object.values(COLOUR)),
    "on-fill",
    "on-bad",
    "surface",
    "flash",
    "person-fill",
  ]) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return (name) => found[name] ?? "#888";
}

/** The shape of an outcome in a square of this size. Small ones keep fill and frame, and lose what is cut out. */
function shape(
  c: CanvasRenderingContext2D,
  look: Look,
  size: number,
  colour: (name: string) => string,
): void {
  const box = (x: number, y: number, w: number, h: number, r = Math.min(2, size / 5)) => {
    c.beginPath();
    c.roundRect(x, y, w, h, r);
  };
  const path = (...points: number[]) => {
    c.beginPath();
    points.forEach(
      (p, i) =>
        i % 2 === 0 && (i % 4 === 0 ? c.moveTo : c.lineTo).call(c, p * size, (points[i + 1] ?? 0) * size),
    );
    c.stroke();
  };
  const isBig = size >= 8;
  c.fillStyle = c.strokeStyle = colour(COLOUR[look]);
  c.lineWidth = Math.max(1, size / 9);
  if (look === "success" || look === "failed" || look === "timeout") {
    box(0, 0, size, size);
    c.fill();
    if (look === "failed") {
      c.strokeStyle = colour("on-bad");
      c.lineWidth = Math.max(1, size / 7);
      path(0.28, 0.28, 0.72, 0.72, 0.72, 0.28, 0.28, 0.72);
    } else if (look === "timeout" && isBig) {
      c.strokeStyle = colour("on-fill");
      c.lineWidth = size / 7;
      path(0.5, 0.2, 0.5, 0.56, 0.46, 0.56, 0.8, 0.56);
    }
    return;
  }
  if (look === "lost") {
    const thick = Math.max(1.5, size / 4);
    c.lineWidth = thick;
    box(thick / 2, thick / 2, size - thick, size - thick, 1);
    return c.stroke();
  }
  if (look === "skipped") {
    box(size * 0.34, size * 0.34, size * 0.32, size * 0.32, 1);
    return c.fill();
  }
  const half = c.lineWidth / 2;
  box(half, half, size - 2 * half, size - 2 * half);
  c.stroke();
  if (look === "running") {
    box(size / 2, half, size / 2 - half, size - 2 * half, 1);
    c.fill();
  } else if (look === "unknown") {
    c.beginPath();
    c.moveTo(half, size - half);
    c.lineTo(size - half, half);
    c.lineTo(size - half, size - half);
    c.fill();
  } else if (look === "unreachable") path(0.15, 0.85, 0.85, 0.15);
  else if (look === "blocked") {
    c.lineWidth = Math.max(1.2, size / 5.5);
    path(0.22, 0.5, 0.78, 0.5);
  }
}

/** One picture of each outcome: drawing 10,000 hosts copies them. */
function spritesOf(size: number, ratio: number, colour: (name: string) => string): HTMLCanvasElement[] {
  return LOOKS.map((look) => {
    const sprite = document.createElement("canvas");
    sprite.width = sprite.height = Math.ceil(size * ratio);
    const c = sprite.getContext("2d", { willReadFrequently: true });
    if (c) {
      c.scale(ratio, ratio);
      shape(c, look, size, colour);
    }
    return sprite;
  });
}

const FADED = 0.16;
/** Draws all hosts at once: rows of pixels are copied, which is faster than 10,000 calls of the canvas. */
function paint(
  c: CanvasRenderingContext2D,
  layout: Layout,
  looks: Uint8Array,
  sprites: HTMLCanvasElement[],
  keep: number,
  ratio: number,
): void {
  const [width, height] = [c.canvas.width, c.canvas.height];
  const size = sprites[0]?.width ?? 0;
  const pixels = sprites.map((sprite, look) => {
    const data =
      sprite.getContext("2d", { willReadFrequently: true })?.getImageData(0, 0, size, size).data ??
      new Uint8ClampedArray(size * size * 4);
    if (keep >= 0 && look !== keep)
      for (let at = 3; at < data.length; at += 4) data[at] = (data[at] ?? 0) * FADED;
    const words = new Uint32Array(data.buffer);
    return Array.from({ length: size }, (_, row) => words.subarray(row * size, (row + 1) * size));
  });
  const image = c.createImageData(width, height);
  const words = new Uint32Array(image.data.buffer);
  for (let nth = 0; nth < looks.length; nth++) {
    const rows = pixels[looks[nth] ?? 2];
    const [x, y] = [Math.round((layout.x[nth] ?? 0) * ratio), Math.round((layout.y[nth] ?? 0) * ratio)];
    if (!rows || x + size > width || y + size > height) continue;
    for (let row = 0, at = y * width + x; row < size; row++, at += width)
      words.set(rows[row] as Uint32Array, at);
  }
  c.putImageData(image, 0, 0);
}

export function Matrix(props: {
  jobId: string;
  cells: Cells;
  by: string;
  only: Look | "";
  open: string;
  onOpen: (host: string) => void;
}): JSX.Element {
  const { cells, by, only, open } = props;
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  const [byKey, setByKey] = useState(false);
  const looks = useMemo(() => looksOf(cells), [cells.cells]);
  const bands = useMemo(
    () => bandsOf(cells, looks, by),
    [cells.hosts, by, by === "outcome" ? cells.cells : ""],
  );
  const layout = useMemo(() => layoutOf(bands, cells.hosts.length, width), [bands, width]);
  const drawn = useRef<{
    layout: Layout;
    looks: Uint8Array;
    only: string;
    dark: string;
    sprites: HTMLCanvasElement[];
    colour: (name: string) => string;
  } | null>(null);
  const [turn, setTurn] = useState(0);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setWidth(Math.floor(element.clientWidth));
    const observer = new ResizeObserver(look);
    observer.observe(element);
    look();
    const media = matchMedia("(prefers-color-scheme: dark)");
    const turned = () => setTurn((n) => n + 1);
    media.addEventListener("change", turned);
    const end = theme.subscribe(turned);
    return () => {
      observer.disconnect();
      media.removeEventListener("change", turned);
      end();
    };
  }, []);
  useLayoutEffect(() => {
    const surface = canvas.current;
    const c = surface?.getContext("2d");
    if (!surface || !c || width === 0) return;
    const began = performance.now();
    const ratio = devicePixelRatio || 1;
    const dark = `${getComputedStyle(document.documentElement).colorScheme} ${turn}`;
    const before = drawn.current;
    const isNew = !before || before.layout !== layout || before.dark !== dark || before.only !== only;
    const colour =
      before && before.dark === dark ? before.colour : colours(surface.parentElement ?? document.body);
    const sprites =
      before && before.dark === dark && before.layout.cell === layout.cell
        ? before.sprites
        : spritesOf(layout.cell, ratio, colour);
    const keep = only === "" ? -1 : LOOKS.indexOf(only);
    const put = (nth: number, wash: boolean) => {
      const [x, y, look] = [layout.x[nth] ?? 0, layout.y[nth] ?? 0, looks[nth] ?? 2];
      c.clearRect(x - 1, y - 1, layout.pitch, layout.pitch);
      if (wash) {
        c.fillStyle = colour("flash");
        c.fillRect(x - 1, y - 1, layout.pitch, layout.pitch);
      }
      c.globalAlpha = keep >= 0 && look !== keep ? FADED : 1;
      const sprite = sprites[look];
      if (sprite) c.drawImage(sprite, x, y, layout.cell, layout.cell);
      c.globalAlpha = 1;
    };
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (isNew) {
      surface.width = Math.ceil(width * ratio);
      surface.height = Math.ceil(layout.height * ratio);
      surface.style.height = `${layout.height}px`;
      c.setTransform(ratio, 0, 0, ratio, 0, 0);
      paint(c, layout, looks, sprites, keep, ratio);
      performance.measure("matrix", { start: began });
    } else {
      const changed: number[] = [];
      for (let nth = 0; nth < looks.length; nth++) if (looks[nth] !== before.looks[nth]) changed.push(nth);
      if (changed.length > WASH_MAX) paint(c, layout, looks, sprites, keep, ratio);
      const isWashed = changed.length <= WASH_MAX && !matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (changed.length <= WASH_MAX) for (const nth of changed) put(nth, isWashed);
      if (isWashed && changed.length)
        timer = setTimeout(
          () => drawn.current?.layout === layout && changed.forEach((nth) => put(nth, false)),
          WASH_MS,
        );
    }
    drawn.current = { layout, looks, only, dark, sprites, colour };
    return () => {
      if (timer === undefined) return;
      clearTimeout(timer);
      drawn.current = null;
    };
  }, [layout, looks, only, width, turn]);
  const find = (x: number, y: number): number => {
    for (let n = 0; n < layout.bands.length; n++) {
      const top = layout.tops[n] ?? 0;
      const band = layout.bands[n];
      if (!band || y < top) continue;
      const row = Math.floor((y - top) / layout.pitch);
      const column = Math.floor((x - (width < 480 ? 0 : GUTTER)) / layout.pitch);
      if (column < 0 || column >= layout.columns) continue;
      const index = row * layout.columns + column;
      if (row * layout.pitch < (layout.tops[n + 1] ?? Infinity) - top && index < band.members.length)
        return band.members[index] ?? -1;
    }
    return -1;
  };
  const order = useMemo(() => layout.bands.flatMap((band) => band.members), [layout]);
  const place = useMemo(() => {
    const where = new Int32Array(order.length);
    order.forEach((nth, index) => (where[nth] = index));
    return where;
  }, [order]);
  const move = (event: KeyboardEvent) => {
    const step: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: layout.columns,
      ArrowUp: -layout.columns,
    };
    let to = -1;
    if (event.key in step) {
      const from = at < 0 ? -1 : (place[at] ?? 0);
      const by = step[event.key] ?? 0;
      to = from < 0 ? 0 : from + by;
      // With a filter, the next one that matches.
      if (only)
        while (to >= 0 && to < order.length && LOOKS[looks[order[to] ?? 0] ?? 2] !== only)
          to += Math.sign(by);
      to = Math.max(0, Math.min(order.length - 1, to));
    } else if (event.key === "Home") to = 0;
    else if (event.key === "End") to = order.length - 1;
    else if (event.key === "Enter" && at >= 0) props.onOpen(cells.hosts[at] ?? "");
    else if (event.key === "Escape" && at >= 0 && !open) setAt(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (to >= 0) {
      setByKey(true);
      setAt(order[to] ?? -1);
    }
  };
  const openNth = open ? cells.hosts.indexOf(open) : -1;
  const summary = LOOKS.map(
    (look, n) => [look, looks.reduce((sum, one) => sum + (one === n ? 1 : 0), 0)] as const,
  )
    .filter(([, n]) => n > 0)
    .map(([look, n]) => `${num(n)} ${look}`)
    .join(", ");
  return (
    <div class="mx" ref={box}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`${plural(cells.hosts.length, "host")}: ${summary}. Arrow keys move between hosts, enter opens one.`}
        onKeyDown={move}
        onBlur={() => setAt(-1)}
        onPointerMove={(event) => {
          if (event.pointerType === "touch") return;
          setByKey(false);
          setAt(find(event.offsetX, event.offsetY));
        }}
        onPointerLeave={() => setAt(-1)}
        onClick={(event) => {
          const nth = find(event.offsetX, event.offsetY);
          if (nth >= 0) props.onOpen(cells.hosts[nth] ?? "");
        }}
      />
      {layout.bands.map((band, n) => (
        <p
          class="site"
          style={{ top: `${(layout.tops[n] ?? 0) + (width < 480 ? -20 : 0)}px` }}
          title={clean(band.name)}
        >
          <b>{clean(band.name)}</b>
          <span>{num(band.members.length)}</span>
        </p>
      ))}
      {[openNth, at].map(
        (nth, n) =>
          nth >= 0 &&
          width > 0 && (
            <i
              class={`ring1 ${n ? "" : "on"}`}
              style={{
                left: `${(layout.x[nth] ?? 0) - 3}px`,
                top: `${(layout.y[nth] ?? 0) - 3}px`,
                width: `${layout.cell + 6}px`,
                height: `${layout.cell + 6}px`,
              }}
            />
          ),
      )}
      <p class="vh" role="status">
        {byKey && at >= 0 ? `${cells.hosts[at]}, ${LOOKS[looks[at] ?? 2]}` : ""}
      </p>
      {at >= 0 && (
        <Tip
          key={cells.hosts[at]}
          jobId={props.jobId}
          nth={at}
          cells={cells}
          looks={looks}
          layout={layout}
          colour={drawn.current?.colour}
        />
      )}
    </div>
  );
}

function Tip(props: {
  jobId: string;
  nth: number;
  cells: Cells;
  looks: Uint8Array;
  layout: Layout;
  colour: ((name: string) => string) | undefined;
}): JSX.Element {
  const { nth, cells, looks, layout } = props;
  const host = cells.hosts[nth] ?? "";
  const look = LOOKS[looks[nth] ?? 2] ?? "waiting";
  const [found, setFound] = useState<Execution | null>(null);
  const lens = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const aborter = new AbortController();
    const timer = setTimeout(
      () =>
        void get<Execution>(`/jobs/${props.jobId}/executions/${encodeURIComponent(host)}`, aborter.signal)
          .then(setFound)
          .catch(() => undefined),
      DETAIL_MS,
    );
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, []);
  const band = layout.bands.find((one) => one.members.includes(nth));
  const withLens = cells.hosts.length > MANY && band !== undefined;
  useLayoutEffect(() => {
    const surface = lens.current;
    const c = surface?.getContext("2d");
    if (!surface || !c || !band || !props.colour) return;
    const ratio = devicePixelRatio || 1;
    const pitch = LENS_CELL + 3;
    surface.width = LENS_COLUMNS * pitch * ratio;
    surface.height = LENS_ROWS * pitch * ratio;
    c.scale(ratio, ratio);
    const index = band.members.indexOf(nth);
    for (let row = 0; row < LENS_ROWS; row++)
      for (let column = 0; column < LENS_COLUMNS; column++) {
        const near = index + (row - 1) * layout.columns + (column - Math.floor(LENS_COLUMNS / 2));
        const other = band.members[near];
        if (other === undefined) continue;
        c.save();
        c.translate(column * pitch + 1.5, row * pitch + 1.5);
        shape(c, LOOKS[looks[other] ?? 2] ?? "waiting", LENS_CELL, props.colour);
        if (other === nth) {
          c.strokeStyle = props.colour("person-fill");
          c.lineWidth = 1.5;
          c.strokeRect(-1.2, -1.2, LENS_CELL + 2.4, LENS_CELL + 2.4);
        }
        c.restore();
      }
  }, [looks, nth]);
  const [x, y] = [layout.x[nth] ?? 0, layout.y[nth] ?? 0];
  const left = Math.max(0, Math.min(layout.width - 340, x + layout.pitch + 8));
  return (
    <div class="tip mxtip" style={{ left: `${left}px`, top: `${y + layout.pitch + 8}px` }}>
      <p class="row">
        <Icon is={signOf(look)} of={FAMILY_OF[look]} />
        <b class="strong cut">{clean(host)}</b>
        <span class="sp" />
        <span class="sub nw">
          {found?.exit_code != null ? `exit ${found.exit_code}` : look}
          {found?.duration_seconds != null ? ` · ${dur(found.duration_seconds)}` : ""}
        </span>
      </p>
      {withLens && <canvas ref={lens} class="lens" aria-hidden="true" />}
      <p class="sm sub wrapt">{found ? clean(found.reason) : `wave ${cells.waves[nth] ?? "–"}`}</p>
    </div>
  );
}
