import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkZone,
  DAY,
  formatDuration,
  formatTime,
  HOUR,
  instantsOf,
  MINUTE,
  parseDuration,
  parseInstant,
  parseStamp,
  wallTime,
} from '../../../datasets/readers/clock.ts';
import { ConfigError } from '../../../src/ground/errors.ts';

const at = (text: string): number => Date.parse(text);

describe('a time stamp', () => {
  it.each<[string, string, number]>([
    ['2024-03-01 14:05', '2024-03-01T14:05Z', Number.NaN],
    ['2024-03-01T14:05:30.250Z', '2024-03-01T14:05:30.250Z', 0],
    ['2024-03-01T14:05:30+05:30', '2024-03-01T14:05:30Z', 330],
    ['2024-03-01 14:05:00-0330', '2024-03-01T14:05Z', -210],
    ['2024-03-01 14:05 CET', '2024-03-01T14:05Z', 60],
    ['2024-01-02 03:00:00 +0000 UTC', '2024-01-02T03:00Z', 0],
    ['2024/3/1 7:05', '2024-03-01T07:05Z', Number.NaN],
    ['1.3.2024 14:05', '2024-03-01T14:05Z', Number.NaN],
    ['01-Mar-24', '2024-03-01T00:00Z', Number.NaN],
    ['1. März 2024 14:05', '2024-03-01T14:05Z', Number.NaN],
    ['March 1, 2024 12:30 am', '2024-03-01T00:30Z', Number.NaN],
    ['Fri Mar  1 14:05:00 EST 2024', '2024-03-01T14:05Z', -300],
    ['Fri, 01 Mar 2024 14:05:00 GMT', '2024-03-01T14:05Z', 0],
    ['10/Mar/2024:13:55:36 +0000', '2024-03-10T13:55:36Z', 0],
    ['20240301T140530Z', '2024-03-01T14:05:30Z', 0],
    ['2024-03', '2024-03-01T00:00Z', Number.NaN],
    ['2024M03', '2024-03-01T00:00Z', Number.NaN],
    ['2024-Mar', '2024-03-01T00:00Z', Number.NaN],
    ['2024 March', '2024-03-01T00:00Z', Number.NaN],
    ['2024 W09', '2024-02-26T00:00Z', Number.NaN],
    ['2024-Q3', '2024-07-01T00:00Z', Number.NaN],
    ['2024-W09', '2024-02-26T00:00Z', Number.NaN],
    ['2024-02-29 24:00', '2024-03-01T00:00Z', Number.NaN],
  ])('%s', (cell, instant, offset) => {
    const stamp = parseStamp(cell)!;
    expect(new Date(stamp.wall).toISOString()).toBe(new Date(at(instant)).toISOString());
    expect(stamp).toMatchObject({ monthFirst: stamp.wall, offset, date: true });
  });

  it('of day and month in figures is read both ways, as far as there is such a day', () => {
    expect(parseStamp('03/04/2024 2:05 PM')).toMatchObject({
      wall: at('2024-04-03T14:05Z'),
      monthFirst: at('2024-03-04T14:05Z'),
    });
    expect(parseStamp('13/04/2024')).toMatchObject({
      wall: at('2024-04-13T00:00Z'),
      monthFirst: Number.NaN,
    });
  });

  it('without a date is a time of day', () => {
    expect(parseStamp('2:05 PM')).toMatchObject({ wall: 14 * HOUR + 5 * MINUTE, date: false, clock: true });
    expect(parseStamp('14:05:30,25')).toMatchObject({ wall: 14 * HOUR + 5 * MINUTE + 30_250 });
  });

  it.each([
    '2024-02-30',
    '2023-02-29 10:00',
    '2024-03-01 25:00',
    '2024-03-01 14:05:00 noon',
    '2024-03-01 14:05 XYZ',
    '13 PM',
    '12.5',
    '1',
    'abc',
    '10.0.0.1',
    '1200 rpm',
    '',
    '99/99/2024',
    `2024-03-01 ${' '.repeat(60_000)}14:05`,
  ])('is not what %.30s is', (cell) => {
    expect(parseStamp(cell)).toBeNull();
  });

  it('reads back what toISOString writes, and never throws', () => {
    fc.assert(
      fc.property(fc.date({ min: new Date(-3e10), max: new Date(4e12), noInvalidDate: true }), (date) => {
        expect(parseStamp(date.toISOString())?.wall).toBe(date.getTime());
      }),
    );
    fc.assert(fc.property(fc.string(), (text) => void parseStamp(text)));
  });
});

