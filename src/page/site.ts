/** Writes the page: a directory of static files that read CSV files in a browser and explain them, as `timeseer explain` does. */
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { DEFAULT_POLICY } from '../answer/reference.ts';
import { plotScripts } from '../explain/report-plot.ts';
import { ConfigError } from '../ground/errors.ts';
import { readUtf8, tidyUp, writeFilesAtomic } from '../ground/files.ts';
import { MANIFEST_FILE } from '../ground/manifest.ts';
import { packageRoot, policiesDirectory } from '../ground/paths.ts';
import { html, jsonBlock, page } from '../html/html.ts';
import { STYLE } from '../html/style.ts';

/** Reads a file and packs it as the Worker unpacks it: gzip in base64. */
const packed = (file: string): string => gzipSync(readFileSync(file), { level: 9 }).toString('base64');

const PLOTLY = 'plotly.js-basic-dist-min/plotly-basic.min.js';

/** Fields of options: name as in `timeseer explain`, label, example. */
const FIELDS = [
  ['column', 'Columns', 'names with commas; else all'],
  ['time', 'Column of time', 'detected automatically'],
  ['key', 'Column that separates series', 'such as host'],
  ['select', 'Series to read', 'its value in that column; * for all'],
  ['tz', 'Time zone of the stamps', 'such as Europe/Berlin'],
  ['decimal', 'Decimal mark', '. or ,'],
  ['rate', 'Counters to read as rates', 'names, or auto'],
  ['severity', 'Minimum severity', '1 to 100'],
] as const;

const PAGE_STYLE = `
html,body{height:100%}
body[data-view=start] #result,body[data-view=report] #start,body:not([data-view]) #result{display:none}
#drop{display:flex;flex-direction:column;align-items:center;gap:.5rem;border:2px dashed var(--rule);background:var(--card);padding:2rem 1rem;margin:0 0 1.2rem;text-align:center}
body.over #drop,#drop:focus-within{border-color:var(--accent)}
#drop p{margin:0}#drop .soft{color:var(--soft);font-size:.9rem}
button,.button{font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--rule);padding:.45rem .9rem;cursor:pointer}
button:disabled{color:var(--soft);cursor:default}
.button{background:var(--accent);border-color:var(--accent);color:var(--paper);font-weight:600}
input.hidden{position:absolute;opacity:0;width:1px;height:1px}input.hidden:focus-visible+.button{outline:2px solid var(--accent);outline-offset:2px}
.row{display:flex;flex-wrap:wrap;gap:.5rem .8rem;align-items:center;margin:0 0 1.2rem}
#options .fields{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,16rem),1fr));gap:.7rem 1.2rem;margin:0 0 .9rem}
#options label{font-size:.9rem}#options label code{color:var(--soft)}
#options .fields input,textarea{display:block;width:100%;font:inherit;color:var(--ink);background:var(--card);border:1px solid var(--rule);padding:.4rem .6rem;margin-top:.2rem}
#again{margin:0 0 1.2rem}
textarea{font-family:ui-monospace,monospace;font-size:.86em;height:9rem;margin-bottom:.6rem}
#problem{border-left:4px solid var(--bad);padding:.5rem .9rem;background:var(--card);max-width:none;overflow-wrap:anywhere}
#result{display:flex;flex-direction:column;height:100vh;height:100dvh}
#tools{display:flex;flex-wrap:wrap;align-items:center;gap:.4rem .7rem;padding:.5rem 1.5rem;border-bottom:1px solid var(--rule);font-size:.9rem}
#tools button{padding:.25rem .7rem}#file{font-weight:600;overflow-wrap:anywhere}
#status{flex:1 1 10rem;min-width:0;display:flex;flex-wrap:wrap;align-items:center;gap:.3rem .6rem;color:var(--soft)}#bar{width:8rem}
body:not([data-busy]) #cancel,body:not([data-busy]) #busy{display:none}
#note{margin:0;padding:.4rem 1.5rem;max-width:none;font-size:.9rem;border-bottom:1px solid var(--rule)}
#report{flex:1;border:0;width:100%;min-height:0}
@media (max-width:640px){#tools,#note{padding-left:1rem;padding-right:1rem}#file,#status:empty{display:none}#tools button{padding:.25rem .5rem}#drop{padding:1.3rem .8rem}}
`;

