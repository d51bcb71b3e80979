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
// D = 32·E channels each lane takes E. `merge` combines the partial results of a row's blocks, in the order of the keys.
constexpr const char* kStep = R"(
constexpr int D = 32 * E, WARPS = 8, AHEAD = 4;
constexpr int RP = R <= 1 ? 1 : R <= 2 ? 2 : R <= 4 ? 4 : R <= 8 ? 8 : 16;  // a power of two

struct Rows { const T* data; long long batch, head, row; };  // strides; the last axis is contiguous
struct Hidden { const T* data; long long batch, column; };

__device__ inline float turned(const T* x, const T* cos, const T* sin, int d) {
  const float other = d < D / 2 ? -wide(x[d + D / 2]) : wide(x[d - D / 2]);
  return wide(Narrow<T>::of(wide(x[d]) * wide(cos[d]) + other * wide(sin[d])));
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
step(const T* qkv, long long stride, const T* cos, const T* sin, int angle, Rows keys, Rows values, const long long* at,
     int used, Hidden mask, Rows prefixKeys, Rows prefixValues, Hidden prefixMask, int group, int before, int heads,
     int columns, float scale, int chunk, int splits, float* partial, T* out) {
  extern __shared__ float shared[];
  float* query = shared;                // [R, D]
  float* scores = query + R * D;        // [R, chunk]
  float* sums = scores + R * chunk;     // [WARPS, D]
  float* most = sums + WARPS * D;       // [R]
  float* mass = most + R;               // [R]
  const int b = blockIdx.x / heads, h = blockIdx.x % heads, p = b / group;
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
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

  float q[R][E];
#pragma unroll
  for (int r = 0; r < R; r++) {
#pragma unroll
    for (int e = 0; e < E; e++) q[r][e] = query[r * D + lane * E + e];
  }
  for (int from = first + warp * AHEAD; from < last; from += WARPS * AHEAD) {
    float k[AHEAD][E];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) load<E>(rowOf(keys, prefixKeys, min(from + a, last - 1)), k[a]);
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
      int head = 0, bit = 16;
#pragma unroll
      for (int n = RP / 2; n > 0; n /= 2, bit /= 2) {
        const bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < n; i++) {
          const float sent = upper ? dot[i] : dot[i + n], kept = upper ? dot[i + n] : dot[i];
          dot[i] = kept + __shfl_xor_sync(0xffffffff, sent, bit);
        }
        head += upper ? n : 0;
      }
      const int rest = 2 * bit - 1;  // lanes that share a head
      for (; bit > 0; bit /= 2) dot[0] += __shfl_xor_sync(0xffffffff, dot[0], bit);
      if (from + a < last && (lane & rest) == 0 && head < R) {
        scores[head * chunk + from + a - first] = dot[0] + hidden(from + a);
      }
    }
  }
  __syncthreads();
  for (int r = warp; r < R; r += WARPS) {
    float* row = scores + r * chunk;
    float largest = -kInfinity, sum = 0;
    for (int i = lane; i < last - first; i += 32) largest = row[i] > largest || row[i] != row[i] ? row[i] : largest;
    for (int bit = 16; bit > 0; bit /= 2) {
      const float other = __shfl_xor_sync(0xffffffff, largest, bit);
      largest = other > largest || other != other ? other : largest;
    }
    for (int i = lane; i < last - first; i += 32) {
      row[i] = largest == -kInfinity ? 0 : expf(row[i] - largest);
      sum += row[i];
    }
    for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(0xffffffff, sum, bit);
    if (lane == 0) {
      most[r] = largest;
      mass[r] = sum;
    }
  }
  __syncthreads();
  float mixed[R][E] = {};
  for (int from = first + warp * AHEAD; from < last; from += WARPS * AHEAD) {
    float v[AHEAD][E];
#pragma unroll
    for (int a = 0; a < AHEAD; a++) load<E>(rowOf(values, prefixValues, min(from + a, last - 1)), v[a]);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
#pragma unroll
      for (int r = 0; r < R; r++) {
        const float weight = from + a < last ? scores[r * chunk + from + a - first] : 0;
#pragma unroll
        for (int e = 0; e < E; e++) mixed[r][e] += weight * v[a][e];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < R; r++) {
#pragma unroll
    for (int e = 0; e < E; e++) sums[warp * D + lane * E + e] = mixed[r][e];
    __syncthreads();
    const size_t head = (size_t)(b * heads + h) * R + r;
    for (int d = thread; d < D; d += 32 * WARPS) {
      float sum = 0;
      for (int w = 0; w < WARPS; w++) sum += sums[w * D + d];
      if (splits == 1) out[head * D + d] = Narrow<T>::of(sum / mass[r]);
      else partial[(head * splits + blockIdx.y) * (D + 2) + d] = sum;
    }
    if (splits > 1 && thread < 2) {
      partial[(head * splits + blockIdx.y) * (D + 2) + D + thread] = thread == 0 ? most[r] : mass[r];
    }
    __syncthreads();
  }
}

