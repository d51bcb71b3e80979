/** Asks a policy about the columns of a recording. Loaded only where one is asked: it takes more modules than everything else. */
import { VALUE_CHANNEL } from '../../datasets/example.ts';
import type { Earlier } from '../../datasets/readers/side-by-side.ts';
import type { LocalPolicy, Response } from '../answer/answerer.ts';
import { inspector } from '../answer/inspect.ts';
import { DEFAULT_POLICY, findPolicy, INSPECTING_POLICY, shippedPolicy } from '../answer/reference.ts';
import { readConfidence } from '../explain/confidence.ts';
import {
  type AskOptions,
  askColumn,
  type ColumnAnswers,
  inspectColumn,
  seasonOf,
} from '../explain/policy-answers.ts';
import { policyReader, type Reader } from '../explain/reader.ts';
import type { PolicyOpinion, ReportSource } from '../explain/report.ts';
import { MOST_WINDOWS } from '../explain/windows.ts';
import { ConfigError, EndpointError, EngineError } from '../ground/errors.ts';
import { checkWhole } from '../ground/json-record.ts';
import { Phases, withProgress } from '../ground/progress.ts';
import { say } from '../ground/terminal.ts';
import { framePoints, type Inspection, viewOfKey } from '../inspect/environment.ts';
import type { PlayedEpisode } from '../inspect/episode.ts';
import { openTools, windowOf } from '../inspect/tools.ts';
import { figure } from '../plot/figure.ts';
import { FOREIGN_CARD, type PolicyCard, readCard } from '../tasks/card.ts';
import { pictureOf } from '../tasks/drawing.ts';
import { taskKind } from '../tasks/kinds.ts';
import { customPrompt, instruction } from '../tasks/prompt.ts';
import { readReference } from '../tasks/reference.ts';
import { calendarOf, type PolicyRequest } from './detect.ts';
import { readHistory } from './history.ts';
import { inspectionOf, withInspect } from './inspect-task.ts';

/** More samples than any file that can be read has. */
const LONGEST_WINDOW = 500_000_000;

/** @throws ConfigError for an option out of range */
function checkOptions({ window, overlap }: PolicyRequest): void {
  checkWhole('window', window, 2, LONGEST_WINDOW);
  if (overlap !== undefined && !(overlap >= 0 && overlap <= 0.9)) {
    throw new ConfigError(`--overlap: expected a share from 0 to 0.9, got ${overlap}`);
  }
}

/** Loads the policy, where it is `calibrated` with its confidences; everything that can be wrong with it is found here. */
export async function openReader(
  path: string,
  {
    engine,
    device,
    calibrated = true,
  }: Pick<PolicyRequest, 'engine' | 'device'> & { readonly calibrated?: boolean },
): Promise<{ reader: Reader; policy: LocalPolicy }> {
  const { openLocal } = await import('../answer/open.ts');
  const source = await openLocal(path, { engine, device });
  const { directory } = source;
  const card = readCard(directory);
  if (!taskKind(card.kind).localises) {
    throw new ConfigError(
      `${path}: this policy answers with ${taskKind(card.kind).answers}, not with intervals; name one that was trained to find anomalies with --policy`,
    );
  }
  if (card.inspect !== undefined) {
    throw new ConfigError(
      `${path}: this policy looks closer over several turns; name one that answers at once`,
    );
  }
  checkSingle(path, card);
  const policy = await source.load();
  // Where the package is installed is of no interest to who reads a report.
  const name = shippedPolicy(path) === null ? directory : path;
  return { reader: readerOf(policy, directory, { name, calibrated }), policy };
}

/** @throws ConfigError for a policy that was trained on several channels: columns are asked about one by one */
function checkSingle(path: string, { channels }: Pick<PolicyCard, 'channels'>): void {
  if (channels === null || channels === 1) return;
  throw new ConfigError(
    `${path}: this policy was trained on series of ${channels} channels, and each column is asked about alone; name one that was trained on single columns`,
  );
}

