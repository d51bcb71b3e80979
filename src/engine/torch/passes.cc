// The passes of passes.h: their source, how it is compiled (NVRTC, which every CUDA build of libtorch brings) and launched.
// A chain of ATen's operators reads and writes the whole of its tensors once per operator, and at a decoding step of a few
// rows each operator costs its launch: a step of 36 layers was 900 kernels.
#include "passes.h"

#ifdef TIMESEER_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#endif

#include <algorithm>
#include <cmath>

namespace timeseer {

using at::Tensor;

namespace {

// Returns true if lanes can read E elements at once of any row of [.., .., .., D].
bool inLanes(const Tensor& rows, int64_t e) {
  return rows.stride(3) == 1 && rows.stride(0) % e == 0 && rows.stride(1) % e == 0 && rows.stride(2) % e == 0 &&
         reinterpret_cast<uintptr_t>(rows.data_ptr()) % (e * rows.element_size()) == 0;
}

}  // namespace

#ifdef TIMESEER_CUDA
namespace {

// ---- source ------------------------------------------------------------------------------------------------------

// T: what is stored; arithmetic is in float. N elements are read at once.
constexpr const char* kCommon = R"(
#define kInfinity __int_as_float(0x7f800000)
struct Bf16 { unsigned short bits; };
struct Half { unsigned short bits; };
__device__ inline float wide(float x) { return x; }
__device__ inline float wide(Bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ inline float wide(Half x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
template <typename Type> struct Narrow;
template <> struct Narrow<float> { static __device__ float of(float x) { return x; } };
template <> struct Narrow<Half> {
  static __device__ Half of(float x) { Half y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
};
template <> struct Narrow<Bf16> {
  static __device__ Bf16 of(float x) {
    const unsigned bits = __float_as_uint(x);
    if (x != x) return {(unsigned short)((bits >> 16) | 64)};
    return {(unsigned short)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};  // to even
  }
};
template <int N> struct alignas(N * sizeof(T)) Pack { T of[N]; };
template <int N> __device__ inline void load(const T* from, float (&to)[N]) {
  const Pack<N> pack = *(const Pack<N>*)from;
  for (int i = 0; i < N; i++) to[i] = wide(pack.of[i]);
}
template <int N> __device__ inline void store(const float (&from)[N], T* to) {
  Pack<N> pack;
  for (int i = 0; i < N; i++) pack.of[i] = Narrow<T>::of(from[i]);
  *(Pack<N>*)to = pack;
}
)";

// Blocks: rows × parts of a row. `glu` and `rotary` compute as fused.cc does on the CPU.
constexpr const char* kRows = R"(
__device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

extern "C" __global__ void glu(const T* gateUp, T* y, int width) {
  const int d = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (d >= width) return;
  const T* gate = gateUp + (size_t)blockIdx.x * 2 * width + d;
  float g[N], u[N], out[N];
  load<N>(gate, g);
  load<N>(gate + width, u);
  for (int i = 0; i < N; i++) out[i] = g[i] * sigmoid(g[i]) * u[i];
  store<N>(out, y + (size_t)blockIdx.x * width + d);
}

extern "C" __global__ void glu_backward(const T* gradient, const T* gateUp, T* out, int width) {
  const int d = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (d >= width) return;
  const size_t at = (size_t)blockIdx.x * 2 * width + d;
  float go[N], g[N], u[N], toGate[N], toUp[N];
  load<N>(gradient + (size_t)blockIdx.x * width + d, go);
  load<N>(gateUp + at, g);
  load<N>(gateUp + at + width, u);
  for (int i = 0; i < N; i++) {
    const float s = sigmoid(g[i]), scaled = go[i] * s;
    toGate[i] = scaled * u[i] * (1 + g[i] * (1 - s));
    toUp[i] = scaled * g[i];
  }
  store<N>(toGate, out + at);
  store<N>(toUp, out + at + width);
}

// A block adds a row of y to one of x, rounds the sum, and normalises it; a thread holds at most HELD parts of N.
constexpr int HELD = 4;
extern "C" __global__ void add_norm(const T* x, const T* y, const T* w, T* sum, T* normed, int width, float epsilon) {
  extern __shared__ float shared[];  // a number for each warp
  const size_t row = (size_t)blockIdx.x * width;
  float held[HELD][N], squares = 0;
#pragma unroll
  for (int p = 0; p < HELD; p++) {
    const int d = (p * blockDim.x + threadIdx.x) * N;
    if (d >= width) continue;
    float more[N];
    load<N>(x + row + d, held[p]);
    load<N>(y + row + d, more);
#pragma unroll
    for (int i = 0; i < N; i++) {
      held[p][i] = wide(Narrow<T>::of(held[p][i] + more[i]));
      squares += held[p][i] * held[p][i];
    }
    store<N>(held[p], sum + row + d);
  }
  for (int bit = 16; bit > 0; bit /= 2) squares += __shfl_xor_sync(0xffffffff, squares, bit);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0;
  for (int warp = 0; warp < blockDim.x / 32; warp++) total += shared[warp];
  const float inverse = 1 / sqrtf(total / width + epsilon);
#pragma unroll
  for (int p = 0; p < HELD; p++) {
    const int d = (p * blockDim.x + threadIdx.x) * N;
    if (d >= width) continue;
    float factors[N], out[N];
    load<N>(w + d, factors);
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = held[p][i] * inverse * factors[i];
    store<N>(out, normed + row + d);
  }
}

// A thread turns N pairs: x [rows, heads, D], rows `stride` apart; cos and sin [angles, D].
extern "C" __global__ void rotary(const T* x, long long stride, const float* cos, const float* sin, T* y, int angles,
                                  int heads, int width, int transposed) {
  const int half = width / 2, item = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (item >= heads * half) return;
  const int d = item % half;
  const size_t row = blockIdx.x, at = (size_t)(item / half) * width + d;
  const T* in = x + row * stride + at;
  T* out = y + row * heads * width + at;
  const float *c = cos + row % angles * width + d, *s = sin + row % angles * width + d;
  float low[N], high[N], first[N], second[N];
  load<N>(in, low);
  load<N>(in + half, high);
  for (int i = 0; i < N; i++) {
    const float a = transposed ? s[i + half] : -s[i], b = transposed ? -s[i] : s[i + half];
    first[i] = low[i] * c[i] + high[i] * a;
    second[i] = high[i] * c[i + half] + low[i] * b;
  }
  store<N>(first, out);
  store<N>(second, out + half);
}
)";

// A decoding step. A block takes a row, a key head and `chunk` of its keys, for the R query heads that read them; of the
// D = 32·E channels each lane takes E. A warp reads keys and values together and keeps the largest score, the mass and the sums
// of what it has seen (online softmax, Milakov and Gimelshein 2018). `merge` combines the partial results of a row's blocks, in
// the order of the keys.
constexpr const char* kStep = R"(
constexpr int D = 32 * E, WARPS = 8, AHEAD = 4;
constexpr int RP = R <= 1 ? 1 : R <= 2 ? 2 : R <= 4 ? 4 : R <= 8 ? 8 : 16;  // a power of two
constexpr int HEADS = 1024 / D < R ? 1024 / D : R;  // whose sums the shared memory holds at a time

struct Rows { const T* data; long long batch, head, row; };  // strides; the last axis is contiguous
struct Hidden { const T* data; long long batch, column; };
struct alignas(16) Four { float of[AHEAD]; };

__device__ inline float turned(const T* x, const T* cos, const T* sin, int d) {
  const float other = d < D / 2 ? -wide(x[d + D / 2]) : wide(x[d - D / 2]);
  return wide(Narrow<T>::of(wide(x[d]) * wide(cos[d]) + other * wide(sin[d])));
}
__device__ inline float larger(float a, float b) { return b > a || b != b ? b : a; }  // NaN is the largest

extern "C" __global__ void __launch_bounds__(32 * WARPS, E * R <= 32 ? 2 : 1)
step(const T* qkv, long long stride, const T* cos, const T* sin, int angle, Rows keys, Rows values, const long long* at,
     int used, Hidden mask, Rows prefixKeys, Rows prefixValues, Hidden prefixMask, int group, int before, int heads,
     int columns, float scale, int chunk, int splits, float* partial, T* out) {
  extern __shared__ float shared[];
  const int b = blockIdx.x / heads, h = blockIdx.x % heads, p = b / group;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  // While keys are read:
  float* query = shared;                             // [R, D]
  float* weights = query + R * D + warp * R * 8;     // [R, 8] of a warp: AHEAD weights, and the factor of earlier sums
  // Behind them, in the same place:
  float* tops = shared;                              // [WARPS, R]
  float* masses = tops + WARPS * R;                  // [WARPS, R]
  float* factors = masses + WARPS * R;               // [WARPS, R]
  float* whole = factors + WARPS * R;                // [2, R] largest score and mass of the block
  float* sums = whole + 2 * R;                       // [WARPS, HEADS, D]
  const int column = at == nullptr ? used : (int)*at;
  if (column < 0 || column >= columns) __trap();
  const int total = before + column + 1, first = blockIdx.y * chunk, last = min(first + chunk, total);
  if (first >= total) {
    for (int r = thread; r < R; r += 32 * WARPS) {
      float* part = partial + ((size_t)((b * heads + h) * R + r) * splits + blockIdx.y) * (D + 2);
      part[D] = -kInfinity;
      part[D + 1] = 0;
    }
    return;
  }
  const T *x = qkv + b * stride, *c = cos + b * angle, *s = sin + b * angle;
  for (int i = thread; i < R * D; i += 32 * WARPS) {
    query[i] = turned(x + (h * R + i / D) * D, c, s, i % D) * scale;
  }
  if (last == total) {  // this block alone reads the new column
    const int queryHeads = heads * R;
    for (int d = thread; d < D; d += 32 * WARPS) {
      T* key = (T*)keys.data + b * keys.batch + h * keys.head + column * keys.row;
      T* value = (T*)values.data + b * values.batch + h * values.head + column * values.row;
      key[d] = Narrow<T>::of(turned(x + (queryHeads + h) * D, c, s, d));
      value[d] = x[(queryHeads + heads + h) * D + d];
    }
  }
  __syncthreads();
  const auto rowOf = [&](const Rows& cache, const Rows& prefix, int key) {
    const T* start = key < before ? prefix.data + p * prefix.batch + h * prefix.head + key * prefix.row
                                  : cache.data + b * cache.batch + h * cache.head + (key - before) * cache.row;
    return start + lane * E;
  };
  const auto hidden = [&](int key) {
    const T* behind = mask.data == nullptr ? nullptr : mask.data + b * mask.batch + (key - before) * mask.column;
    const T* front = prefixMask.data == nullptr ? nullptr : prefixMask.data + p * prefixMask.batch + key * prefixMask.column;
    const T* entry = key < before ? front : behind;
    return entry == nullptr ? 0.0f : wide(*entry);
  };

  float q[R][E], mixed[R][E];
#pragma unroll
  for (int r = 0; r < R; r++) {
#pragma unroll
    for (int e = 0; e < E; e++) q[r][e] = query[r * D + lane * E + e], mixed[r][e] = 0;
  }
  // This is about the head whose scores end in this lane:
  float most = -kInfinity, mass = 0;
  int own = 0, lanes = 16;
#pragma unroll
  for (int n = RP / 2; n > 0; n /= 2, lanes /= 2) own += lane & lanes ? n : 0;
  const bool writes = (lane & (2 * lanes - 1)) == 0 && own < R;
  for (int from = first + warp * AHEAD; from < last; from += WARPS * AHEAD) {
    float k[AHEAD][E], v[AHEAD][E], score[AHEAD];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) load<E>(rowOf(keys, prefixKeys, min(from + a, last - 1)), k[a]);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) load<E>(rowOf(values, prefixValues, min(from + a, last - 1)), v[a]);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) score[a] = from + a < last ? hidden(from + a) : -kInfinity;
    float largest = most;
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      float dot[RP];
#pragma unroll
      for (int r = 0; r < RP; r++) {
        dot[r] = 0;
#pragma unroll
        for (int e = 0; e < E; e++) dot[r] += r < R ? q[r < R ? r : 0][e] * k[a][e] : 0;
      }
      // Halves the heads with the lanes, so that R sums over a warp take few more exchanges than one.
      int bit = 16;
#pragma unroll
      for (int n = RP / 2; n > 0; n /= 2, bit /= 2) {
        const bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < n; i++) {
          const float sent = upper ? dot[i] : dot[i + n], kept = upper ? dot[i + n] : dot[i];
          dot[i] = kept + __shfl_xor_sync(0xffffffff, sent, bit);
        }
      }
      for (; bit > 0; bit /= 2) dot[0] += __shfl_xor_sync(0xffffffff, dot[0], bit);
      score[a] += dot[0];
      if (from + a < last) largest = larger(largest, score[a]);
    }
    const float kept = largest == -kInfinity ? 1 : expf(most - largest);
    mass *= kept;
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const float weight = largest == -kInfinity || from + a >= last ? 0 : expf(score[a] - largest);
      mass += weight;
      if (writes) weights[own * 8 + a] = weight;
    }
    if (writes) weights[own * 8 + AHEAD] = kept;
    most = largest;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < R; r++) {
      const Four weight = *(const Four*)(weights + r * 8);
      const float factor = weights[r * 8 + AHEAD];
#pragma unroll
      for (int e = 0; e < E; e++) {
        float sum = mixed[r][e] * factor;
#pragma unroll
        for (int a = 0; a < AHEAD; a++) sum += weight.of[a] * v[a][e];
        mixed[r][e] = sum;
      }
    }
    __syncwarp();
  }
  __syncthreads();
  if (writes) {
    tops[warp * R + own] = most;
    masses[warp * R + own] = mass;
  }
  __syncthreads();
  if (thread < R) {
    float largest = -kInfinity, sum = 0;
    for (int w = 0; w < WARPS; w++) largest = larger(largest, tops[w * R + thread]);
    for (int w = 0; w < WARPS; w++) {
      const float top = tops[w * R + thread], factor = top == -kInfinity ? 0 : expf(top - largest);
      factors[w * R + thread] = factor;
      sum += factor * masses[w * R + thread];
    }
    whole[thread] = largest;
    whole[R + thread] = sum;
  }
  const size_t heads0 = (size_t)(b * heads + h) * R;
