/** Program of the page: files and options go to the Worker, reports come back. Plain JavaScript, like every program that runs in a page. */
import { EXAMPLES } from './examples.js';

const $ = (id) => document.getElementById(id);
const parts = JSON.parse($('parts').textContent);
$('parts').remove();

/** Largest file that is read: a table of 2 million values is smaller. */
const MOST_BYTES = 100e6;

let worker;
/** File that is explained or was last: name and bytes. */
let file;
/** File that is being read; a slower one that was given before comes to nothing. */
let newest;
/** Report on the screen, as JSON text and page. */
let shown;
/** The report with the policy's answers, while a reader is within the one without. */
let waiting;
let touched = false;
/** Report without the policy's answers, shown if those take longer than a moment. */
let alone;

function show(view) {
  document.body.dataset.view = view;
  if (view === 'start') $('again').hidden = file === undefined;
}

function problem(text) {
  stop();
  $('problem').textContent = text;
  $('problem').hidden = false;
  // Where an option helps, it is in sight.
  if (/--[a-z]|^(?:severity|decimal):/.test(text)) $('more').open = true;
  show('start');
  $('problem').focus();
}

function stop() {
  worker?.terminate();
  worker = alone = newest = undefined;
  delete document.body.dataset.busy;
}

let policy;

/** Loads the policy's files, once: a script beside this page, since pages from files can read no other kind. */
function policyFiles() {
  policy ??= new Promise((resolve) => {
    const script = document.createElement('script');
    script.src = 'policy.js';
    const fail = (problem) =>
      resolve(`policy.js ${problem}; copy it here again from where the page was written`);
    // A script that was cut off does not run.
    script.onload = () =>
      globalThis.timeseerPolicy ? resolve(globalThis.timeseerPolicy) : fail('beside this page is damaged');
    script.onerror = () => fail('is not beside this page, or cannot be loaded');
    document.head.append(script);
  });
  return policy;
}

/** Opens the policy while its user looks for a file. */
function prepare() {
  const made = started();
  if (made.hasPolicy || !$('ask').checked) return;
  made.hasPolicy = true;
  policyFiles().then((files) => made.postMessage({ policy: files }));
}

function started() {
  if (worker !== undefined) return worker;
  const made = new Worker(URL.createObjectURL(new Blob([parts.worker], { type: 'text/javascript' })));
  made.onmessage = ({ data }) => made === worker && hear(data);
  made.onerror = (event) => {
    event.preventDefault();
    problem(`The analysis stopped: ${event.message || 'the browser ended it, often for lack of memory'}.`);
  };
  made.postMessage({ mount: parts.mount, build: parts.build });
  worker = made;
  return made;
}

function explain(name, bytes) {
  $('problem').hidden = true;
  if (bytes.length > MOST_BYTES) {
    const size = `${Math.round(bytes.length / 1e6)} MB`;
    return problem(
      `${name}: ${size}, more than the ${MOST_BYTES / 1e6} MB that this page reads. Give a part of it, or run: npx timeseer explain ${name}`,
    );
  }
  if ('busy' in document.body.dataset) stop();
  newest = undefined;
  file = { name, bytes };
  shown = waiting = undefined;
  touched = false;
  $('json').disabled = $('page').disabled = true;
  $('update').hidden = true;
  $('status').textContent = '';
  $('report').srcdoc = '';
  $('file').textContent = name;
  document.body.dataset.busy = '';
  progress('Reading', 0);
  note(null);
  show('report');
  const options = [...new FormData($('options'))].filter(([, value]) => value.trim() !== '');
  const ask = $('ask').checked;
  try {
    prepare();
    worker.postMessage({ name, bytes, options, ask });
  } catch (error) {
    problem(`This browser starts no Worker: ${error.message}.`);
  }
}

function progress(stage, share) {
  $('stage').textContent = `${stage} ${share > 0 ? `${Math.round(100 * share)} %` : '\u2026'}`;
  $('bar').value = share;
}

function note(text) {
  $('note').textContent = text ?? '';
  $('note').hidden = text === null;
}

function hear(message) {
  if ('stage' in message) progress(message.stage, message.share);
  else if ('problem' in message) problem(message.problem);
  else {
    if (!message.asked) {
      alone = message;
      setTimeout(() => alone === message && draw(message), 400);
      return;
    }
    alone = undefined;
    delete document.body.dataset.busy;
    note(message.note);
    if (!touched) draw(message);
    else {
      waiting = message;
      $('update').hidden = false;
      $('status').textContent = 'The policy has answered.';
    }
    if (waiting === undefined) $('status').textContent = 'Done.';
  }
}

