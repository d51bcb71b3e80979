import { describe } from 'vitest';
import { testUsual } from './usual.ts';

describe('what is usual is no finding', () => {
  testUsual(1);
});