#pragma unroll
  for (int from = 0; from < R; from += HEADS) {
#pragma unroll
    for (int r = 0; r < HEADS; r++) {
#pragma unroll
      for (int e = 0; e < E; e++) {
        if (from + r < R) sums[(warp * HEADS + r) * D + lane * E + e] = mixed[from + r < R ? from + r : 0][e];
      }
    }
    __syncthreads();
    for (int i = thread; i < HEADS * D; i += 32 * WARPS) {
      const int r = from + i / D, d = i % D;
      if (r >= R) break;
      float sum = 0;
      for (int w = 0; w < WARPS; w++) sum += factors[w * R + r] * sums[w * HEADS * D + i];
      if (splits == 1) out[(heads0 + r) * D + d] = Narrow<T>::of(sum / whole[R + r]);
      else partial[((heads0 + r) * splits + blockIdx.y) * (D + 2) + d] = sum;
    }
    __syncthreads();
  }
  if (splits > 1 && thread < 2 * R) {
    const int r = thread % R;
    partial[((heads0 + r) * splits + blockIdx.y) * (D + 2) + D + thread / R] = whole[thread];
  }
}

extern "C" __global__ void merge(const float* partial, T* out, int splits) {
  const float* part = partial + (size_t)blockIdx.x * splits * (D + 2);
  float largest = -kInfinity, sum = 0, mass = 0;
  for (int i = 0; i < splits; i++) largest = larger(largest, part[i * (D + 2) + D]);
  for (int i = 0; i < splits; i++, part += D + 2) {
    if (part[D] == -kInfinity) continue;  // it saw nothing, and its sums may never have been written
    const float share = expf(part[D] - largest);
    sum += share * part[threadIdx.x];
    mass += share * part[D + 1];
  }
  out[(size_t)blockIdx.x * D + threadIdx.x] = Narrow<T>::of(sum / mass);
}
)";

