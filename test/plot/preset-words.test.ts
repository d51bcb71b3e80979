import { describe, expect, it } from 'vitest';
import { FIGURE_NAMES } from '../../src/plot/figure.ts';
import { FIGURE_HELP } from '../../src/plot/preset-words.ts';
import { inside } from '../helpers/command-line.ts';

describe('the presets in help', () => {
  it.each([['data', 'prepare'], ['data', 'show'], ['render']])(
    'of %s %s stand each with a few words',
    async (...command) => {
      const { out } = await inside(...command, '--help');
      expect(out.replace(/\s+/g, ' ')).toContain(FIGURE_HELP);
      for (const name of FIGURE_NAMES) expect(FIGURE_HELP).toMatch(new RegExp(`(^|, )${name} \\([^()]+\\)`));
    },
  );
});
