"""Makes test/golden/policy/advantages.json and losses.json: advantages, policy losses with their gradients and divergences, by the
functions of verl and TRL themselves.

    pip install --no-deps verl==0.9.1 trl==1.16.0  (then what their imports ask for)
    python test/golden/make_policy.py              (torch 2.15, numpy 2.4)

Inputs are written beside the results. Of TRL's advantages, which are lines of a method, those lines are run; its std epsilon 1e-4 is
replaced by 1e-6, that of verl. TRL's loss is its method, on a policy that returns the log-probabilities and entropies given.
"""

import inspect
import json
import os
import textwrap
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import torch
import verl.trainer.ppo.core_algos as verl
from trl.trainer.grpo_trainer import GRPOTrainer, nanstd
from trl.trainer.rloo_trainer import RLOOTrainer
from verl.workers.config import ActorConfig

here = os.path.dirname(os.path.abspath(__file__))
torch.manual_seed(7)
VERSIONS = {name: version(name) for name in ('torch', 'verl', 'trl', 'numpy')}


def rounded(tensor):
    return [round(float(value), 6) for value in tensor.detach().double().flatten()]


# ---- advantages: 4 groups of 4 responses of unequal lengths, the third with equal rewards ----------------------------------------

GROUPS, SIZE = 4, 4
lengths = torch.tensor([3, 5, 2, 7, 4, 4, 6, 1, 2, 3, 5, 4, 6, 2, 3, 8])
width = int(lengths.max())
mask = (torch.arange(width)[None] < lengths[:, None]).float()
index = np.repeat(np.arange(GROUPS), SIZE)
parts = torch.rand(GROUPS * SIZE, 3, dtype=torch.float32).round(decimals=2)  # of different spreads
parts[:, 1] = (parts[:, 1] > 0.4).float()
parts[:, 2] = (parts[:, 2] * 0.2).round(decimals=2)
parts[8:12] = parts[8:9]
weights = torch.tensor([0.7, 0.2, 0.1])
rewards = parts @ weights


def tokens(values):
    """A reward at the last token of each response, as verl has it."""
    out = torch.zeros(len(values), width)
    out[torch.arange(len(values)), lengths - 1] = values
    return out


def first(advantage):
    return rounded(advantage[:, 0])


def by_verl(name, values, **more):
    return first(verl.get_adv_estimator_fn(name)(token_level_rewards=tokens(values), response_mask=mask, index=index, **more)[0])


def lines(method, begin, end):
    source = inspect.getsource(method)
    at = source.index(begin)
    block = source[source.rindex('\n', 0, at) + 1 : source.index(end, at)]
    return textwrap.dedent(block).replace('1e-4', '1e-6')


def by_trl(parts, aggregation, scale='group'):
    block = lines(GRPOTrainer._generate_and_score_completions, 'unscorable_mask = torch.isnan', '# Slice to keep only')
    scope = dict(
        torch=torch,
        nanstd=nanstd,
        device='cpu',
        num_generations=SIZE,
        rewards_per_func=parts.clone(),
        self=SimpleNamespace(
            multi_objective_aggregation=aggregation,
            scale_rewards=scale,
            reward_weights=weights,
            reward_funcs=[None] * 3,
        ),
    )
    exec(block, scope)
    return rounded(scope['advantages'])


def rloo_by_trl(values):
    block = lines(RLOOTrainer._generate_and_score_completions, 'grouped_rewards = rewards.view', 'is_std_zero')
    scope = dict(
        torch=torch, nanstd=nanstd, num_generations=SIZE, rewards=values.clone(), self=SimpleNamespace(normalize_advantages=False)
    )
    exec(block, scope)
    return rounded(scope['advantages'])


absent = parts.clone()  # a part that some responses of a group do not have, and one that a whole group lacks
absent[1, 2] = absent[5, 1] = torch.nan
absent[12:16, 2] = torch.nan


