import { openTorch } from '../../src/engine/torch/torch.ts';
import { DEVICE } from '../helpers/device.ts';
import { engineContract, TORCH } from './contract.ts';

engineContract(`torch, ${DEVICE}`, () => openTorch({ device: DEVICE, threads: 1 }), TORCH);
