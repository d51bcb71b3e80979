import { openTfjs } from '../../src/engine/tfjs/tfjs.ts';
import { engineContract, TFJS } from './contract.ts';

engineContract('tfjs', openTfjs, TFJS);
