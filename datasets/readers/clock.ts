/** Instants written as dates, in the forms that data files use. */

const DATE =
  /^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?)?(?:\s*(Z|UTC|[+-]\d{2}:?\d{2}))?$/i;

/**
 * Seconds since 1970 of `2014-04-01`, `2014/4/1 7:05`, `2014-04-01T07:05:30.25Z`, `2014-04-01 07:05:30+02:00`; read
 * as UTC where no zone is written. NaN for anything else, and for dates that no calendar has.
 */
export function seconds(text: string): number {
  const match = DATE.exec(text);
  if (match === null) return Number.NaN;
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', zone = 'Z'] = match;
  const at = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const date = new Date(at);
  if (date.getUTCFullYear() !== Number(year) || date.getUTCMonth() !== Number(month) - 1) return Number.NaN;
  if (date.getUTCDate() !== Number(day)) return Number.NaN;
  if (Number(hour) > 24 || Number(minute) > 59 || Number(second) > 60) return Number.NaN;
  const offset = /^([+-])(\d{2}):?(\d{2})$/.exec(zone);
  const shift =
    offset === null ? 0 : (Number(offset[2]) * 3600 + Number(offset[3]) * 60) * (offset[1] === '-' ? -1 : 1);
  const whole = at / 1000 + Number(hour) * 3600 + Number(minute) * 60 + Number(second) - shift;
  return fraction === '' ? whole : whole + Number(`0.${fraction}`);
}
