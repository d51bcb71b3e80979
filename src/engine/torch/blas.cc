// Which kernels the matrix library chose for this processor, and how fast the processor's clock runs.
#include "binding.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>

namespace timeseer {
namespace {

// A symbol of the matrix library, whatever library of this process it came from; null where there is none.
void* symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

std::string fileOf(void* address) {
  Dl_info place;
  return address != nullptr && dladdr(address, &place) != 0 && place.dli_fname != nullptr ? place.dli_fname : "";
}

constexpr int64_t kSteps = 100000;
constexpr int kAddsPerStep = 16;

// A chain of additions, each of which waits for the one before: one a cycle on the processors of the last twenty years.
// Of two registers: newer processors add constants without a cycle.
#if defined(__x86_64__)
#define TIMESEER_ADD "addq %1, %0\n"
#elif defined(__aarch64__)
#define TIMESEER_ADD "add %0, %0, %1\n"
#endif

#ifdef TIMESEER_ADD
#define TIMESEER_FOUR TIMESEER_ADD TIMESEER_ADD TIMESEER_ADD TIMESEER_ADD
double secondsOfAdditions() {
  uint64_t sum = 0;
  const uint64_t one = 1;
  const auto began = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < kSteps; i++) {
    asm volatile(TIMESEER_FOUR TIMESEER_FOUR TIMESEER_FOUR TIMESEER_FOUR : "+r"(sum) : "r"(one) : "cc");
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}
#endif

}  // namespace

// blasKernel() → { kernel: the name of OpenBLAS for the kernels it chose, else '', file: where the library lies, else '' }
Napi::Value blasKernel(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    void* corename = symbol("openblas_get_corename");
    const char* kernel = corename == nullptr ? nullptr : reinterpret_cast<char* (*)()>(corename)();
    Napi::Object result = Napi::Object::New(env);
    result.Set("kernel", kernel == nullptr ? "" : kernel);
    result.Set("file", fileOf(corename == nullptr ? symbol("sgemm_") : corename));
    return result;
  });
}

// clockRate() → GHz at which this core computes now, the fastest of a few rounds; 0 where it is not known how to measure it.
Napi::Value clockRate(const Napi::CallbackInfo& info) {
  double gigahertz = 0;
#ifdef TIMESEER_ADD
  for (int round = 0; round < 20; round++) {
    gigahertz = std::max(gigahertz, kSteps * kAddsPerStep / secondsOfAdditions() / 1e9);
  }
#endif
  return Napi::Number::New(info.Env(), gigahertz);
}

}  // namespace timeseer