/** Makes the reader of a policy that was loaded from `directory`. @throws CheckpointError for damaged files beside its weights */
export function readerOf(
  policy: LocalPolicy,
  directory: string,
  { name, calibrated = true }: { readonly name: string; readonly calibrated?: boolean },
): Reader {
  const card = readCard(directory);
  const shape = figure(card.figure);
  return policyReader(policy, card, {
    name,
    reference: readReference(directory, policy.prompting.dims.width),
    confidence: calibrated ? readConfidence(directory) : null,
    picture: (values) => pictureOf(shape, values),
  });
}

/** Returns the reference of the policy that is asked. */
const askedPolicy = ({ policy, inspect = false }: PolicyRequest): string =>
  policy ?? (inspect ? INSPECTING_POLICY : DEFAULT_POLICY);

/**
 * Opens the policy that is asked. Null where none is named and nothing on this machine computes the one that ships with timeseer: the
 * detector answers alone, and a note says why.
 */
export async function openAsked(request: PolicyRequest): Promise<{
  readonly ask: (source: ReportSource, from: number) => Promise<AskedColumns>;
  /** Recordings that the policy was adapted to; none for others. */
  readonly earlier?: readonly Earlier[];
  readonly close: () => unknown;
} | null> {
  checkOptions(request);
  try {
    const inspecting = await openInspector(request);
    if (inspecting !== null) return inspecting;
    const { reader, policy } = await openReader(askedPolicy(request), request);
    return {
      ask: (source, from) => ask(source, reader, { ...request, from }),
      earlier: readHistory(findPolicy(askedPolicy(request))),
      close: () => policy.dispose(),
    };
  } catch (error) {
    if (request.policy !== undefined || !(error instanceof EngineError)) throw error;
    say(`note: the policy ${askedPolicy(request)} is not asked: ${error.message.split('\n')[0]}`);
    return null;
  }
}

/** Longest response of a turn, by style. */
const MOST_TOKENS = { nano: 128, full: 1024 } as const;

/**
 * Opens a policy that looks closer over several turns: one that was trained to, or a large one with --inspect, behind an endpoint too. Null
 * for one that answers at once.
 * @throws ConfigError for a policy that cannot look closer, and for options about windows
 */
