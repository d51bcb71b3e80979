/** `timeseer`: what the command line composes, for programs and for modules of the user. */
export {
  defineReward,
  type RewardDefinition,
  type RewardOutcome,
  type RewardRequest,
  type RewardResult,
} from '../rewards/define.ts';
