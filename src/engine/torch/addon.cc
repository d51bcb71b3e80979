// The native half of the torch engine: tensor handles and ATen operators, and nothing about policies.
//
// Every environment (the main thread and each Worker) has its own Instance: there is no static state that holds a
// JavaScript reference, so that several Workers can load the addon, train, and exit in any order. A handle is
// generation · 2^24 + slot, so a freed handle is told from the tensor that took its slot.
#include "binding.h"

#include <dlfcn.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/version.h>

namespace timeseer {
namespace {

// op(name, overload) → operator id, or −1 if this libtorch has no such operator.
Napi::Value findOperator(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const std::string name = info[0].As<Napi::String>();
    const std::string overload = info[1].As<Napi::String>();
    auto found = c10::Dispatcher::singleton().findSchema({name, overload});
    if (!found) return Napi::Number::New(env, -1);
    instance.operators.push_back(*found);
    return Napi::Number::New(env, static_cast<double>(instance.operators.size() - 1));
  });
}

// takes(id, argument) → whether the operator's schema has an argument of this name.
Napi::Value takesArgument(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const auto& schema = instance.operators.at(static_cast<size_t>(toInteger(info[0], "operator"))).schema();
    const std::string name = info[1].As<Napi::String>();
    return Napi::Boolean::New(env, schema.argumentIndexWithName(name).has_value());
  });
}

// call(id, ...arguments) → handle, number, boolean or an array of them, by the operator's schema.
Napi::Value callOperator(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const auto id = static_cast<size_t>(info[0].As<Napi::Number>().Int64Value());
    if (id >= instance.operators.size()) throw std::invalid_argument("unknown operator id");
    const c10::OperatorHandle handle = instance.operators[id];  // a getter among the arguments may add operators
    const c10::FunctionSchema& schema = handle.schema();
    const auto& arguments = schema.arguments();
    if (info.Length() - 1 > arguments.size()) {
      throw std::invalid_argument(schema.name() + " takes at most " + std::to_string(arguments.size()) +
                                  " arguments");
    }
    torch::jit::Stack stack;
    stack.reserve(arguments.size());
    for (size_t i = 0; i < arguments.size(); i++) {
      const Napi::Value given = i + 1 < info.Length() ? info[i + 1] : env.Undefined();
      if (given.IsUndefined()) {
        if (!arguments[i].default_value()) {
          throw std::invalid_argument(schema.name() + " needs argument '" + arguments[i].name() + "'");
        }
        stack.push_back(*arguments[i].default_value());
      } else {
        stack.push_back(toIValue(instance, given, *arguments[i].type(), arguments[i].name()));
      }
    }
    handle.callBoxed(stack);
    if (stack.empty()) return env.Undefined();
    if (stack.size() == 1) return fromIValue(env, instance, stack[0]);
    Napi::Array results = Napi::Array::New(env, stack.size());
    for (size_t i = 0; i < stack.size(); i++) results.Set(i, fromIValue(env, instance, stack[i]));
    return results;
  });
}

// fromHost(typedArray, dtype, shape, device) → handle of a copy on the device.
Napi::Value fromHost(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const auto device = c10::Device(info[3].As<Napi::String>().Utf8Value());
    const auto options =
        at::TensorOptions().dtype(scalarType(info[1].As<Napi::String>())).device(device);
    const auto shape = toIntegers(info[2], "shape");
    const HostView view = hostView(info[0]);
    double count = 1;  // exact up to 2^53, and a longer array does not exist
    for (const int64_t size : shape) {
      if (size < 0) throw std::invalid_argument("a shape holds no negative sizes");
      count *= static_cast<double>(size);
    }
    if (count != static_cast<double>(view.length)) {
      throw std::invalid_argument("data has " + std::to_string(view.length) + " elements, the shape wants " +
                                  (count < 1e15 ? std::to_string(static_cast<int64_t>(count)) : "more than exist"));
    }
    const at::Tensor wrapped = at::from_blob(view.data, shape, at::TensorOptions().dtype(view.type));
    return Napi::Number::New(env, instance.add(wrapped.to(options, /*non_blocking=*/false, /*copy=*/true)));
  });
}