extern "C" __global__ void merge(const float* partial, T* out, int splits) {
  const float* part = partial + (size_t)blockIdx.x * splits * (D + 2);
  float largest = -kInfinity, sum = 0, mass = 0;
  for (int i = 0; i < splits; i++) {
    const float other = part[i * (D + 2) + D];
    largest = other > largest || other != other ? other : largest;
  }
  for (int i = 0; i < splits; i++, part += D + 2) {
    if (part[D] == -kInfinity) continue;  // it saw nothing, and its sums may never have been written
    const float share = expf(part[D] - largest);
    sum += share * part[threadIdx.x];
    mass += share * part[D + 1];
  }
  out[(size_t)blockIdx.x * D + threadIdx.x] = Narrow<T>::of(sum / mass);
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
    const std::string constants =
        body == kRows ? "constexpr int N = " + one + ";\n" : "constexpr int E = " + one + ", R = " + two + ";\n";
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

// Elements that fit into 16 bytes, where rows of `width` and the addresses allow it; otherwise 1.
int together(int64_t width, std::initializer_list<const Tensor*> tensors) {
  const int most = static_cast<int>(16 / (*tensors.begin())->element_size());
  bool fits = width % most == 0;
  for (const Tensor* tensor : tensors) fits = fits && reinterpret_cast<uintptr_t>(tensor->data_ptr()) % 16 == 0;
  return fits ? most : 1;
}

Program rowProgram(const Tensor& like, int n) {
  return {kRows, like.scalar_type(), n, 0};
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
    kernelOf({kRows, at::kFloat, 1, 0}, "glu", device);
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
  const int most = together(width / 2, {&x, &y});
  const int n = stride % most == 0 ? most : 1;
  launch(y, rowProgram(y, n), "rotary", rowGrid(batch * length, heads * width / 2, n), x.data_ptr(), stride,
         cos.data_ptr(), sin.data_ptr(), y.data_ptr(), static_cast<int>(cos.size(0) * cos.size(1)),
         static_cast<int>(heads), static_cast<int>(width), transposed ? 1 : 0);
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
  // About two blocks for each processor, of at least 32 and at most 256 keys.
  const int64_t wanted = (most * batch * heads + 263) / 264;
  const int64_t chunk = std::min<int64_t>(256, std::max<int64_t>(32, (wanted + 31) / 32 * 32));
  const int64_t splits = (most + chunk - 1) / chunk;
  const auto floats = qkv.options().dtype(at::kFloat);
  const Tensor partial = splits == 1 ? Tensor() : at::empty({batch * queryHeads, splits, width + 2}, floats);
  const Program program{kStep, qkv.scalar_type(), e, repeat};
  const size_t shared = sizeof(float) * (repeat * width + repeat * chunk + 8 * width + 2 * repeat);
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
