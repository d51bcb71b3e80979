import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { piped, row } from '../helpers/piped.ts';

let directory = '';
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'follow-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('timeseer detect --follow', () => {
  test('memory does not grow with the stream', async () => {
    function* parts(): Generator<string> {
      yield 'time,load,text\n';
      for (let i = 0; i < 9000; i++) yield row(i, 50, `,${String(i).repeat(3000)}`);
    }
    // Over 100 MB of rows, which would not fit.
    const { code, lines } = await piped(
      ['detect', '--follow', '--json', '--column', 'load', '--window', '100', '--every', '100'],
      parts(),
      { node: ['--max-old-space-size=100'] },
    );
    expect(code).toBe(0);
    expect(lines.at(-1)).toMatchObject({ event: 'end', rows: 9001, bad: 0 });
  }, 120_000);
});