// toHost(handle, typedArray) fills the array; its length must equal the number of elements.
Napi::Value toHost(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const HostView view = hostView(info[1]);
    const at::Tensor tensor = instance.get(info[0]);
    if (tensor.numel() != view.length) throw std::invalid_argument("the host array has another length");
    at::NoGradGuard guard;
    if (view.type == at::kInt && tensor.scalar_type() == at::kLong) {
      const at::Tensor whole = tensor.to(at::kCPU).contiguous();
      const int64_t* from = whole.data_ptr<int64_t>();
      int32_t* into = static_cast<int32_t*>(view.data);
      for (int64_t i = 0; i < view.length; i++) {
        if (from[i] != static_cast<int32_t>(from[i])) {
          throw std::out_of_range("the value " + std::to_string(from[i]) + " does not fit 32 bits");
        }
        into[i] = static_cast<int32_t>(from[i]);
      }
      return env.Undefined();
    }
    at::Tensor target = at::from_blob(view.data, tensor.sizes(), at::TensorOptions().dtype(view.type));
    target.copy_(tensor);
    return env.Undefined();
  });
}

Napi::Value shapeOf(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const auto sizes = instance.get(info[0]).sizes().vec();
    Napi::Array result = Napi::Array::New(env, sizes.size());
    for (size_t i = 0; i < sizes.size(); i++) result.Set(i, static_cast<double>(sizes[i]));
    return result;
  });
}

Napi::Value dtypeOf(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    return Napi::String::New(env, scalarName(instance.get(info[0]).scalar_type()));
  });
}

Napi::Value freeHandles(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    if (info[0].IsArray()) {
      const auto list = info[0].As<Napi::Array>();
      const uint32_t length = list.Length();
      for (uint32_t i = 0; i < length; i++) instance.release(list.Get(i));
    } else {
      instance.release(info[0]);
    }
    return env.Undefined();
  });
}

Napi::Value liveHandles(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(instanceOf(info).live));
}

// A gradient as memory of its own: autograd returns one tensor for several inputs, its seed, or an expanded one.
at::Tensor owned(at::Tensor gradient) {
  const bool alone = gradient.use_count() == 1 && gradient.has_storage() &&
                     gradient.storage().use_count() == 1 && gradient.is_non_overlapping_and_dense();
  return alone ? gradient : gradient.clone(at::MemoryFormat::Contiguous);
}

// grad(outputs, inputs, outputGrads) → handles, zeros where no output depends on the input.
Napi::Value gradients(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const auto given = toTensors(instance, info[0], "outputs");
    const auto inputs = toTensors(instance, info[1], "inputs");
    const auto givenSeeds = toTensors(instance, info[2], "outputGrads");
    if (!givenSeeds.empty() && givenSeeds.size() != given.size()) {
      throw std::invalid_argument(std::to_string(given.size()) + " outputs need as many gradients, got " +
                                  std::to_string(givenSeeds.size()));
    }
    torch::autograd::variable_list outputs, seeds;  // what has no history contributes nothing
    for (size_t i = 0; i < given.size(); i++) {
      if (!given[i].requires_grad()) continue;
      outputs.push_back(given[i]);
      if (!givenSeeds.empty()) seeds.push_back(givenSeeds[i]);
    }
    if (inputs.empty()) return Napi::Array::New(env);  // autograd would accumulate into every leaf instead
    torch::autograd::variable_list results(inputs.size());
    if (!outputs.empty()) {
      results = torch::autograd::grad(outputs, inputs, seeds, /*retain_graph=*/c10::nullopt,
                                      /*create_graph=*/false, /*allow_unused=*/true);
    }
    Napi::Array handles = Napi::Array::New(env, results.size());
    for (size_t i = 0; i < results.size(); i++) {
      at::Tensor gradient =
          results[i].defined() ? owned(std::move(results[i])) : at::zeros_like(inputs[i]);
      handles.Set(static_cast<uint32_t>(i), instance.add(std::move(gradient)));
    }
    return handles;
  });
}

// parameter(handle) → a leaf over the same storage with requires_grad and a version counter of its own.
Napi::Value makeParameter(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    at::Tensor leaf = instance.get(info[0]).variable_data();
    leaf.requires_grad_(true);
    return Napi::Number::New(env, instance.add(leaf));
  });
}

// gradMode(enabled) → the mode before; the mode belongs to this thread.
Napi::Value gradMode(const Napi::CallbackInfo& info) {
  const bool before = c10::GradMode::is_enabled();
  c10::GradMode::set_enabled(info[0].As<Napi::Boolean>().Value());
  return Napi::Boolean::New(info.Env(), before);
}

