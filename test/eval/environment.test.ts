import { describe, expect, test } from 'vitest';
import { labelled } from '../../eval/report-page.ts';

describe('the environment of a run', () => {
  test('stands with words and units, the device once', () => {
    const shown = labelled({
      cpu: 'AMD EPYC',
      device_name: 'AMD EPYC',
      memory_gib: 24,
      matmul_gflops_one_thread: 82,
      peak_memory_mib: 1288,
      evaluation_s: 76.4,
    });
    expect(shown).toEqual({
      Processor: 'AMD EPYC',
      Memory: '24\u202fGiB',
      '512\u00b3 matrix product, one thread': '82\u202fGFLOP/s',
      'Peak memory': '1288\u202fMiB',
      Evaluation: '1\u202fmin 16\u202fs',
    });
  });

  test('names a device that is not the processor, and leaves what it does not know as it is', () => {
    const record = { cpu: 'AMD EPYC', device_name: 'NVIDIA H200', memory_gib: 'much', constructor: 3 };
    expect(labelled(record)).toEqual({
      Processor: 'AMD EPYC',
      'Device model': 'NVIDIA H200',
      Memory: 'much',
      constructor: 3,
    });
  });
});
