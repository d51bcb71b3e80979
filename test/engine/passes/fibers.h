// Runs the kernels of passes.cc on the processor: the threads of a block are fibers of one thread, which take turns at every
// barrier and every exchange within a warp. Beside each result stands that of plain loops in double precision. What cannot
// be seen here: memory and hardware of a GPU, half precision, and how passes.cc lays out a launch.
#define _XOPEN_SOURCE 700  // for ucontext.h on macOS
#include <ucontext.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

// ---- CUDA's words ------------------------------------------------------------------------------------------------

struct Index {
  int x = 0, y = 0;
};
static Index threadIdx, blockIdx, blockDim;
static int current, waiting, alive, generation;
static struct Warp {
  int waiting = 0, generation = 0;
  double slots[32];
} warps[8];
static std::vector<ucontext_t> fibers;
static std::vector<char> finished;
static ucontext_t scheduler;

static void yield() { swapcontext(&fibers[current], &scheduler); }
// All threads of a block must come here, ended ones excepted, as on a GPU.
static void __syncthreads() {
  const int mine = generation;
  if (++waiting == alive) waiting = 0, generation++;
  while (generation == mine) yield();
}
static void meet(Warp& warp) {
  const int mine = warp.generation;
  if (++warp.waiting == 32) warp.waiting = 0, warp.generation++;
  while (warp.generation == mine) yield();
}
// The value of another lane; doubles hold every float and every int.
template <typename Value>
static Value exchange(Value value, int lane) {
  Warp& warp = warps[current / 32];
  warp.slots[current % 32] = static_cast<double>(value);
  meet(warp);
  const double other = warp.slots[lane];
  meet(warp);
  return static_cast<Value>(other);
}
template <typename Value>
static Value __shfl_xor_sync(unsigned, Value value, int bit) { return exchange(value, (current % 32) ^ bit); }
template <typename Value>
static Value __shfl_up_sync(unsigned, Value value, int by) { return exchange(value, current % 32 < by ? current % 32 : current % 32 - by); }
static void __syncwarp() { meet(warps[current / 32]); }
template <typename To, typename From>
static To bitsOf(From from) {
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
static float __uint_as_float(unsigned bits) { return bitsOf<float>(bits); }
static unsigned __float_as_uint(float value) { return bitsOf<unsigned>(value); }
static float __int_as_float(int bits) { return bitsOf<float>(bits); }
static int min(int a, int b) { return a < b ? a : b; }
float shared[1 << 14];

static std::function<void()> kernel;
static void enter() {
  kernel();
  finished[current] = 1;
  alive--;
  if (alive > 0 && waiting == alive) waiting = 0, generation++;
  yield();
}
static void launch(int gridX, int gridY, int threads, const std::function<void()>& body) {
  static std::vector<std::vector<char>> stacks(256, std::vector<char>(1 << 16));
  kernel = body;
  blockDim = {threads, 1};
  for (int x = 0; x < gridX; x++) {
    for (int y = 0; y < gridY; y++) {
      std::fill(shared, shared + (1 << 14), NAN);  // what nobody wrote is not a number
      fibers.assign(threads, {});
      finished.assign(threads, 0);
      alive = threads;
      for (int t = 0; t < threads; t++) {
        getcontext(&fibers[t]);
        fibers[t].uc_stack.ss_sp = stacks[t].data();
        fibers[t].uc_stack.ss_size = stacks[t].size();
        makecontext(&fibers[t], enter, 0);
      }
      while (alive > 0) {
        for (int t = threads - 1; t >= 0; t--) {  // not the order of the indices, which would hide a missing barrier
          if (finished[t]) continue;
          current = t;
          threadIdx = {t, 0};
          blockIdx = {x, y};
          swapcontext(&scheduler, &fibers[t]);
        }
      }
    }
  }
}

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(...)
#define asm(...)  // conversions of half precision
static void __trap() { std::abort(); }

// ---- what is compared --------------------------------------------------------------------------------------------

static unsigned long long seed = 7;
static double uniform() {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return double(seed >> 40) / (1 << 24) * 2 - 1;
}

// Elements as they are stored, and what they stand for.
template <typename T>
struct Array {
  explicit Array(size_t size, double scale = 0) : data(static_cast<T*>(aligned_alloc(64, (size * sizeof(T) + 127) / 64 * 64))), size(size) {
    for (size_t i = 0; i < size; i++) put(i, scale * uniform());
  }
  void put(size_t i, double value) {
    if constexpr (sizeof(T) == 4) data[i] = static_cast<float>(value);
    else {
      const unsigned bits = bitsOf<unsigned>(static_cast<float>(value));
      data[i].bits = static_cast<unsigned short>(bits >> 16);  // any of bfloat16's numbers will do
    }
  }
  double get(size_t i) const {
    if constexpr (sizeof(T) == 4) return data[i];
    else return bitsOf<float>(static_cast<unsigned>(data[i].bits) << 16);
  }
  T* data;
  size_t size;
};

static void report(const char* name, double worst, double allowed) {
  std::printf("{\"name\": \"%s\", \"worst\": %.3g, \"allowed\": %.3g}\n", name, std::isnan(worst) ? 1e30 : worst, allowed);
}
struct Worst {
  double value = 0;
  void see(double got, double wanted) {
    const double error = std::fabs(got - wanted) / (1 + std::fabs(wanted));
    if (!(error <= value)) value = std::isnan(error) ? 1e30 : std::max(value, error);
  }
};