Napi::Value shareTensor(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    // Without its history, which belongs to this thread.
    const auto ticket = Exchange::get().put(instance.get(info[0]).variable_data());
    return Napi::Number::New(env, static_cast<double>(ticket));
  });
}

Napi::Value attachTensor(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const at::Tensor shared = Exchange::get().take(toInteger(info[0], "ticket"));
    return Napi::Number::New(env, instance.add(shared.variable_data()));
  });
}

Napi::Value unshareTensor(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    Exchange::get().drop(toInteger(info[0], "ticket"));
    return env.Undefined();
  });
}

// More than any machine has: OpenMP ends the process when it cannot start as many as it is told.
constexpr int kMostThreads = 1024;

// threads(n) sets the intra-op threads of the calling thread when n > 0, and returns those in force.
Napi::Value threads(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    const int wanted = info[0].As<Napi::Number>().Int32Value();
    if (wanted > kMostThreads) throw std::invalid_argument("at most " + std::to_string(kMostThreads) + " threads");
    if (wanted > 0) at::set_num_threads(wanted);
    return Napi::Number::New(env, at::get_num_threads());
  });
}

// Number of devices of the backend `test` (test/engine/device), where it was loaded; it needs libtorch 2.9.
int testDevices() {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
  constexpr auto type = c10::DeviceType::PrivateUse1;
  if (c10::get_privateuse1_backend() != "test" || !c10::impl::hasDeviceGuardImpl(type)) return 0;
  return c10::impl::getDeviceGuardImpl(type)->deviceCount();
#else
  return 0;
#endif
}

Napi::Value describe(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    Napi::Object result = Napi::Object::New(env);
    result.Set("version", TORCH_VERSION);
    result.Set("config", at::show_config());
    result.Set("parallel", at::get_parallel_info());
    result.Set("cudaDevices", static_cast<double>(torch::cuda::is_available() ? torch::cuda::device_count() : 0));
    result.Set("testDevices", static_cast<double>(testDevices()));
    return result;
  });
}

// endProcess(code) ends it at once: exit() would join threads that wait for another machine.
Napi::Value endProcess(const Napi::CallbackInfo& info) {
  _exit(info[0].As<Napi::Number>().Int32Value());
}

// Keeps this library, and libtorch with it, in memory for good: Node unloads an addon when the last environment
// that loaded it ends, while shared tensors, thread pools and thread-local destructors of libtorch live on.
void stayLoaded() {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&stayLoaded), &self) != 0 && self.dli_fname != nullptr) {
    dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  }
}

}  // namespace

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  stayLoaded();
#ifdef __GLIBC__
  // glibc gives large freed blocks back to the kernel at once and faults them in again at the next step; keeping
  // them makes training steps of a small policy 1.7× as fast.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
  env.SetInstanceData(new Instance());
  const auto add = [&](const char* name, Napi::Value (*function)(const Napi::CallbackInfo&)) {
    exports.Set(name, Napi::Function::New(env, function, name));
  };
  add("op", findOperator);
  add("takes", takesArgument);
  add("call", callOperator);
  add("fromHost", fromHost);
  add("toHost", toHost);
  add("shape", shapeOf);
  add("dtype", dtypeOf);
  add("free", freeHandles);
  add("live", liveHandles);
  add("grad", gradients);
  add("parameter", makeParameter);
  add("gradMode", gradMode);
  add("share", shareTensor);
  add("attach", attachTensor);
  add("unshare", unshareTensor);
  add("threads", threads);
  add("describe", describe);
  add("blasKernel", blasKernel);
  add("clockRate", clockRate);
  add("readFile", readFile);
  add("trackMemory", trackMemory);
  add("memory", memoryUse);
  add("openLedger", openLedger);
  add("useLedger", useLedger);
  add("readLedger", readLedger);
  add("describeDevice", describeDevice);
  add("synchronize", synchronize);
  add("canRecord", canRecord);
  add("record", recordGraph);
  add("replay", replayGraph);
  add("freeRecording", freeGraph);
  add("endProcess", endProcess);
  exports.Set("distributed", distributedFunctions(env));
  return exports;
}

}  // namespace timeseer

static Napi::Object initialiseModule(Napi::Env env, Napi::Object exports) {
  return timeseer::initialise(env, exports);
}
NODE_API_MODULE(timeseer_torch, initialiseModule)