def gdpo_by_verl(values):
    """One token per response: verl's normalisation over the batch is over tokens, that of the paper over responses."""
    batch = GROUPS * SIZE
    columns = {str(k): values[:, k].numpy() for k in range(3)}
    out, _ = verl.compute_gdpo_outcome_advantage(
        token_level_rewards=torch.zeros(batch, 1),
        response_mask=torch.ones(batch, 1),
        index=index,
        config={'gdpo_reward_keys': ['0', '1', '2'], 'gdpo_reward_weights': weights.tolist()},
        non_tensor_batch=columns,
        batch={'prompts': torch.zeros(batch, 1), 'attention_mask': torch.ones(batch, 2, dtype=torch.long)},
    )
    return first(out)


advantages = {
    'source': 'test/golden/make_policy.py',
    'versions': VERSIONS,
    'size': SIZE,
    'lengths': lengths.tolist(),
    'weights': rounded(weights),
    'parts': [rounded(row) for row in parts],
    'absent': [[None if np.isnan(value) else round(float(value), 6) for value in row] for row in absent],
    'rewards': rounded(rewards),
    'advantages': {
        'verl': {
            'grpo': by_verl('grpo', rewards),
            'dr_grpo': by_verl('grpo', rewards, norm_adv_by_std_in_grpo=False),
            'rloo': by_verl('rloo', rewards),
            'reinforce_pp': by_verl('reinforce_plus_plus_baseline', rewards),
            'gdpo': gdpo_by_verl(parts),
        },
        'trl': {
            'grpo': by_trl(parts, 'sum_then_normalize'),
            'dr_grpo': by_trl(parts, 'sum_then_normalize', 'none'),
            'rloo': rloo_by_trl(rewards),
            'gdpo': by_trl(parts, 'normalize_then_sum'),
            'gdpo_absent': by_trl(absent, 'normalize_then_sum'),
        },
    },
}

# ---- losses: 5 responses, ratios on both sides of every clip range --------------------------------------------------------------

lengths = [4, 7, 1, 5, 6]
width = max(lengths)
mask = (torch.arange(width)[None] < torch.tensor(lengths)[:, None]).float()
log_prob = -3 * torch.rand(5, width)
old = log_prob + 0.35 * torch.randn(5, width)
old[1, :3] -= 1.6  # far above the dual clip
reference = log_prob + 0.5 * torch.randn(5, width)
entropy = 2 * torch.rand(5, width)
advantage = torch.tensor([1.3, -0.8, -1.1, 0.6, -0.2])
MOST = 9


def flat(values):
    return [value for row, length in zip(values, lengths) for value in rounded(row[:length])]


def graded(loss_of):
    leaf = log_prob.clone().requires_grad_()
    loss = loss_of(leaf)
    (gradient,) = torch.autograd.grad(loss, leaf)
    return {'loss': round(float(loss), 6), 'gradient': flat(gradient)}


AGGREGATIONS = {'token_mean': 'token-mean', 'sequence_mean': 'seq-mean-token-mean', 'constant': 'seq-mean-token-sum-norm'}


def verl_loss(kind, aggregation, low=0.2, high=0.2, dual=1e9):
    config = ActorConfig(
        strategy='fsdp', rollout_n=1, ppo_micro_batch_size_per_gpu=1, clip_ratio=low, clip_ratio_low=low, clip_ratio_high=high,
        clip_ratio_c=dual,
    )
    # verl hands the denominators of the whole batch to agg_loss in this way.
    config.global_batch_info.update(loss_scale_factor=MOST)
    wide = advantage[:, None].expand(-1, width)
    return graded(lambda leaf: verl.get_policy_loss_fn(kind)(old, leaf, wide, mask, AGGREGATIONS[aggregation], config)[0])


