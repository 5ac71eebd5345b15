// Charts: a sparkline drawn by hand, and uPlot for those with axes, loaded when the first one is shown.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { minute } from "../lib/format";
import { isDark, theme, zone } from "../lib/prefs";
import type { Flow } from "../screens/overview/board";
import type { Family } from "./marks";

const [W, H] = [72, 26];
/** The last values without an axis; a number stands beside. */
export function Spark({ values: given, of }: { values: (number | null)[]; of: Family }): JSX.Element | null {
  const values = given.filter((value) => value !== null);
  const step = Math.max(1, Math.floor(values.length / 36));
  const means = Array.from({ length: Math.floor(values.length / step) }, (_, i) =>
    values.slice(i * step, (i + 1) * step).reduce((a, b) => a + b, 0),
  );
  if (means.length < 2) return null;
  const most = Math.max(1, ...means);
  const points = means.map(
    (value, index) =>
      `${(1 + (index * (W - 4)) / (means.length - 1)).toFixed(1)},${(H - 3 - (value / most) * (H - 6)).toFixed(1)}`,
  );
  const [x, y] = (points.at(-1) ?? "0,0").split(",");
  return (
    <svg width={W} height={H} class={of} aria-hidden="true">
      <polygon points={`1,${H} ${points.join(" ")} ${x},${H}`} fill="currentColor" opacity=".1" />
      <polyline
        points={points.join(" ")}
        fill="none"
        stroke="currentColor"
        stroke-width="1.4"
        stroke-linejoin="round"
      />
      <circle cx={x} cy={y} r="2.2" fill="currentColor" />
    </svg>
  );
}

/** A colour of the tokens as the canvas needs it. */
function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const YOUNG_SECONDS = 300;
/** Where the picture begins: with the first thing that happened, but at least some minutes ago. */
export function beginOf(flow: Flow): number {
  const all = Object.values(flow.series);
  const n = all[0]?.length ?? 0;
  let first = 0;
  while (first < n && all.every((series) => !series[first])) first++;
  return Math.max(0, Math.min(first - 1, n - Math.ceil(YOUNG_SECONDS / flow.seconds)));
}

/** The next round number above a value that halves to a round one: the highest line is the top of the picture. */
function roof(value: number): number {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 0.1)));
  return [1, 2, 4, 5, 6, 8, 10].map((n) => n * size).find((top) => top >= value * 1.02) ?? 10 * size;
}

const HEIGHT = 140;
/** Rates over time. The last bucket is not whole yet and is left out. */
export function Chart({
  flow,
  series,
  label,
}: {
  flow: Flow;
  series: [string, string][];
  label: string;
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<{ setData: (data: (number | null)[][]) => void; destroy: () => void } | null>(null);
  const skipped = beginOf(flow);
  const begin = Date.parse(flow.from) / 1000 + skipped * flow.seconds;
  const n = (Object.values(flow.series)[0]?.length ?? 1) - 1 - skipped;
  const data = [
    Array.from({ length: n }, (_, i) => begin + i * flow.seconds),
    ...series.map(([name]) =>
      Array.from({ length: n }, (_, i) => {
        const value = flow.series[name]?.[i + skipped];
        return value == null ? null : value / flow.seconds;
      }),
    ),
  ];
  const latest = useRef(data);
  latest.current = data;
  const look = `${theme.value}${isDark()}${zone.value}`;
  useEffect(() => {
    let over = false;
    let observer: ResizeObserver | undefined;
    void import("uplot").then(({ default: UPlot }) => {
      const place = box.current;
      if (over || !place) return;
      const font = `11px ${getComputedStyle(document.body).fontFamily}`;
      const [ink, grid] = [colour("ink-3"), colour("line")];
      const made = new UPlot(
        {
          width: place.clientWidth,
          height: HEIGHT,
          padding: [8, 20, 0, 0],
          legend: { show: false },
          cursor: { y: false, points: { show: false }, sync: { key: "holdfast" } },
          scales: { y: { range: (_u, _min, max) => [0, roof(max)] } },
          axes: [
            {
              stroke: ink,
              font,
              grid: { show: false },
              ticks: { show: false },
              size: 22,
              values: (_u, at) => at.map((one) => minute(one * 1000)),
              space: 90,
            },
            {
              stroke: ink,
              font,
              grid: { stroke: grid, width: 1 },
              ticks: { show: false },
              size: 40,
              splits: (u) => {
                const top = u.scales.y?.max ?? 1;
                return [0, top / 2, top];
              },
              values: (_u, at) => at.map((one) => String(Number(one.toFixed(3)))),
            },
          ],
          series: [
            {},
            ...series.map(([, of], index) => ({
              stroke: colour(of),
              width: 1.5,
              points: { show: false },
              ...(series.length === 1 || index === 0
                ? { fill: colour(of).replace(/rgb\(([^)]+)\)/, "rgba($1, 0.09)") }
                : {}),
            })),
          ],
        },
        latest.current as unknown as uPlot.AlignedData,
        place,
      );
      plot.current = made as unknown as typeof plot.current;
      observer = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: HEIGHT }));
      observer.observe(place);
    });
    return () => {
      over = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [look]);
  useEffect(
    () => plot.current?.setData(data),
    [JSON.stringify(data.slice(1).map((one) => one.slice(-3))), begin],
  );
  return <div class="chart" ref={box} role="img" aria-label={label} />;
}
