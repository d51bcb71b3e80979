/** `timeseer`: what the command line composes, for programs and for modules of the user. */
export {
  type Detection,
  type DetectorDefinition,
  defineDetector,
  definePolicy,
  type PolicyDefinition,
  type PolicyOutcome,
  type PolicyRequest,
  type Question,
} from '../eval/define.ts';
export {
  defineReward,
  type RewardDefinition,
  type RewardOutcome,
  type RewardRequest,
  type RewardResult,
} from '../rewards/define.ts';
