/** Usage of responses: their number, missing ones, tokens, seconds and cost. */
import { meanOrNull } from '../src/ground/numbers.ts';
import type { EvalRecord } from '../src/ground/types.ts';

export interface ResponseUsage {
  /** Number of requested responses. */
  readonly asked: number;
  /** Number of these without a response; they have no part in any mean. */
  readonly missing: number;
  /** Mean tokens of a response and of its prompt; null where they are not known. */
  readonly tokens: { readonly prompt: number; readonly completion: number } | null;
  /** Mean seconds from request to response; null where policies answer many at once. */
  readonly seconds: number | null;
  /** Total cost of all responses; null where no prices were given. */
  readonly cost: number | null;
}

/** Sums up usage; means are over the responses that state theirs. @param asked number of requested responses */
export function usageOf(records: readonly EvalRecord[], asked: number = records.length): ResponseUsage {
  const usages = records.flatMap(({ usage }) => usage ?? []);
  const prompt = meanOrNull(usages.map((usage) => usage.prompt));
  const completion = meanOrNull(usages.map((usage) => usage.completion));
  const costs = records.flatMap(({ cost }) => cost ?? []);
  return {
    asked,
    missing: asked - records.filter(({ failure }) => failure === undefined).length,
    tokens: prompt === null || completion === null ? null : { prompt, completion },
    seconds: meanOrNull(
      records.flatMap(({ failure, seconds }) => (failure === undefined ? (seconds ?? []) : [])),
    ),
    cost: costs.length === 0 ? null : costs.reduce((sum, cost) => sum + cost, 0),
  };
}

/** Writes the usage as a line for a terminal; empty where nothing is known. */
export function usageLine({ asked, missing, tokens, seconds, cost }: ResponseUsage): string {
  const parts = [
    ...(tokens === null
      ? []
      : [`${tokens.completion.toFixed(1)} completion and ${tokens.prompt.toFixed(1)} prompt tokens each`]),
    ...(seconds === null ? [] : [`${seconds.toFixed(2)} s each`]),
    ...(cost === null ? [] : [`total cost ${cost.toFixed(4)}`]),
  ];
  return parts.length === 0 ? '' : `responses: ${asked - missing} of ${asked}; ${parts.join('; ')}\n`;
}