def trl_loss(loss_type, level='token', low=0.2, high=0.2, delta=None, share=1.0, beta=0.0):
    accelerator = SimpleNamespace(
        num_processes=1,
        sync_gradients=True,
        gather=lambda values: values,
        pad_across_processes=lambda values, **_: values,
        reduce=lambda values, **_: values,
    )

    class Metrics(dict):
        def __missing__(self, key):
            self[key] = []
            return self[key]

    trainer = SimpleNamespace(
        accelerator=accelerator,
        model=SimpleNamespace(training=True),
        aux_loss_enabled=False,
        top_entropy_quantile=share,
        off_policy_mask_threshold=None,
        importance_sampling_level=level,
        beta=beta,
        loss_type=loss_type,
        epsilon_low=low,
        epsilon_high=high,
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=MOST,
        _entropy_bonus_enabled=False,
        _metrics={'train': Metrics(), 'eval': Metrics()},
        args=SimpleNamespace(delta=delta, use_bias_correction_kl=False, steps_per_generation=1),
    )
    trainer.get_high_entropy_mask = lambda *given: GRPOTrainer.get_high_entropy_mask(trainer, *given)

    def of(leaf):
        trainer._get_per_token_logps_and_entropies = lambda *_, **__: (leaf, entropy, None)
        ids = torch.zeros(5, width, dtype=torch.long)
        inputs = {
            'prompt_ids': ids,
            'prompt_mask': mask,
            'completion_ids': ids,
            'completion_mask': mask,
            'advantages': advantage,
            'old_per_token_logps': old,
            'ref_per_token_logps': reference,
            'num_items_in_batch': mask.sum(),
        }
        return GRPOTrainer._compute_loss(trainer, trainer.model, inputs)

    return graded(of)


def case(by, result, **options):
    return {'by': by, 'options': options, **result}


cases = [
    *[case('verl vanilla', verl_loss('vanilla', name), aggregation=name) for name in AGGREGATIONS],
    case('verl vanilla', verl_loss('vanilla', 'token_mean', high=0.28), clipRatioHigh=0.28),
    case('verl vanilla', verl_loss('vanilla', 'token_mean', dual=3.0), clipRatioDual=3.0),
    case('verl vanilla', verl_loss('vanilla', 'sequence_mean', 0.1, 0.3, 1.5), clipRatio=0.1, clipRatioHigh=0.3, clipRatioDual=1.5, aggregation='sequence_mean'),
    case('verl gspo', verl_loss('gspo', 'sequence_mean', 0.03, 0.04), ratio='sequence', clipRatio=0.03, clipRatioHigh=0.04, aggregation='sequence_mean'),
    case('verl gspo', verl_loss('gspo', 'token_mean'), ratio='sequence'),
    case('verl cispo', verl_loss('cispo', 'token_mean', 0.2, 0.3), loss='cispo', clipRatioHigh=0.3),
    case('trl dapo', trl_loss('dapo', high=0.28), clipRatioHigh=0.28),
    case('trl grpo', trl_loss('grpo'), aggregation='sequence_mean'),
    case('trl bnpo', trl_loss('bnpo')),
    case('trl dr_grpo', trl_loss('dr_grpo'), aggregation='constant'),
    case('trl grpo, sequence level', trl_loss('grpo', 'sequence', 0.03, 0.04), ratio='sequence', clipRatio=0.03, clipRatioHigh=0.04, aggregation='sequence_mean'),
    case('trl cispo', trl_loss('cispo', high=1.3), loss='cispo', clipRatio=0.999999, clipRatioHigh=0.3),
    case('trl dapo, 30 % of the tokens', trl_loss('dapo', share=0.3), topEntropy=0.3),
    case('trl dapo, 30 % of the tokens and a divergence', trl_loss('dapo', share=0.3, beta=0.05), topEntropy=0.3, kl=0.05),
]

apart = torch.tensor([0.0, 0.3, -0.7, 2.0, 2.62, -3.0, 6.0, -12.0, 30.0])


def divergence(name):
    leaf = torch.zeros(len(apart)).requires_grad_()
    value = verl.kl_penalty(leaf, apart, name)
    (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return {'value': rounded(value), 'gradient': rounded(gradient)}


losses = {
    'source': 'test/golden/make_policy.py',
    'versions': VERSIONS,
    'lengths': lengths,
    'most': MOST,
    'advantage': rounded(advantage),
    'logProb': flat(log_prob),
    'oldLogProb': flat(old),
    'referenceLogProb': flat(reference),
    'entropy': flat(entropy),
    'cases': cases,
    'divergence': {'apart': rounded(apart), **{name: divergence(name) for name in ('k1', 'k2', 'k3')}},
}

os.makedirs(f'{here}/policy', exist_ok=True)
for name, value in (('advantages', advantages), ('losses', losses)):
    with open(f'{here}/policy/{name}.json', 'w') as file:
        json.dump(value, file)
        file.write('\n')
