// Handles and the conversion between JavaScript values and the dispatcher's IValues.
#pragma once

// A Worker that is being terminated cannot receive an exception any more; without this, throwing one aborts.
#define NODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS
#include <napi.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace timeseer {

// Work of a device that can be repeated (cuda.cc).
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

struct Ledger;       // meta.cc
struct Distributed;  // distributed.cc

// Tensors and operators of one JavaScript environment; touched by its own thread only.
class Instance {
 public:
  double add(at::Tensor tensor);
  // A tensor of its own, not a place in the table: whatever runs JavaScript may free the handle or move the table.
  at::Tensor get(const Napi::Value& handle) const;
  void release(const Napi::Value& handle);

  size_t live = 0;
  std::vector<c10::OperatorHandle> operators;
  std::vector<std::unique_ptr<Recording>> recordings;  // by id; empty where disposed of
  std::vector<std::shared_ptr<Ledger>> ledgers;        // by id
  std::shared_ptr<Distributed> distributed;            // null before the first use

 private:
  struct Slot {
    at::Tensor tensor;
    uint32_t generation = 0;
  };
  size_t slotOf(const Napi::Value& handle) const;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

// Tensors handed from one environment of this process to another, by ticket.
class Exchange {
 public:
  static Exchange& get();
  int64_t put(at::Tensor tensor);
  at::Tensor take(int64_t ticket);
  void drop(int64_t ticket);

 private:
  std::mutex mutex_;
  std::unordered_map<int64_t, at::Tensor> tensors_;
  int64_t next_ = 1;
};

struct HostView {
  void* data;
  int64_t length;
  at::ScalarType type;
};

// Float32Array, Float64Array, Int32Array or Uint8Array, over its own or shared memory. It holds until JavaScript runs, which
// may detach or resize the memory: to be taken after every other argument.
HostView hostView(const Napi::Value& value);
int64_t toInteger(const Napi::Value& value, const std::string& name);
std::vector<int64_t> toIntegers(const Napi::Value& value, const std::string& name);
std::vector<at::Tensor> toTensors(const Instance& instance, const Napi::Value& value, const std::string& name);
at::ScalarType scalarType(const std::string& name);
std::string scalarName(at::ScalarType type);

c10::IValue toIValue(const Instance& instance, const Napi::Value& value, const c10::Type& type,
                     const std::string& name);
Napi::Value fromIValue(Napi::Env env, Instance& instance, const c10::IValue& value);

}  // namespace timeseer
