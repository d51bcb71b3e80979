/** Checks of the interval lists that callers from outside hand to metrics. */
import { ConfigError } from './errors.ts';
import { show } from './json-record.ts';

/** Returns true for a pair of finite numbers. */
export const isPair = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 2 && value.every((bound) => Number.isFinite(bound));

/** Checks arguments of a function by name. @throws ConfigError for one that is no list of pairs of finite numbers */
export function checkIntervalLists(caller: string, lists: Readonly<Record<string, unknown>>): void {
  for (const [name, list] of Object.entries(lists)) {
    const wrong = Array.isArray(list) ? list.findIndex((interval) => !isPair(interval)) : null;
    if (wrong === -1) continue;
    const what =
      wrong === null
        ? `${name}: got ${show(list)}`
        : `${name}[${wrong}]: got ${show((list as unknown[])[wrong])}`;
    throw new ConfigError(`${caller}: ${what}, expected a list of intervals [start, end]`);
  }
}
