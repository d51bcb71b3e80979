import { openTorch } from '../../src/engine/torch/torch.ts';
import { engineContract, TORCH } from './contract.ts';

/** Device of the suite: the processor, or the GPU that is asked for. */
const device = process.env['TIMESEER_TEST_DEVICE'] ?? 'cpu';

engineContract(`torch, ${device}`, () => openTorch({ device, threads: 1 }), TORCH);
