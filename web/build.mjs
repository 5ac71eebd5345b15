// Bundles the Control Center: one script, one style sheet, the worker that holds the live feed. File names carry
// the hash of their content; manifest.json names them.
import { createHash } from "node:crypto";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const out = process.argv[2] ?? "dist";
const SCRIPT_BYTES_MAX = 60_000;
const STYLE_BYTES_MAX = 15_000;

const common = {
  bundle: true,
  minify: true,
  write: false,
  target: ["chrome123", "firefox120", "safari17.5"],
  legalComments: "none",
  logLevel: "warning",
};
const hash = (data) => createHash("sha256").update(data).digest("hex").slice(0, 12);
const made = {};
const place = (name, data, extension) => {
  const file = `${name}-${hash(data)}.${extension}`;
  writeFileSync(join(out, file), data);
  made[name === "app" && extension === "css" ? "style" : name] = file;
  return gzipSync(data, { level: 9 }).length;
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const worker = await build({ ...common, entryPoints: ["src/feed/worker.ts"], format: "iife", outdir: "x" });
place("worker", worker.outputFiles[0].contents, "js");

// Charts are loaded by the screens that have some: they are no part of the first load.
const app = await build({
  ...common,
  entryPoints: ["src/app.tsx"],
  format: "esm",
  splitting: true,
  outdir: out,
  entryNames: "app",
  chunkNames: "part-[hash]",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".svg": "text" },
  metafile: true,
});
const outputs = Object.fromEntries(
  Object.entries(app.metafile.outputs).map(([path, output]) => [basename(path), output]),
);
const sizes = {};
const compressed = {};
for (const file of app.outputFiles) {
  const name = basename(file.path);
  compressed[name] = gzipSync(file.contents, { level: 9 }).length;
  if (name === "app.js") place("app", file.contents, "js");
  else if (name === "app.css") sizes.style = place("app", file.contents, "css");
  else writeFileSync(join(out, name), file.contents);
}
// What a browser loads before the first screen is there: the application and the largest of its screens.
const closure = (name, all = new Set()) => {
  if (all.has(name)) return all;
  all.add(name);
  for (const { path, kind } of outputs[name].imports)
    if (kind === "import-statement") closure(basename(path), all);
  return all;
};
const weight = (names) => [...names].reduce((sum, name) => sum + compressed[name], 0);
const core = closure("app.js");
const screens = outputs["app.js"].imports
  .filter(({ kind }) => kind === "dynamic-import")
  .map(({ path }) => closure(basename(path), new Set(core)));
sizes.core = weight(core);
sizes.script = Math.max(...screens.map(weight));
writeFileSync(join(out, "manifest.json"), JSON.stringify({ ...made, sizes }, null, 1) + "\n");
console.log(
  `  Control Center: ${sizes.script} bytes of script and ${sizes.style} of style at first load, compressed`,
);
if (sizes.script > SCRIPT_BYTES_MAX || sizes.style > STYLE_BYTES_MAX) {
  console.error(`  at most ${SCRIPT_BYTES_MAX} and ${STYLE_BYTES_MAX} are allowed`);
  process.exit(1);
}
