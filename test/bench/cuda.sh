#!/usr/bin/env bash
# On a machine with an NVIDIA GPU, Node 20.19 or later and a CUDA build of PyTorch (or LIBTORCH): builds the engine,
# runs its suite on the GPU, then the benchmarks on GPU and processor, and prints one table.
#
#   test/bench/cuda.sh                    the Python is python3, or what TIMESEER_PYTHON names
#   TIMESEER_TEST_DEVICE=cuda:1 test/bench/cuda.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

device="${TIMESEER_TEST_DEVICE:-cuda}"
fail() {
  echo "cuda.sh: $*" >&2
  exit 1
}

command -v node >/dev/null || fail "no node in PATH: install Node 20.19 or later"
command -v nvidia-smi >/dev/null || fail "no nvidia-smi in PATH: this machine shows no NVIDIA driver"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

[ -d node_modules ] || npm ci
npm run build
npm run setup

echo "── the engine's suite on ${device}"
TIMESEER_TEST_DEVICE="${device}" npx vitest run test/engine/torch.test.ts

echo "── benchmarks on ${device} and on the processor"
npx tsx test/bench/cuda.ts --device "${device}"