async function openInspector(request: PolicyRequest): ReturnType<typeof openAsked> {
  const { engine, device, inspect = false } = request;
  const reference = askedPolicy(request);
  const { openPolicy } = await import('../answer/open.ts');
  const policy = await openPolicy(reference, { engine, device });
  try {
    const own = policy.local === null ? FOREIGN_CARD : readCard(policy.local.directory);
    if ((own.inspect === undefined && !inspect) || (policy.reads === 'values' && !inspect)) {
      await policy.dispose();
      return null;
    }
    checkSingle(reference, own);
    if (policy.reads === 'values')
      throw new ConfigError(`--inspect: ${reference} sees no pictures; name a policy that does`);
    for (const name of ['window', 'overlap'] as const)
      if (request[name] !== undefined)
        throw new ConfigError(`--${name}: a policy that looks closer chooses its windows; leave it out`);
    const facts = { title: reference, kind: own.kind, channels: [VALUE_CHANNEL] };
    const { inspect: form, ...card } = withInspect(own, facts);
    const toolbox = await openTools(form!.tools);
    const close = async (): Promise<void> => {
      await toolbox.close();
      await policy.dispose();
    };
    const play = (name: string) => async (values: Float64Array) => {
      const asked = { length: values.length, channels: [VALUE_CHANNEL], classes: card.classes };
      const question = instruction(card.style, customPrompt(card.kind), asked);
      const example = { id: name, channels: [values] };
      const open = (): Inspection =>
        inspectionOf({ ...card, inspect: form! }, example, question, toolbox.tools, true);
      let episode: PlayedEpisode<Response> | null = null;
      let failure: string | undefined;
      await inspector(policy, open, form!.history, (_, played) => {
        episode = played;
      }).answer(
        [{ key: 0, samples: [0], series: () => null, prompt: () => ({ shots: [], pictures: [], text: '' }) }],
        { temperature: 0, maxTokens: MOST_TOKENS[card.style], seed: 0, data: null },
        (response) => {
          failure = response.failure;
        },
      );
      if (failure !== undefined)
        throw new EndpointError(`${reference}: ${failure}; for a page of the detector alone: --policy none`);
      const { turns, answer } = episode!;
      return {
        answer,
        turns: turns.map(({ state, picture, response, problem, standing }) => ({
          window: windowOf(viewOfKey(state), values.length),
          ...{ picture, response, problem, standing },
        })),
      };
    };
    const ask = async ({ columns }: ReportSource): Promise<AskedColumns> => {
      const answers: ColumnAnswers[] = [];
      await withProgress({ label: 'policy', total: columns.length, unit: 'columns' }, async (update) => {
        for (const column of columns) {
          answers.push(await inspectColumn(column, play(column.name)));
          update(answers.length);
        }
      });
      const name = shippedPolicy(reference) === null ? policy.name : reference;
      const record = {
        figure: card.figure,
        stage: card.stage,
        turns: form!.turns,
        tools: form!.tools.join(' '),
      };
      const signs = Object.entries(toolbox.tools).flatMap(([tool, { sign }]) =>
        sign === undefined ? [] : `${sign} ${tool}`,
      );
      const notes =
        card.style === 'nano'
          ? [
              `Its responses count the columns of their own picture, from 0 to ${framePoints(figure(card.figure))}; a sign at the end calls a tool: ${signs.join(', ')}.`,
            ]
          : [];
      return { name, record, notes: [...notes, ...card.limitations], columns: answers };
    };
    return { ask, close };
  } catch (error) {
    await policy.dispose();
    throw error;
  }
}

type AskedColumns = Omit<PolicyOpinion, 'columns'> & { readonly columns: readonly ColumnAnswers[] };

/** Windows of a column at least; they are as long as it takes. */
const FEWEST_OF_A_COLUMN = 8;

const NO_REFERENCE =
  'This policy has no record of its training data, so the distance of a window from them, and with it the reliability of the answer, is unknown.';

/** Asks the policy about every column, with progress on standard error. */
async function ask(
  source: ReportSource,
  reader: Reader,
  request: PolicyRequest & Pick<AskOptions, 'from'>,
): Promise<AskedColumns> {
  const several = source.columns.length > 1;
  const phases = new Phases({ unit: 'windows' });
  try {
    return await askColumns(source, reader, request, (column, done, total) =>
      phases.update(several ? `policy, ${column}` : 'policy', done, total),
    );
  } finally {
    phases.stop();
  }
}

/** Asks a policy about every column; `onProgress` hears a column's name, its answered windows and all of them. */
export async function askColumns(
  { columns, time, step }: ReportSource,
  reader: Reader,
  { window, overlap, from }: Pick<PolicyRequest, 'window' | 'overlap'> & Pick<AskOptions, 'from'>,
  onProgress: (column: string, done: number, total: number) => void,
): Promise<AskedColumns> {
  const answers: ColumnAnswers[] = [];
  // A file is answered in bounded time, however many columns it has.
  const limit = Math.max(FEWEST_OF_A_COLUMN, Math.floor(MOST_WINDOWS / columns.length));
  for (const { name, values, detection } of columns) {
    const heard = (done: number, total: number): void => onProgress(name, done, total);
    const usual = seasonOf(detection, calendarOf({ time, step }));
    const options = { window, overlap, limit, from, usual, onProgress: heard };
    answers.push(await askColumn({ name, values, detection }, reader, options));
  }
  const notes = [...reader.caveats, ...(reader.reference === null ? [NO_REFERENCE] : [])];
  return { name: reader.name, record: { ...reader.record }, notes, columns: answers };
}