describe('a zone', () => {
  const BERLIN = 'Europe/Berlin';

  it('has one hour twice in autumn, and one hour not at all in spring', () => {
    expect(instantsOf(at('2024-10-27T02:30Z'), BERLIN)).toEqual([
      at('2024-10-27T00:30Z'),
      at('2024-10-27T01:30Z'),
    ]);
    expect(instantsOf(at('2024-03-31T02:30Z'), BERLIN)).toEqual([at('2024-03-31T01:30Z')]);
    expect(instantsOf(at('2024-03-31T03:30Z'), BERLIN)).toEqual([at('2024-03-31T01:30Z')]);
    expect(instantsOf(at('2024-07-01T12:00Z'), BERLIN)).toEqual([at('2024-07-01T10:00Z')]);
    expect(instantsOf(at('2024-11-03T01:30Z'), 'America/New_York')).toEqual([
      at('2024-11-03T05:30Z'),
      at('2024-11-03T06:30Z'),
    ]);
  });

  it('leads from an instant to its wall clock and back', () => {
    const zones = fc.constantFrom(
      BERLIN,
      'America/New_York',
      'Asia/Kolkata',
      'Australia/Lord_Howe',
      '-03:30',
    );
    fc.assert(
      fc.property(zones, fc.integer({ min: 0, max: 60 * 365 * 24 * 60 }), (zone, minutes) => {
        const ms = minutes * MINUTE;
        expect(instantsOf(wallTime(ms, zone), zone)).toContain(ms);
      }),
    );
  });

  it('that is not known is refused', () => {
    expect(checkZone('+0200')).toBe('+02:00');
    expect(checkZone('utc')).toBe('UTC');
    expect(() => checkZone('Europe/Berlyn')).toThrow(ConfigError);
    expect(() => checkZone('Europe/Berlyn')).toThrow(/--tz Europe\/Berlyn: no such time zone/);
  });
});

describe('a time is written', () => {
  const ms = at('2024-03-01T14:05:00Z');
  it.each<[string, number, Parameters<typeof formatTime>[1]]>([
    ['2024-03-01 14:05', ms, { zone: null, step: 5 * MINUTE }],
    ['2024-03-01 14:05 UTC', ms, { zone: 'UTC', step: HOUR }],
    ['2024-03-01 16:05 +02:00', ms, { zone: '+02:00', step: HOUR }],
    ['2024-10-27 02:30 +01:00', at('2024-10-27T01:30Z'), { zone: 'Europe/Berlin', step: HOUR }],
    ['2024-03-01 14:05:00', ms, { zone: null, step: 1000 }],
    ['2024-03-01 14:05:07', ms + 7000, { zone: null, step: HOUR }],
    ['2024-03-01 14:05:00.250', ms + 250, { zone: null, step: 250 }],
    ['2024-03-01 14:05', ms + 250, { zone: null, step: HOUR }],
    ['2024-03-01', at('2024-03-01'), { zone: null, step: DAY }],
    ['2024-03-01 00:00', at('2024-03-01'), { zone: null, step: HOUR }],
    ['1987', at('1987-01-01'), { zone: null, step: 365 * DAY }],
    ['14:05', 14 * HOUR + 5 * MINUTE, { zone: null, step: MINUTE, origin: 'midnight' }],
    ['day 2, 00:10', DAY + 10 * MINUTE, { zone: null, step: MINUTE, origin: 'midnight' }],
    ['26:03:09', 26 * HOUR + 3 * MINUTE + 9000, { zone: null, step: 1000, origin: 'start' }],
  ])('%s', (text, instant, form) => {
    expect(formatTime(instant, form)).toBe(text);
  });

  it('and a duration in its two largest units', () => {
    const lengths = [1.5, 31.64, 250, 90_000, 5400_000, 2.5 * DAY, 3599_999, -2 * HOUR, 0];
    expect(lengths.map(formatDuration)).toEqual([
      '1.5 ms',
      '31.6 ms',
      '250 ms',
      '1 min 30 s',
      '1 h 30 min',
      '2 d 12 h',
      '1 h',
      '-2 h',
      '0 ms',
    ]);
  });

  it('and an option names an instant by a stamp or by a duration before the end', () => {
    expect(['90min', '1.5 h', '7d', 'soon'].map(parseDuration)).toEqual([
      90 * MINUTE,
      90 * MINUTE,
      7 * DAY,
      null,
    ]);
    expect(parseInstant('2h', '--since', null, ms)).toBe(ms - 2 * HOUR);
    expect(parseInstant('2024-07-01 12:00', '--since', 'Europe/Berlin', ms)).toBe(at('2024-07-01T10:00Z'));
    expect(parseInstant('2024-07-01T12:00Z', '--since', 'Europe/Berlin', ms)).toBe(at('2024-07-01T12:00Z'));
    expect(() => parseInstant('yesterday', '--since', null, ms)).toThrow(ConfigError);
  });
});
