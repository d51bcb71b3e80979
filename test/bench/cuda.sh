#!/usr/bin/env bash
# On a machine with an NVIDIA GPU, a CUDA build of PyTorch and a C++ compiler: builds the engine, runs the suites of
# engine and policy on the GPU in float32 and bfloat16, trains a short while, then runs the benchmarks, and prints their
# tables. Node 20.19 or later is taken from PATH, or from what cuda-pack.sh packed.
#
#   test/bench/cuda.sh                    everything
#   test/bench/cuda.sh suites             the suites alone; also: train, large, update, nano
#   TIMESEER_PYTHON=/path/to/python       the Python that holds PyTorch (and transformers, the peer); default python3
#   TIMESEER_TEST_DEVICE=cuda:1           another GPU
set -euo pipefail
cd "$(dirname "$0")/../.."

device="${TIMESEER_TEST_DEVICE:-cuda}"
export TIMESEER_PYTHON="${TIMESEER_PYTHON:-$(command -v python3 || true)}"
parts="${*:-suites train large update nano}"
fail() {
  echo "cuda.sh: $*" >&2
  exit 1
}
step() { printf '\n── %s (after %d s)\n' "$1" "$SECONDS"; }

command -v nvidia-smi >/dev/null || fail "no nvidia-smi in PATH: this machine shows no NVIDIA driver"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
[ -n "$TIMESEER_PYTHON" ] || fail "no python3 in PATH: set TIMESEER_PYTHON to one that holds a CUDA build of PyTorch"
"$TIMESEER_PYTHON" -c 'import torch; assert torch.cuda.is_available(); print("torch", torch.__version__)' ||
  fail "$TIMESEER_PYTHON has no PyTorch that sees the GPU"

if ! command -v node >/dev/null; then
  [ -f .cuda/node.xz ] || fail "no node in PATH: install Node 20.19 or later, or bring one with cuda-pack.sh"
  home="${TMPDIR:-/tmp}/timeseer-node"
  mkdir -p "$home"
  [ -x "$home/node" ] || { xz -dc .cuda/node.xz >"$home/node" && chmod +x "$home/node"; }
  export PATH="$home:$PATH"
fi
if [ ! -d node_modules ]; then
  if [ -f .cuda/node_modules.tar.xz ]; then tar -xJf .cuda/node_modules.tar.xz; else npm ci; fi
fi
if [ ! -d dist ] && [ -f .cuda/dist.tar.xz ]; then tar -xJf .cuda/dist.tar.xz; fi
echo "node $(node --version)"
tsx() { node --import tsx "$@"; }

step 'building the engine'
tsx src/cli.ts setup

for part in $parts; do
  case "$part" in
    suites)
      step "suites of engine and policy on $device"
      # Parity is in float32 and bfloat16 against what transformers gave on a processor.
      TIMESEER_TEST_DEVICE="$device" node node_modules/vitest/vitest.mjs run --maxWorkers "$(($(nproc) / 2 + 1))" \
        test/engine/{torch,rebind,distributed}.test.ts test/policy test/train test/run/{world,added-tokens}.test.ts
      ;;
    train)
      step "the shortened quickstart on $device and on the processor"
      for on in "$device" cpu; do
        tsx src/cli.ts quickstart --recipe quickstart-short --quiet --device "$on" --out "runs/cuda-$on" --force
      done
      step "a shorter quickstart on $device and on the processor: seconds of both stages"
      for on in "$device" cpu; do
        tsx src/cli.ts quickstart --set rl.steps=20 --set data.heldOut=100 --json --device "$on" \
          --out "runs/cuda-longer-$on" --force |
          node -e 'let all = ""; process.stdin.on("data", (part) => (all += part)).on("end", () => {
            const { sft, rl } = JSON.parse(all);
            console.log(process.argv[1], sft.seconds.toFixed(1), rl.seconds.toFixed(1));
          })' "$on"
      done
      step "answers of the policy trained on $device, there and on the processor"
      for on in "$device" cpu; do
        tsx src/cli.ts eval --policy "runs/cuda-$device" --task nano5 --count 50 --no-classical --quiet \
          --device "$on" --out "runs/cuda-eval-$on" --force >/dev/null
      done
      node -e '
        const [ours, theirs] = process.argv.slice(1).map((file) =>
          require("fs").readFileSync(file, "utf8").trim().split("\n").map((line) => JSON.parse(line).response));
        console.log(`${ours.filter((text, i) => text === theirs[i]).length} of ${ours.length} answers are equal`);
      ' "runs/cuda-eval-$device/records.jsonl" runs/cuda-eval-cpu/records.jsonl
      ;;
    large)
      step 'Qwen2.5-VL-3B sizes, bfloat16: prefill and decoding'
      tsx test/bench/large.ts --size 3b --device "$device" --dtype bfloat16 --only forward,greedy \
        --prompts 32 --group 5 --tokens 64 --batches 1,32,128 --steps 128
      ;;
    update)
      step 'Qwen2.5-VL-3B sizes, bfloat16: one GRPO update of 32 prompts × 5 responses × 512 tokens'
      # Both hold their optimizers on one card: segments that grow leave no room unused between them.
      PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
        tsx test/bench/large.ts --size 3b --device "$device" --dtype bfloat16 --only grpo \
        --prompts 32 --group 5 --tokens 512 --rounds 1
      # Training takes up to 32 768 tokens at once; in parts of 4096, which leave the peer room, the GPU waits for the host.
      if [ "$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -1)" -gt 120000 ]; then
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
          tsx test/bench/large.ts --size 3b --device "$device" --dtype bfloat16 --only grpo --micro-batch 16384 \
          --prompts 32 --group 5 --tokens 512 --rounds 1 --alone
      fi
      ;;
    nano)
      step "nano benchmarks on $device and on the processor"
      tsx test/bench/cuda.ts --device "$device" --rounds 2
      ;;
    *) fail "no part called $part: suites, train, large, update, nano" ;;
  esac
done
step 'done'