// Tokens of a row by one block, from its logits and a mask over all rows (or none): the likeliest (the lowest of equals), or, with
// a draw, the first whose cumulative mass exceeds draw · total, as fused.cc draws on the CPU. The row is read in tiles of
// N · 32 · WARPS tokens: once for the largest score, once for the masses, and then the tile that holds the token.
constexpr const char* kDraw = R"(
constexpr int THREADS = 32 * WARPS;

extern "C" __global__ void __launch_bounds__(THREADS)
draw(const T* logits, long long stride, const float* mask, float temperature, const float* draws, int width, int tiles,
     long long* ids, float* logProbs) {
  extern __shared__ float shared[];
  double* masses = (double*)shared;             // [tiles, WARPS]
  double* totals = masses + tiles * WARPS;      // [tiles] mass of a tile, then [2]: up to the warp that is taken, and of all
  float* tops = (float*)(totals + tiles + 2);   // [WARPS]
  int* places = (int*)(tops + WARPS);           // [WARPS], then [3]: tile, warp, token
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, row = blockIdx.x;
  const T* given = logits + row * stride;
  const auto scores = [&](int tile, float (&s)[N]) {  // returns the first token
    const int first = (tile * THREADS + thread) * N;
    if (first >= width) {
      for (int i = 0; i < N; i++) s[i] = -kInfinity;
      return first;
    }
    load<N>(given + first, s);
#pragma unroll
    for (int i = 0; i < N; i++) s[i] = (mask == nullptr ? s[i] : s[i] + mask[first + i]) / temperature;
    return first;
  };
  const auto mass = [](float score, float most) { return score == -kInfinity ? 0.0f : expf(score - most); };

  float s[N], most = -kInfinity;
  int place = width - 1;
  const auto take = [&](float score, int at) {
    const bool more = score > most || (score != score && most == most);
    const bool same = (score == most || (score != score && most != most)) && at < place;
    if (more || same) most = score, place = at;
  };
#pragma unroll 2
  for (int tile = 0; tile < tiles; tile++) {
    const int first = scores(tile, s);
#pragma unroll
    for (int i = 0; i < N; i++) take(s[i], first + i < width ? first + i : width - 1);
  }
  for (int bit = 16; bit > 0; bit /= 2) {
    const float other = __shfl_xor_sync(0xffffffff, most, bit);
    const int at = __shfl_xor_sync(0xffffffff, place, bit);
    take(other, at);
  }
  if (lane == 0) tops[warp] = most, places[warp] = place;
  __syncthreads();
  for (int w = 0; w < WARPS; w++) take(tops[w], places[w]);

#pragma unroll 2
  for (int tile = 0; tile < tiles; tile++) {
    scores(tile, s);
    float own = 0;
#pragma unroll
    for (int i = 0; i < N; i++) own += mass(s[i], most);
    double sum = own;
    for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(0xffffffff, sum, bit);
    if (lane == 0) masses[tile * WARPS + warp] = sum;
  }
  __syncthreads();
  for (int tile = thread; tile < tiles; tile += THREADS) {
    double sum = 0;
    for (int w = 0; w < WARPS; w++) sum += masses[tile * WARPS + w];
    totals[tile] = sum;
  }
  __syncthreads();
  if (thread == 0) {
    double all = 0, up = 0;
    for (int tile = 0; tile < tiles; tile++) all += totals[tile];
    if (draws == nullptr) {
      ids[row] = place;
      logProbs[row] = (float)-log(all);
    } else {
      const double u = draws[row], draw = (u < 0 ? 0 : u > 1 - 0x1p-32 ? 1 - 0x1p-32 : u) * all;
      int tile = 0, w = 0;
      for (; tile < tiles - 1 && !(up + totals[tile] > draw); tile++) up += totals[tile];
      for (; w < WARPS - 1 && !(up + masses[tile * WARPS + w] > draw); w++) up += masses[tile * WARPS + w];
      places[WARPS] = tile, places[WARPS + 1] = w, places[WARPS + 2] = -1;
      totals[tiles] = draw - up, totals[tiles + 1] = all;
    }
  }
  if (draws == nullptr) return;
  __syncthreads();
  if (warp != places[WARPS + 1]) return;
  const double rest = totals[tiles], all = totals[tiles + 1];
  const int first = scores(places[WARPS], s);
  float own = 0;
  for (int i = 0; i < N; i++) own += mass(s[i], most);
  double upTo = own;
  for (int step = 1; step < 32; step *= 2) {
    const double other = __shfl_up_sync(0xffffffff, upTo, step);
    if (lane >= step) upTo += other;
  }
  const double before = __shfl_up_sync(0xffffffff, upTo, 1), start = lane == 0 ? 0 : before;
  const auto put = [&](int i) {
    places[WARPS + 2] = first + i;
    ids[row] = first + i;
    logProbs[row] = (float)(s[i] - most - log(all));
  };
  if (upTo > rest && !(start > rest)) {
    double sum = start;
    int last = -1, i = 0;
    for (; i < N; i++) {
      const float one = mass(s[i], most);
      sum += one;
      if (one > 0) last = i;
      if (sum > rest && one > 0) break;
    }
    put(i < N ? i : last);
  }
  __syncwarp();
  // Sums in another order may end a rounding below the draw: then the last token that has a mass, or, of NaN, the last of all.
  if (lane == 0 && places[WARPS + 2] < 0) {
    int at = width - 1;
    float score = most;
    for (int token = (places[WARPS] * THREADS + warp * 32 + 32) * N - 1; token >= 0; token--) {
      if (token >= width) continue;
      const float one = (mask == nullptr ? wide(given[token]) : wide(given[token]) + mask[token]) / temperature;
      if (!(mass(one, most) > 0)) continue;
      at = token, score = one;
      break;
    }
    ids[row] = at;
    logProbs[row] = (float)(score - most - log(all));
  }
}
)";

