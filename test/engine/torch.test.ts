import { openTorch } from '../../src/engine/torch/torch.ts';
import { engineContract } from './contract.ts';

engineContract('torch', () => openTorch({ threads: 1 }));
