// What the functions of the addon share: the environment's instance, exceptions, and the functions of other files.
#pragma once

#include "convert.h"

#include <memory>

namespace timeseer {

inline Instance& instanceOf(const Napi::CallbackInfo& info) { return *info.Env().GetInstanceData<Instance>(); }

// Runs `body`; a C++ exception (c10, std) becomes a JavaScript Error with its first line(s).
template <typename Body>
Napi::Value guarded(const Napi::CallbackInfo& info, Body body) {
  try {
    return body(info.Env(), instanceOf(info));
  } catch (const Napi::Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw Napi::Error::New(info.Env(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw Napi::Error::New(info.Env(), error.what());
  }
}

// memory.cc
Napi::Value readFile(const Napi::CallbackInfo& info);
Napi::Value trackMemory(const Napi::CallbackInfo& info);
Napi::Value memoryUse(const Napi::CallbackInfo& info);

// blas.cc
Napi::Value blasKernel(const Napi::CallbackInfo& info);
Napi::Value clockRate(const Napi::CallbackInfo& info);

// meta.cc
Napi::Value openLedger(const Napi::CallbackInfo& info);
Napi::Value useLedger(const Napi::CallbackInfo& info);
Napi::Value readLedger(const Napi::CallbackInfo& info);

// distributed.cc; an object of functions, or null where this libtorch has no c10d with Gloo
Napi::Value distributedFunctions(Napi::Env env);

// cuda.cc
Napi::Value describeDevice(const Napi::CallbackInfo& info);
Napi::Value synchronize(const Napi::CallbackInfo& info);
Napi::Value canRecord(const Napi::CallbackInfo& info);
Napi::Value recordGraph(const Napi::CallbackInfo& info);
Napi::Value replayGraph(const Napi::CallbackInfo& info);
Napi::Value freeGraph(const Napi::CallbackInfo& info);

struct Bytes {
  int64_t now;
  int64_t peak;
};

// Sets the peak of the memory of a device that is not the CPU to what is in use, and reads both from its allocator: false
// before the first, and where this build cannot ask it.
void trackDeviceMemory(const c10::Device& device);
bool deviceMemory(const c10::Device& device, Bytes* into);

}  // namespace timeseer