// ---- compiled programs -------------------------------------------------------------------------------------------

// Arguments of the kernels; the layout is that of the source above.
struct Rows {
  const void* data;
  long long batch, head, row;
};
struct Hidden {
  const void* data;
  long long batch, column;
};

// NVRTC and CUDA's driver, as the library holds them from which ATen compiles its own kernels; null without it. Their
// declarations are few and fixed, and nvrtc.h is in no place that is always searched.
struct Driver {
  int (*create)(void** program, const char* source, const char* name, int, const char* const*, const char* const*);
  int (*compile)(void* program, int options, const char* const* values);
  int (*logSize)(void* program, size_t* size);
  int (*log)(void* program, char* into);
  int (*assemblySize)(void* program, size_t* size);
  int (*assembly)(void* program, char* into);
  int (*binarySize)(void* program, size_t* size);
  int (*binary)(void* program, char* into);
  int (*destroy)(void** program);
  decltype(&::cuCtxGetCurrent) context;
  decltype(&::cuModuleLoadData) load;
  decltype(&::cuModuleGetFunction) find;
  decltype(&::cuLaunchKernel) launch;
  decltype(&::cuGetErrorString) describe;
};

const Driver* driver() {
  static const Driver* const all = []() -> const Driver* {
    void* library = dlopen("libcaffe2_nvrtc.so", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    static Driver functions;
    bool complete = true;
    const auto bind = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      complete = complete && function != nullptr;
    };
    bind(functions.create, "nvrtcCreateProgram");
    bind(functions.compile, "nvrtcCompileProgram");
    bind(functions.logSize, "nvrtcGetProgramLogSize");
    bind(functions.log, "nvrtcGetProgramLog");
    bind(functions.assemblySize, "nvrtcGetPTXSize");
    bind(functions.assembly, "nvrtcGetPTX");
    bind(functions.binarySize, "nvrtcGetCUBINSize");
    bind(functions.binary, "nvrtcGetCUBIN");
    bind(functions.destroy, "nvrtcDestroyProgram");
    bind(functions.context, "cuCtxGetCurrent");
    bind(functions.load, "cuModuleLoadData");
    bind(functions.find, "cuModuleGetFunction");
    bind(functions.launch, "cuLaunchKernel");
    bind(functions.describe, "cuGetErrorString");
    return complete ? &functions : nullptr;
  }();
  return all;
}