const body = (
  program: string,
  parts: Readonly<{ mount: Readonly<Record<string, string>>; build: string }>,
  webgpu: boolean,
) => html`<div id="start">
<header class="top"><h1>What is unusual in this recording?</h1>
<p class="lead">Give a CSV file of measurements. timeseer finds anomalies, ranks them and says why. The file is read in this browser and never leaves it.</p></header>
<main><p id="problem" role="alert" tabindex="-1" hidden></p>
<div id="drop"><input class="hidden" id="choose" type="file" accept=".csv,.tsv,.txt,.json,.jsonl,.log,text/*"><label class="button" for="choose">Choose a file</label>
<p>or drop one anywhere on this page, or paste it</p><p class="soft">CSV with a header, a column of time and columns of numbers; other layouts are recognised.</p></div>
<div class="row"><span>No file at hand?</span><button type="button" data-example="shop">A shop: requests and latency, 2 weeks</button><button type="button" data-example="cold">A cold store: temperature, 10 000 samples</button></div>
<button type="button" id="again" hidden>Analyse the same file again</button>
<details><summary>Paste a table</summary><form id="paste"><label for="text">Rows, separated by commas, semicolons or tabs</label><textarea id="text" spellcheck="false"></textarea><button>Analyse</button></form></details>
<details id="more"><summary>Options</summary><form id="options"><div class="fields">${FIELDS.map(
  ([name, label, example]) =>
    html`<label>${label} <code>--${name}</code><input name="${name}" placeholder="${example}" autocomplete="off" spellcheck="false"></label>`,
)}</div><p><label><input type="checkbox" id="ask" checked> Ask the policy <i>small</i> too (a neural network that looks at plots; a few seconds)</label></p></form></details>
<details><summary>What works where</summary><ul class="list">
<li>The page works from a web server and from a file, without a network: everything is in <code>index.html</code> and <code>policy.js</code>.</li>
<li>Findings are those of <code>timeseer explain</code>. The policy runs ${webgpu ? 'on the graphics card where the browser has WebGPU, else ' : ''}on the processor, in WebAssembly, on one thread${webgpu ? '' : '; a graphics card is not used'}.</li>
<li>Without WebAssembly, or without <code>policy.js</code> beside the page, the detector answers alone.</li>
<li>Limits: 100 MB a file, 2 million values. <code>npx timeseer explain</code> reads more.</li>
<li>Tested in Chromium. Firefox and Safari have all that it needs, but it was not tested there.</li></ul></details></main>
<footer>Written by timeseer. This page loads nothing from the network.</footer></div>
<div id="result"><div id="tools"><span id="file"></span><span id="busy"><span id="stage"></span> <progress id="bar" max="1" value="0" aria-label="Progress"></progress></span><button type="button" id="cancel">Cancel</button><span id="status" role="status"></span>
<button type="button" id="update" hidden>Show with the policy\u2019s answers</button><button type="button" id="json">Save JSON</button><button type="button" id="page">Save page</button><button type="button" id="other">Other file</button></div>
<p id="note" hidden></p><iframe id="report" title="Report"></iframe></div>
${jsonBlock('parts', { worker: program, ...parts })}`;

const FILES = ['index.html', 'policy.js', 'licenses.txt'] as const;

const GENERATOR = 'timeseer page';
/** Begins every page of this command, within the first characters. */
const MARK = `<meta name="generator" content="${GENERATOR}">`;