/** Shows a report in the frame, where it stands as it does in a file of its own. */
function draw(message) {
  shown = message;
  waiting = undefined;
  $('json').disabled = $('page').disabled = false;
  $('update').hidden = true;
  $('report').srcdoc = message.page;
}

function save(extension, text, type) {
  const link = document.createElement('a');
  link.download = `${file.name.replace(/(.)\.[^.]*$/, '$1')}.explain.${extension}`;
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

async function take(given) {
  if (given === undefined) return;
  if (given.size > MOST_BYTES) return explain(given.name, { length: given.size });
  if ('busy' in document.body.dataset) stop();
  newest = given;
  try {
    const bytes = new Uint8Array(await given.arrayBuffer());
    if (newest === given) explain(given.name, bytes);
  } catch (error) {
    if (newest === given)
      problem(`${given.name}: the browser cannot read it (${error.message}). A folder? Give one file.`);
  }
}

const encoded = (text) => new TextEncoder().encode(text);

/** Takes the one file of several that were dropped or pasted at once, or says that there are too many. */
function takeOne(files) {
  if (files.length > 1) problem(`${files.length} files at once: give one; timeseer explain joins several.`);
  else take(files[0]);
}

$('choose').addEventListener('change', ({ target }) => {
  take(target.files[0]);
  target.value = '';
});
/** True while something of this page is dragged: it is no table. */
let dragging = false;

/** Takes what is dropped on a window or pasted into it; text for a field stays with the field. */
function receive(target) {
  for (const kind of ['dragstart', 'dragend'])
    target.addEventListener(kind, () => (dragging = kind === 'dragstart'));
  for (const kind of ['dragover', 'drop', 'dragleave', 'paste'])
    target.addEventListener(kind, (event) => {
      const data = event.clipboardData ?? event.dataTransfer;
      const field = event.target.matches?.('textarea, input:not([type])');
      if (dragging || (field && !data.types.includes('Files'))) return;
      event.preventDefault();
      document.body.classList.toggle('over', kind === 'dragover');
      if (kind === 'drop' || kind === 'paste') takeData(data);
    });
}

function takeData(data) {
  const text = data.getData('text/plain');
  if (data.files.length > 0) takeOne(data.files);
  else if (text.trim() !== '') explain('pasted.csv', encoded(text));
}

receive(window);
$('report').addEventListener('load', ({ target: { contentWindow, srcdoc } }) => {
  receive(contentWindow);
  for (const kind of srcdoc === '' ? [] : ['pointerdown', 'keydown', 'wheel', 'touchmove'])
    contentWindow.addEventListener(kind, () => (touched = true), { passive: true });
});
$('paste').addEventListener('submit', (event) => {
  event.preventDefault();
  explain('pasted.csv', encoded($('text').value));
});
$('options').addEventListener('submit', (event) => event.preventDefault());
for (const button of document.querySelectorAll('[data-example]'))
  button.addEventListener('click', () => {
    const { name, make } = EXAMPLES[button.dataset.example];
    explain(name, encoded(make()));
  });
$('again').addEventListener('click', () => explain(file.name, file.bytes));
$('update').addEventListener('click', () => {
  draw(waiting);
  $('status').textContent = 'Done.';
  $('report').focus();
});
$('cancel').addEventListener('click', () => {
  const left = alone;
  stop();
  if (shown === undefined && left !== undefined) draw(left);
  if (shown !== undefined) {
    $('status').textContent = 'Cancelled: the answers of the policy were not waited for.';
    return $('other').focus();
  }
  show('start');
  $('again').focus();
});
$('other').addEventListener('click', () => {
  stop();
  show('start');
  $('choose').focus();
});
$('json').addEventListener('click', () => save('json', shown.json, 'application/json'));
$('page').addEventListener('click', () => save('html', shown.page, 'text/html'));
// Files of this disk cost nothing to read; what a server sends is asked for when somebody begins.
const begins = location.protocol === 'file:' ? ['load'] : ['pointerdown', 'keydown', 'dragenter'];
for (const kind of begins) addEventListener(kind, prepare, { once: true });
show('start');