void check(int code, const char* what) { TORCH_CHECK(code == 0, "passes: ", what, ": NVRTC error ", code); }
void check(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver()->describe(code, &text);
  TORCH_CHECK(false, "passes: ", what, ": ", text == nullptr ? "unknown CUDA error" : text);
}

const char* nameOf(at::ScalarType type) {
  return type == at::kFloat ? "float" : type == at::kBFloat16 ? "Bf16" : type == at::kHalf ? "Half" : nullptr;
}

// A source for one type, and its one or two constants.
struct Program {
  const char* body;
  at::ScalarType type;
  int64_t first, second;

  bool operator<(const Program& other) const {
    return std::tie(body, type, first, second) < std::tie(other.body, other.type, other.first, other.second);
  }
  // The type is defined behind its structures, and before what is built of it.
  std::string source() const {
    const std::string common = kCommon;
    const auto pack = common.find("template <int N> struct alignas");
    const std::string one = std::to_string(first), two = std::to_string(second);
    const std::string names[] = {body == kStep ? "E" : "N", body == kStep ? "R" : "WARPS"};
    const std::string constants = "constexpr int " + names[0] + " = " + one + ", " + names[1] + " = " + two + ";\n";
    return common.substr(0, pack) + "using T = " + nameOf(type) + ";\n" + constants + common.substr(pack) + body;
  }
};

