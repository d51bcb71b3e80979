"""GRPO by TRL's own trainer on the prompts and pictures of a directory, with somebody else's reward.

    python trl_grpo.py --policy DIR --work DIR [--threads N] [--rows N]

DIR of `--work` holds `grpo.json`, which `trl.ts` writes, and a picture `N.png` for each prompt. Question `train`: the seconds from the
beginning to the end of every step, and the mean reward of its completions. Rewards are asked for: a line {"request": {"numbers",
"ids"}} on standard output is answered with a line of numbers. `--rows` completions go through the model at once.
"""

import argparse
import json
import os
import sys
import time

out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print must not stand between the lines

import torch
import transformers
import trl
from datasets import Dataset, Image
from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration, TrainerCallback
from trl import GRPOConfig, GRPOTrainer


def say(value):
    print(json.dumps(value), file=out, flush=True)


def check_prompt(processor, work, row):
    """Raises AssertionError where the processor does not make what timeseer makes of the first prompt."""
    message = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": work["prompts"][0]}]}]
    text = processor.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    made = processor(text=[text], images=[row["image"]], return_tensors="pt")
    assert made["input_ids"][0].tolist() == work["ids"], "other tokens than timeseer's"
    own = torch.tensor(work["patches"])
    patches = made["pixel_values"].view(made["pixel_values"].shape[0], 3, 2, -1)[:, :, 0].flatten()
    assert (patches - own).abs().max() < 1e-4, "another picture than timeseer's"


class Clock(TrainerCallback):
    def __init__(self):
        self.seconds = []

    def on_train_begin(self, *_, **__):
        self.began = time.perf_counter()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.began)


def train(options):
    work = json.load(open(os.path.join(options.work, "grpo.json")))
    data = Dataset.from_dict(
        {
            "prompt": [[{"role": "user", "content": text}] for text in work["prompts"]],
            "image": [os.path.join(options.work, f"{n}.png") for n in range(len(work["prompts"]))],
            "number": list(range(len(work["prompts"]))),
        }
    ).cast_column("image", Image())
    processor = AutoProcessor.from_pretrained(options.policy, padding_side="left")
    check_prompt(processor, work, data[0])
    means = []

    def reward(completion_ids, number, **_):
        say({"request": {"numbers": number, "ids": completion_ids}})
        scores = json.loads(sys.stdin.readline())
        means.append(sum(scores) / len(scores))
        return scores

    rows = work["promptsPerStep"] * work["group"]
    config = GRPOConfig(
        output_dir=os.path.join(options.work, "trl"), use_cpu=True, bf16=False, fp16=False, gradient_checkpointing=False,
        report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=work["seed"],
        max_steps=work["steps"], per_device_train_batch_size=options.rows, gradient_accumulation_steps=rows // options.rows,
        num_generations=work["group"], shuffle_dataset=False, max_completion_length=work["maxTokens"],
        temperature=work["temperature"], top_p=1.0, top_k=0, generation_kwargs={"suppress_tokens": work["forbidden"]},
        loss_type="dapo", scale_rewards="group", epsilon=work["clipRatio"], beta=work["kl"], num_iterations=1,
        learning_rate=work["learningRate"], lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": work["minLearningRate"]}, warmup_steps=work["warmup"],
        adam_beta1=work["betas"][0], adam_beta2=work["betas"][1], weight_decay=0.0, max_grad_norm=work["clip"],
        optim="adamw_torch_fused",
    )
    clock = Clock()
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(options.policy, dtype=torch.float32)
    trainer = GRPOTrainer(
        model=model, reward_funcs=reward, args=config, train_dataset=data, processing_class=processor, callbacks=[clock]
    )
    trainer.train()
    return [{"seconds": seconds, "reward": mean} for seconds, mean in zip(clock.seconds, means)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--policy", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    say({"versions": f"TRL {trl.__version__}, torch {torch.__version__}, transformers {transformers.__version__}"})
    for _ in sys.stdin:
        say(train(options))