/** @throws ConfigError for a place at which something else is: it is kept */
function checkPlace(out: string): void {
  const stat = statSync(out, { throwIfNoEntry: false });
  if (stat === undefined && lstatSync(out, { throwIfNoEntry: false }) !== undefined)
    throw new ConfigError(
      `--out ${out}: a link that leads nowhere; remove the link, or name another directory with --out`,
    );
  let other: string | undefined = stat && out;
  if (stat?.isDirectory()) {
    // Remains of a write that was interrupted.
    tidyUp(out, (name) => FILES.some((file) => file === name));
    const entries = readdirSync(out, { withFileTypes: true });
    other = entries.find((entry) => !entry.isFile() || !FILES.some((file) => file === entry.name))?.name;
    const index = join(out, FILES[0]);
    if (other === undefined && !(existsSync(index) && readUtf8(index).slice(0, 1000).includes(MARK)))
      other = entries[0]?.name;
  }
  if (other !== undefined)
    throw new ConfigError(
      `--out ${out}: holds ${other}, which this command did not write; it is kept. Name a new directory with --out`,
    );
}

/**
 * Writes `index.html` (page, detector and report), `policy.js` (the policy small and its runtime, with WebGPU on request) and `licenses.txt`;
 * an earlier page is replaced, in the same directory. Returns paths and sizes in bytes.
 * @throws ConfigError for a place at which something else is; WriteError
 */
export function writeSite(
  out: string,
  { webgpu = false }: { readonly webgpu?: boolean } = {},
): { readonly path: string; readonly bytes: number }[] {
  checkPlace(out);
  const file = (name: string): string => join(packageRoot(), 'dist/page', name);
  if (!existsSync(file('worker.js')))
    throw new ConfigError('the programs of the page are not built; run `npm run build`');
  const policy = join(policiesDirectory(), DEFAULT_POLICY);
  const names = readdirSync(policy, { recursive: true, withFileTypes: true })
    // The sums of gzip guard the files on their way; those of the manifest take half a second in a browser.
    .filter(
      (entry) => entry.isFile() && !/\.(?:md|safetensors)$/.test(entry.name) && entry.name !== MANIFEST_FILE,
    )
    .map((entry) => join(entry.parentPath, entry.name));
  const weights = names.map((path) => [
    `/dist/policies/${DEFAULT_POLICY}/${path.slice(policy.length + 1).replaceAll('\\', '/')}`,
    packed(path),
  ]);
  const kind = webgpu ? '-webgpu' : '';
  const runtime = readFileSync(file(`onnxruntime${kind}.wasm.gz`)).toString('base64');
  const packedFiles = JSON.stringify({ '/onnxruntime.wasm': runtime, ...Object.fromEntries(weights) });
  const build = createHash('sha256').update(packedFiles).digest('hex').slice(0, 12);
  const within = {
    scripts: plotScripts(),
    sources: {
      'script-src': "'self' file: blob: 'wasm-unsafe-eval'",
      'worker-src': 'blob:',
      'frame-src': "'self'",
    },
  };
  const mount = { [`/node_modules/${PLOTLY}`]: packed(createRequire(import.meta.url).resolve(PLOTLY)) };
  const files: Readonly<Record<(typeof FILES)[number], string>> = {
    'index.html': page({
      generator: GENERATOR,
      title: 'timeseer: what is unusual in this recording?',
      style: `${STYLE}${PAGE_STYLE}`,
      body: body(readFileSync(file(`worker${kind}.js`), 'utf8'), { mount, build }, webgpu),
      scripts: [readFileSync(file('app.js'), 'utf8')],
      within,
    }),
    'policy.js': `globalThis.timeseerPolicy={"build":"${build}","files":${packedFiles}};\n`,
    'licenses.txt': readFileSync(file('licenses.txt'), 'utf8'),
  };
  // The directory itself stays: it may be a shell's current one, or a server's.
  writeFilesAtomic(FILES.map((name) => [join(out, name), files[name]]));
  return FILES.map((name) => ({ path: join(out, name), bytes: Buffer.byteLength(files[name]) }));
}