// The program as `architecture` ("sm_90": for that processor; "compute_90": for it and later ones) runs it. Throws with the
// compiler's words.
std::string compiled(const std::string& source, const std::string& architecture) {
  void* program = nullptr;
  check(driver()->create(&program, source.c_str(), "passes.cu", 0, nullptr, nullptr), "creating a program");
  const std::string target = "--gpu-architecture=" + architecture;
  const char* options[] = {target.c_str(), "--std=c++17", "-default-device"};
  const int code = driver()->compile(program, 3, options);
  const auto text = [&](auto size, auto read) {
    size_t length = 0;
    check(size(program, &length), "reading what the compiler gave");
    std::string out(length, '\0');
    check(read(program, &out[0]), "reading what the compiler gave");
    return out;
  };
  TORCH_CHECK(code == 0, "passes: compiling for ", architecture, ": ", text(driver()->logSize, driver()->log));
  const bool finished = architecture.rfind("sm_", 0) == 0;
  const std::string result =
      finished ? text(driver()->binarySize, driver()->binary) : text(driver()->assemblySize, driver()->assembly);
  driver()->destroy(&program);
  return result;
}

// Compiles and loads a program for a device: for just its processor, or for the latest earlier one that the compiler knows,
// which the CUDA driver then translates. A driver older than the compiler takes the first alone.
CUmodule loaded(const Program& program, int device) {
  int major = 0, minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  const std::string own = std::to_string(major) + std::to_string(minor);
  std::string failure;
  for (const std::string& architecture : {"sm_" + own, "compute_" + own, std::string("compute_90"), std::string("compute_80")}) {
    if (architecture == "compute_90" && major < 9) continue;
    if (architecture == "compute_80" && major < 8) continue;
    try {
      CUmodule module;
      check(driver()->load(&module, compiled(program.source(), architecture).c_str()), "loading a program");
      return module;
    } catch (const c10::Error& error) {
      if (failure.empty()) failure = error.what_without_backtrace();
    }
  }
  TORCH_CHECK(false, failure);
}

// CUDA's driver asks for a context, which a thread has after its first call of CUDA's runtime.
void enterContext() {
  CUcontext context = nullptr;
  if (driver()->context(&context) != CUDA_SUCCESS || context == nullptr) C10_CUDA_CHECK(cudaFree(nullptr));
}

// A kernel of a program, compiled by the first thread that asks; programs stay loaded.
CUfunction kernelOf(const Program& program, const char* name, int device) {
  thread_local std::map<std::tuple<int, const char*, Program>, CUfunction> known;
  CUfunction& kernel = known[{device, name, program}];
  if (kernel != nullptr) return kernel;
  static std::mutex mutex;
  static std::map<std::pair<int, Program>, CUmodule> modules;
  const std::lock_guard<std::mutex> alone(mutex);
  CUmodule& module = modules[{device, program}];
  if (module == nullptr) module = loaded(program, device);
  check(driver()->find(&kernel, module, name), name);
  return kernel;
}

struct Grid {
  int64_t x;
  int64_t y = 1;
  int threads = 256;
  size_t shared = 0;
};

// Runs a kernel on the current stream of the device of `like`.
template <typename... Arguments>
void launch(const Tensor& like, const Program& program, const char* name, const Grid& grid, Arguments... arguments) {
  const c10::cuda::CUDAGuard guard(like.device());
  enterContext();
  TORCH_CHECK(grid.x <= 0x7fffffff && grid.y <= 65535, "passes: ", name, ": too many rows");
  void* pointers[] = {&arguments...};
  check(driver()->launch(kernelOf(program, name, like.get_device()), static_cast<unsigned>(grid.x),
                                static_cast<unsigned>(grid.y), 1, grid.threads, 1, 1, static_cast<unsigned>(grid.shared),
                                c10::cuda::getCurrentCUDAStream(like.get_device()).stream(), pointers, nullptr),
        name);
}

// Elements that a thread reads at once: a power of two, at most 16 bytes, that divides rows of `width` and the addresses.
int together(int64_t width, std::initializer_list<const Tensor*> tensors) {
  const int64_t size = (*tensors.begin())->element_size();
  int64_t bits = width * size | 16;
  for (const Tensor* tensor : tensors) bits |= static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor->data_ptr()));
  return static_cast<int>(std::max<int64_t>(1, (bits & -bits) / size));
}

Program rowProgram(const Tensor& like, int n) {
  return {kRows, like.scalar_type(), n, 8};
}

Grid rowGrid(int64_t rows, int64_t width, int n) { return {rows, (width / n + 255) / 256}; }

