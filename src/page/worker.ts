/** Worker of the page: bytes of a file and options → findings, report and pages, by the functions of the command and of the service. */
import { onnxPolicy } from '../answer/onnx.ts';
import { DEFAULT_POLICY } from '../answer/reference.ts';
import { toJson } from '../explain/formats.ts';
import type { Reader } from '../explain/reader.ts';
import { buildReport, type PolicyOpinion, type ReportSource } from '../explain/report.ts';
import { reportPage } from '../explain/report-page.ts';
import { ConfigError, DataError, TimeseerError } from '../ground/errors.ts';
import { policiesDirectory } from '../ground/paths.ts';
import { shellWord } from '../ground/terminal.ts';
import { OnnxPolicy } from '../onnx/policy.ts';
import { detectRecording } from '../run/detect.ts';
import { askColumns, readerOf } from '../run/explain.ts';
import { LISTS, readExplainRequest } from '../serve/explain-request.ts';
import { Refused } from '../serve/request.ts';
import { mount } from './node.ts';

/** Files by path: gzip in base64. */
export type Packed = Readonly<Record<string, string>>;

/** Content of policy.js. */
interface PolicyFiles {
  /** Digest of the files, as that in the page they were written with. */
  readonly build: string;
  readonly files: Packed;
}

export type ToWorker =
  | { readonly mount: Packed; readonly build: string }
  /** Files of the policy, or the reason why it cannot be asked. */
  | { readonly policy: PolicyFiles | string }
  | {
      readonly name: string;
      readonly bytes: Uint8Array;
      readonly options: readonly (readonly [name: string, value: string])[];
      readonly ask: boolean;
    };

type Job = Extract<ToWorker, { bytes: Uint8Array }>;

export type FromWorker =
  /** Work and the share of it that is done, in [0, 1]. */
  | { readonly stage: string; readonly share: number }
  /** Report without (`asked` false) and with the answers of the policy. */
  | { readonly json: string; readonly page: string; readonly asked: boolean; readonly note: string | null }
  | { readonly problem: string };

/** The Worker's own scope; the types of Node leave it out. */
declare const self: {
  onmessage: (event: { readonly data: ToWorker }) => void;
  postMessage(message: FromWorker): void;
};
declare const WebAssembly: object | undefined;

async function unpack(packed: Packed): Promise<void> {
  for (const [path, text] of Object.entries(packed)) {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    mount(path, new Uint8Array(await new Response(stream).arrayBuffer()));
  }
}

/** Files that every report needs. */
let mounted: Promise<void>;
let build: string;
let deliver: (policy: PolicyFiles | string) => void;
/** Files of the policy, which arrive after the page is shown. */
const delivered = new Promise<PolicyFiles | string>((resolve) => {
  deliver = resolve;
});
let opened: Promise<Reader | string> | undefined;

/** Opens the policy; a sentence where it cannot be asked. */
async function openReader(): Promise<Reader | string> {
  if (typeof WebAssembly === 'undefined') return 'this browser has no WebAssembly';
  const policy = await delivered;
  if (typeof policy === 'string') return policy;
  const foreign = 'policy.js does not belong to this page; copy it again from where the page was written';
  if (policy.build !== build) return foreign;
  try {
    await unpack(policy.files);
  } catch {
    return foreign;
  }
  try {
    const directory = `${policiesDirectory()}/${DEFAULT_POLICY}`;
    return readerOf(onnxPolicy(await OnnxPolicy.open(directory)), directory, { name: DEFAULT_POLICY });
  } catch (error) {
    return (error as Error).message;
  }
}

/** Reads the file. A list of columns with commas is split, unless the file has a column of that whole name. */
function requestOf({ name, bytes: body, options }: Job): ReturnType<typeof readExplainRequest> {
  const read = (given: Job['options']): ReturnType<typeof readExplainRequest> =>
    readExplainRequest({ body, json: false, query: [['name', name], ...given], accept: undefined });
  const split = options.flatMap(([option, value]) =>
    (LISTS as readonly string[]).includes(option)
      ? value.split(',').flatMap((part) => (part.trim() === '' ? [] : [[option, part.trim()] as const]))
      : [[option, value] as const],
  );
  try {
    return read(options);
  } catch (error) {
    if (error instanceof ConfigError && String(split) !== String(options)) return read(split);
    if (!(error instanceof Refused) || error.refusal.error.code !== 'too_many_values') throw error;
    const [problem] = error.message.split(';');
    throw new DataError(
      `${problem}; choose fewer columns, give a part of the file, or run: npx timeseer explain ${shellWord(name)}`,
      { file: name },
    );
  }
}

async function explain(job: Job): Promise<void> {
  const report = (stage: string, share: number): void => self.postMessage({ stage, share });
  report('Reading', 0);
  await mounted;
  if (job.bytes.length === 0) throw new DataError('empty; expected a column of numbers', { file: job.name });
  const { name, recording, options } = requestOf(job);
  report('Detecting', 0);
  let pictures: Parameters<typeof reportPage>[2];
  let note: string | null = null;
  const ask = async (source: ReportSource): Promise<PolicyOpinion | undefined> => {
    const alone = buildReport(source);
    self.postMessage({ json: toJson(alone), page: reportPage(alone, source), asked: false, note });
    report('Opening the policy', 0);
    opened ??= openReader();
    const reader = await opened;
    if (typeof reader === 'string') {
      note = `The policy was not asked: ${reader}.`;
      return undefined;
    }
    let column = -1;
    const names = source.columns.map((each) => each.name);
    const answered = await askColumns(source, reader, {}, (of, done, total) => {
      if (names[column] !== of) column = names.indexOf(of, column + 1);
      report('Asking the policy', (column + done / total) / names.length);
    });
    pictures = new Map(answered.columns.map(({ column: of, seen }) => [of, seen]));
    return answered;
  };
  const { source, report: whole } = await detectRecording(name, recording, {
    ...options,
    ask: job.ask ? ask : undefined,
    onColumn: (done) => report('Detecting', done / recording.columns.length),
  });
  self.postMessage({ json: toJson(whole), page: reportPage(whole, source, pictures), asked: true, note });
}

function problemOf(error: unknown): string {
  if (error instanceof TimeseerError) return error.message;
  const text = String((error as Error)?.message ?? error);
  return /memory|allocation|Invalid (?:array|string) length/i.test(text)
    ? 'The browser has no memory left for this file. Give fewer rows or columns, or run `npx timeseer explain` on it.'
    : `Something went wrong: ${text}. Please report it with the file if you can.`;
}

self.onmessage = ({ data }) => {
  if ('mount' in data) {
    build = data.build;
    mounted = unpack(data.mount);
  } else if ('policy' in data) {
    deliver(data.policy);
    opened ??= openReader();
  } else explain(data).catch((error: unknown) => self.postMessage({ problem: problemOf(error) }));
};
