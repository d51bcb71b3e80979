// CUDA beyond its operators: what the device is, its memory, and recorded graphs. TIMESEER_CUDA is defined where CUDA's
// own headers are at hand; without them devices have no name or size here, and nothing is recorded.
#include "binding.h"

#include <torch/cuda.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
#include <c10/core/CachingDeviceAllocator.h>
#define TIMESEER_DEVICE_ALLOCATOR 1  // which devices of other backends have
#endif

#ifdef TIMESEER_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <mutex>
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 2)
#define TIMESEER_GRAPHS 1
#endif
#endif

namespace timeseer {
namespace {

// Whether memory is counted on a device that is not the CPU.
std::atomic<bool> tracking{false};

c10::Device deviceOf(const Napi::Value& name) { return c10::Device(name.As<Napi::String>().Utf8Value()); }

#ifdef TIMESEER_CUDA
// 'cuda' without a number is the current device.
c10::DeviceIndex indexOf(const c10::Device& device) {
  return static_cast<c10::DeviceIndex>(device.has_index() ? device.index() : c10::cuda::current_device());
}

// Waits for this thread's stream, on which it issues everything. CUDA refuses to wait for a whole device while another
// thread records on it.
void finish(c10::DeviceIndex device) { c10::cuda::getCurrentCUDAStream(device).synchronize(); }
#endif

#ifdef TIMESEER_GRAPHS
// One captured graph with a memory pool of its own.
class Graph : public Recording {
 public:
  explicit Graph(c10::DeviceIndex device) : device_(device) {}
  ~Graph() override {
    try {
      finish(device_);  // a replay may still run in the pool that is given back now
    } catch (const std::exception&) {  // the device is lost, and the graph with it
    }
  }

  // Only what this thread does can spoil the capture: other Workers go on allocating.
  void begin() { graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal); }
  void end() { graph_.capture_end(); }
  void replay() override { graph_.replay(); }

  // Leaves stream and allocator as they were before `begin`, however far the capture came. What has already been
  // undone, which differs from version to version, complains and is passed over. The graph itself, empty now, stays in
  // memory for good: an allocator that was not told of the end may still ask it whether a stream is its own.
  static void abandon(std::unique_ptr<Graph> failed) noexcept {
    Graph& graph = *failed.release();
    attempt([&] { graph.graph_.capture_end(); });
    attempt([&] { graph.graph_.reset(); });
    attempt([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(graph.device_, graph.pool_); });
    (void)cudaGetLastError();  // the next call would report what failed here
  }

 private:
  template <typename Step>
  static void attempt(Step step) noexcept {
    try {
      step();
    } catch (const std::exception&) {
    }
  }

  c10::DeviceIndex device_;
  decltype(at::cuda::graph_pool_handle()) pool_ = at::cuda::graph_pool_handle();
  at::cuda::CUDAGraph graph_;
};

// The stream that this thread captures on: one per device, because the matrix library keeps a workspace for each.
c10::cuda::CUDAStream captureStream(c10::DeviceIndex device) {
  thread_local std::unordered_map<int, c10::cuda::CUDAStream> streams;
  const auto found = streams.find(device);
  if (found != streams.end()) return found->second;
  return streams.emplace(device, c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)).first->second;
}
#endif

}  // namespace

void trackDeviceMemory(const c10::Device& device) {
  at::empty({1}, at::TensorOptions().device(device));  // the allocator knows no device before its first use
#ifdef TIMESEER_CUDA
  if (device.is_cuda()) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(indexOf(device));
    tracking = true;
    return;
  }
#endif
#ifdef TIMESEER_DEVICE_ALLOCATOR
  if (device.is_cuda()) return;
  c10::getDeviceAllocator(device.type())->resetPeakStats(std::max<c10::DeviceIndex>(0, device.index()));
  tracking = true;
#endif
}

bool deviceMemory(const c10::Device& device, Bytes* into) {
  if (!tracking.load()) return false;
  const auto read = [&](const auto& stats) {
    *into = {stats.allocated_bytes[0].current, stats.allocated_bytes[0].peak};  // 0: over all pools
    return true;
  };
#ifdef TIMESEER_CUDA
  if (device.is_cuda()) return read(c10::cuda::CUDACachingAllocator::getDeviceStats(indexOf(device)));
#endif
#ifdef TIMESEER_DEVICE_ALLOCATOR
  if (!device.is_cuda()) {
    return read(c10::getDeviceAllocator(device.type())->getDeviceStats(std::max<c10::DeviceIndex>(0, device.index())));
  }
#endif
  (void)read;
  return false;
}

// describeDevice(device) → {name, memoryTotal in bytes}; '' and 0 where CUDA cannot be asked.
Napi::Value describeDevice(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    std::string name;
    double total = 0;
#ifdef TIMESEER_CUDA
    const c10::Device device = deviceOf(info[0]);
    if (device.is_cuda()) {
      cudaDeviceProp properties;
      C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, indexOf(device)));
      name = properties.name;
      total = static_cast<double>(properties.totalGlobalMem);
    }
#endif
    Napi::Object result = Napi::Object::New(env);
    result.Set("name", name);
    result.Set("memoryTotal", total);
    return result;
  });
}

// synchronize(device) waits for everything that this thread issued to a CUDA device; on the CPU nothing is outstanding.
Napi::Value synchronize(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    const c10::Device device = deviceOf(info[0]);
#ifdef TIMESEER_CUDA
    if (device.is_cuda()) finish(indexOf(device));
#else
    if (device.is_cuda()) torch::cuda::synchronize(device.has_index() ? device.index() : -1);
#endif
    return env.Undefined();
  });
}

// canRecord(device) → whether recordGraph works there.
Napi::Value canRecord(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
#ifdef TIMESEER_GRAPHS
    return Napi::Boolean::New(env, deviceOf(info[0]).is_cuda());
#else
    return Napi::Boolean::New(env, false);
#endif
  });
}

// recordGraph(device, body) → id. Calls the body twice on a stream of its own: once to run it, which also loads what its
// kernels need, and once more while the stream is captured and nothing runs.
Napi::Value recordGraph(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
#ifdef TIMESEER_GRAPHS
    const auto device = indexOf(deviceOf(info[0]));
    const auto body = info[1].As<Napi::Function>();
    // One thread after the other: while one captures, CUDA refuses others what they may do at any other time.
    static std::mutex recording;
    const std::lock_guard<std::mutex> alone(recording);
    finish(device);  // what the body reads was written on another stream
    const c10::StreamGuard guard(captureStream(device).unwrap());
    body.Call({});
    finish(device);
    auto graph = std::make_unique<Graph>(device);
    try {
      graph->begin();
      body.Call({});
      graph->end();
    } catch (...) {
      Graph::abandon(std::move(graph));
      throw;
    }
    instance.recordings.push_back(std::move(graph));
    return Napi::Number::New(env, static_cast<double>(instance.recordings.size() - 1));
#else
    (void)env, (void)instance;
    throw std::runtime_error("this build records no graphs");
#endif
  });
}

Napi::Value replayGraph(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const auto& recording = instance.recordings.at(static_cast<size_t>(toInteger(info[0], "recording")));
    if (recording == nullptr) throw std::invalid_argument("the recording was disposed of");
    recording->replay();
    return env.Undefined();
  });
}

Napi::Value freeGraph(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    instance.recordings.at(static_cast<size_t>(toInteger(info[0], "recording"))).reset();
    return env.Undefined();
  });
}

}  // namespace timeseer