Rows rowsOf(const Tensor& tensor) {
  if (!tensor.defined()) return {nullptr, 0, 0, 0};
  return {tensor.data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

Hidden hiddenOf(const Tensor& mask) {
  if (!mask.defined()) return {nullptr, 0, 0};
  return {mask.data_ptr(), mask.size(0) == 1 ? 0 : mask.stride(0), mask.size(3) == 1 ? 0 : mask.stride(3)};
}

}  // namespace

// Tried once per device with a small program: where none can be compiled or loaded, ATen's chains compute.
bool hasPasses(const Tensor& tensor) {
  if (!tensor.is_cuda() || nameOf(tensor.scalar_type()) == nullptr || driver() == nullptr) return false;
  static std::mutex mutex;
  static std::map<int, bool> devices;
  const int device = tensor.get_device();
  const std::lock_guard<std::mutex> alone(mutex);
  const auto tried = devices.find(device);
  if (tried != devices.end()) return tried->second;
  try {
    const c10::cuda::CUDAGuard guard(tensor.device());
    enterContext();
    kernelOf({kRows, at::kFloat, 1, 8}, "glu", device);
    return devices[device] = true;
  } catch (const c10::Error& error) {
    TORCH_WARN("no kernels of our own on ", tensor.device(), ", which is slower: ", error.what_without_backtrace());
    return devices[device] = false;
  }
}

void passSwiglu(const Tensor& gateUp, const Tensor& y) {
  const int64_t width = y.size(-1), rows = width == 0 ? 0 : y.numel() / width;
  if (rows == 0) return;
  const int n = together(width, {&gateUp, &y});
  launch(y, rowProgram(y, n), "glu", rowGrid(rows, width, n), gateUp.data_ptr(), y.data_ptr(),
         static_cast<int>(width));
}

void passSwigluBackward(const Tensor& gradient, const Tensor& gateUp, const Tensor& out) {
  const int64_t width = gradient.size(-1), rows = width == 0 ? 0 : gradient.numel() / width;
  if (rows == 0) return;
  const int n = together(width, {&gradient, &gateUp, &out});
  launch(out, rowProgram(out, n), "glu_backward", rowGrid(rows, width, n), gradient.data_ptr(),
         gateUp.data_ptr(), out.data_ptr(), static_cast<int>(width));
}

void passRotary(const Tensor& given, const Tensor& cos, const Tensor& sin, const Tensor& y, bool transposed) {
  if (y.numel() == 0) return;
  const int64_t batch = y.size(0), length = y.size(1), heads = y.size(2), width = y.size(3);
  const bool rowsApart = given.stride(3) == 1 && (heads == 1 || given.stride(2) == width) &&
                         (batch == 1 || length == 1 || given.stride(0) == length * given.stride(1));
  const Tensor x = rowsApart ? given : given.contiguous();
  const long long stride = length > 1 ? x.stride(1) : x.stride(0);
  int n = together(width / 2, {&x, &y});
  while (stride % n != 0) n /= 2;
  launch(y, rowProgram(y, n), "rotary", rowGrid(batch * length, heads * width / 2, n), x.data_ptr(), stride,
         cos.data_ptr(), sin.data_ptr(), y.data_ptr(), static_cast<int>(cos.size(0) * cos.size(1)),
         static_cast<int>(heads), static_cast<int>(width), transposed ? 1 : 0);
}

bool passAddNorm(const Tensor& x, const Tensor& y, const Tensor& weight, double epsilon, const Tensor& sum, const Tensor& normed) {
  const int64_t width = x.size(-1), rows = width == 0 ? 0 : x.numel() / width;
  const int n = together(width, {&x, &y, &weight, &sum, &normed});
  if (width > 4 * 256 * n) return false;
  if (rows > 0) {
    launch(sum, rowProgram(sum, n), "add_norm", {rows, 1, 256, 8 * sizeof(float)}, x.data_ptr(), y.data_ptr(), weight.data_ptr(),
           sum.data_ptr(), normed.data_ptr(), static_cast<int>(width), static_cast<float>(epsilon));
  }
  return true;
}

namespace {
struct Tiles {
  int n;
  int64_t warps, count;
  size_t shared;
};

// Large vocabularies are read by as many threads as a block may have: one processor alone reads a row.
Tiles tilesOf(const Tensor& logits) {
  const int64_t width = logits.size(1), warps = width > 4096 ? 32 : 4;
  int n = together(width, {&logits});
  while (logits.stride(0) % n != 0) n /= 2;
  const int64_t count = (width + n * 32 * warps - 1) / (n * 32 * warps);
  return {n, warps, count, sizeof(double) * (count * warps + count + 2) + sizeof(float) * (2 * warps + 3)};
}
}  // namespace

bool hasDraw(const Tensor& logits) {
  if (logits.dim() != 2 || logits.size(1) == 0) return false;
  if (logits.is_meta()) return logits.scalar_type() != at::kDouble;
  return hasPasses(logits) && logits.stride(1) == 1 && tilesOf(logits).shared <= 48 << 10;
}

void passDraw(const Tensor& logits, const Tensor& mask, double temperature, const Tensor& draws, const Tensor& ids,
              const Tensor& logProbs) {
  if (logits.size(0) == 0) return;
  const auto [n, warps, count, shared] = tilesOf(logits);
  launch(logits, {kDraw, logits.scalar_type(), n, warps}, "draw", {logits.size(0), 1, static_cast<int>(32 * warps), shared},
         logits.data_ptr(), static_cast<long long>(logits.stride(0)), mask.defined() ? mask.data_ptr() : nullptr,
         temperature == 0 ? 1.0f : static_cast<float>(temperature), temperature == 0 ? nullptr : draws.data_ptr(),
         static_cast<int>(logits.size(1)), static_cast<int>(count), ids.data_ptr(), logProbs.data_ptr());
}

Tensor passStep(const Step& given) {
  const int64_t batch = given.keys.size(0), heads = given.keys.size(1), width = given.keys.size(3), e = width / 32;
  const int64_t queryHeads = given.qkv.size(1) / width - 2 * heads, repeat = queryHeads / heads;
  const Tensor out = at::empty({batch, queryHeads * width}, given.qkv.options());
  if (out.numel() == 0) return out;
  const Tensor qkv = given.qkv.stride(1) == 1 ? given.qkv : given.qkv.contiguous();
  const Tensor cos = given.cos.contiguous(), sin = given.sin.contiguous();
  const auto readable = [&](const Tensor& prefix) {
    return !prefix.defined() || inLanes(prefix, e) ? prefix : prefix.clone(at::MemoryFormat::Contiguous);
  };
  const Tensor prefixKey = readable(given.prefixKey), prefixValue = readable(given.prefixValue);
  const int64_t before = prefixKey.defined() ? prefixKey.size(2) : 0;
  const int64_t most = before + (given.at.defined() ? given.keys.size(2) : given.used + 1);
  // About two blocks for each processor, of at least 32 keys.
  const int64_t wanted = (most * batch * heads + 263) / 264;
  const int64_t chunk = std::max<int64_t>(32, (wanted + 31) / 32 * 32);
  const int64_t splits = (most + chunk - 1) / chunk;
  const auto floats = qkv.options().dtype(at::kFloat);
  const Tensor partial = splits == 1 ? Tensor() : at::empty({batch * queryHeads, splits, width + 2}, floats);
  const Program program{kStep, qkv.scalar_type(), e, repeat};
  const size_t shared = sizeof(float) * std::max(repeat * width + 64 * repeat, 26 * repeat + 8 * width * std::min(repeat, 1024 / width));
  launch(out, program, "step", {batch * heads, splits, 256, shared}, qkv.data_ptr(), static_cast<long long>(qkv.stride(0)),
         cos.data_ptr(), sin.data_ptr(), static_cast<int>(cos.size(0) == 1 ? 0 : width), rowsOf(given.keys),
         rowsOf(given.values), given.at.defined() ? given.at.data_ptr() : nullptr, static_cast<int>(given.used),
         hiddenOf(given.mask), rowsOf(prefixKey), rowsOf(prefixValue), hiddenOf(given.prefixMask),
         static_cast<int>(before == 0 ? batch : batch / prefixKey.size(0)), static_cast<int>(before),
         static_cast<int>(heads), static_cast<int>(given.keys.size(2)), static_cast<float>(1 / std::sqrt(static_cast<double>(width))), static_cast<int>(chunk),
         static_cast<int>(splits), partial.defined() ? partial.data_ptr() : nullptr, out.data_ptr());
  if (splits > 1) {
    launch(out, program, "merge", {batch * queryHeads, 1, static_cast<int>(width), 0}, partial.data_ptr(), out.data_ptr(),
           static_cast<int>(splits));
  }
  return out;
}
#else
bool hasPasses(const Tensor&) { return false; }
void passSwiglu(const Tensor&, const Tensor&) {}
void passSwigluBackward(const Tensor&, const Tensor&, const Tensor&) {}
void passRotary(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool) {}
bool passAddNorm(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&, const Tensor&) { return false; }
bool hasDraw(const Tensor& logits) { return logits.dim() == 2 && logits.is_meta() && logits.scalar_type() != at::kDouble; }
void passDraw(const Tensor&, const Tensor&, double, const Tensor&, const Tensor&, const Tensor&) {}
Tensor passStep(const Step&) { return Tensor(); }
#endif

bool hasStep(const Tensor& keys, const Tensor& values, int64_t queryHeads) {
  const int64_t heads = keys.size(1), width = keys.size(3), e = width / 32, repeat = heads == 0 ? 0 : queryHeads / heads;
  const bool sized = width % 32 == 0 && (e == 1 || e == 2 || e == 4 || e == 8) && repeat >= 1 && repeat <= 16 &&
                     queryHeads % heads == 0 && e * repeat <= 64;
  const auto readable = [&](const Tensor& cache) {
    return (cache.is_meta() && cache.scalar_type() != at::kDouble) || (hasPasses(cache) && inLanes(cache, e));
  };
  return sized && readable(keys) && readable(values);
}

}  // namespace timeseer
