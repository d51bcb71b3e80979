#include "convert.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

namespace timeseer {
namespace {

constexpr double kSlots = 16777216.0;  // 2^24 slots; the generation stands above them
constexpr uint32_t kGenerations = 1u << 28;

[[noreturn]] void mismatch(const std::string& name, const std::string& wanted) {
  throw std::invalid_argument("argument '" + name + "' must be " + wanted);
}

double number(const Napi::Value& value, const std::string& name) {
  if (!value.IsNumber()) mismatch(name, "a number");
  return value.As<Napi::Number>().DoubleValue();
}

// The entries of an array, each read once: reading one may run a getter, and a getter may do anything, change the array or
// call this addon again. What has not arrived is not reserved: the length of a sparse array says nothing about its size.
template <typename Entry, typename Read>
std::vector<Entry> entriesOf(const Napi::Value& value, const std::string& name, const std::string& wanted, Read read) {
  if (!value.IsArray()) mismatch(name, wanted);
  const auto array = value.As<Napi::Array>();
  const uint32_t length = array.Length();
  std::vector<Entry> entries;
  entries.reserve(std::min<uint32_t>(length, 4096));
  for (uint32_t i = 0; i < length; i++) entries.push_back(read(array.Get(i)));
  return entries;
}

c10::IValue listValue(const Instance& instance, const Napi::Value& value, const c10::Type& element,
                      const std::string& name) {
  switch (element.kind()) {
    case c10::TypeKind::IntType: return toIntegers(value, name);
    case c10::TypeKind::TensorType: return toTensors(instance, value, name);
    case c10::TypeKind::OptionalType: {
      using Optional = c10::optional<at::Tensor>;
      const auto entries = entriesOf<Optional>(value, name, "an array", [&](const Napi::Value& entry) {
        return entry.IsNull() ? Optional() : Optional(instance.get(entry));
      });
      return c10::IValue(c10::List<Optional>(c10::ArrayRef<Optional>(entries)));
    }
    case c10::TypeKind::FloatType:
      return entriesOf<double>(value, name, "an array", [&](const Napi::Value& entry) { return number(entry, name); });
    case c10::TypeKind::BoolType: {
      c10::List<bool> flags;  // std::vector<bool> has no elements to refer to
      for (const char flag : entriesOf<char>(value, name, "an array", [](const Napi::Value& entry) {
             return static_cast<char>(entry.ToBoolean().Value());
           })) {
        flags.push_back(flag != 0);
      }
      return c10::IValue(std::move(flags));
    }
    default: mismatch(name, "a list of a supported type, not " + element.str());
  }
}

}  // namespace

double Instance::add(at::Tensor tensor) {
  uint32_t slot;
  if (free_.empty()) {
    if (slots_.size() >= static_cast<size_t>(kSlots)) throw std::runtime_error("more than 2^24 live tensors");
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot].tensor = std::move(tensor);
  live++;
  return static_cast<double>(slots_[slot].generation) * kSlots + slot;
}

size_t Instance::slotOf(const Napi::Value& handle) const {
  if (!handle.IsNumber()) throw std::invalid_argument("expected a tensor");
  const double given = handle.As<Napi::Number>().DoubleValue();
  if (!(given >= 0 && given < kSlots * kGenerations && given == std::floor(given))) {
    throw std::invalid_argument("expected a tensor");
  }
  const double generation = std::floor(given / kSlots);
  const double slot = given - generation * kSlots;
  if (!(given >= 0) || slot >= static_cast<double>(slots_.size()) ||
      slots_[static_cast<size_t>(slot)].generation != static_cast<uint32_t>(generation) ||
      !slots_[static_cast<size_t>(slot)].tensor.defined()) {
    throw std::invalid_argument("the tensor was freed or belongs to another Worker");
  }
  return static_cast<size_t>(slot);
}

at::Tensor Instance::get(const Napi::Value& handle) const { return slots_[slotOf(handle)].tensor; }

void Instance::release(const Napi::Value& handle) {
  const size_t slot = slotOf(handle);
  slots_[slot].tensor.reset();
  slots_[slot].generation = (slots_[slot].generation + 1) % kGenerations;
  free_.push_back(static_cast<uint32_t>(slot));
  live--;
}

Exchange& Exchange::get() {
  static Exchange* exchange = new Exchange();  // never destroyed: Workers may outlive static destruction
  return *exchange;
}

int64_t Exchange::put(at::Tensor tensor) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tensors_.emplace(next_, std::move(tensor));
  return next_++;
}

at::Tensor Exchange::take(int64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = tensors_.find(ticket);
  if (found == tensors_.end()) throw std::invalid_argument("no tensor is shared under this ticket");
  return found->second;
}

void Exchange::drop(int64_t ticket) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (tensors_.erase(ticket) == 0) throw std::invalid_argument("no tensor is shared under this ticket");
}

HostView hostView(const Napi::Value& value) {
  if (!value.IsTypedArray()) throw std::invalid_argument("expected a typed array");
  // Not through ArrayBuffer(): memory that Workers share is a SharedArrayBuffer, which that refuses.
  napi_typedarray_type kind;
  size_t length = 0;
  void* data = nullptr;
  if (napi_get_typedarray_info(value.Env(), value, &kind, &length, &data, nullptr, nullptr) != napi_ok) {
    throw std::invalid_argument("the typed array's memory cannot be read");
  }
  at::ScalarType type;
  switch (kind) {
    case napi_float32_array: type = at::kFloat; break;
    case napi_float64_array: type = at::kDouble; break;
    case napi_int32_array: type = at::kInt; break;
    case napi_uint8_array: type = at::kByte; break;  // read as bool, any byte above 1 would be undefined
    default: throw std::invalid_argument("expected a Float32Array, Float64Array, Int32Array or Uint8Array");
  }
  return {data, static_cast<int64_t>(length), type};
}

int64_t toInteger(const Napi::Value& value, const std::string& name) {
  const double given = number(value, name);
  if (given != std::floor(given) || std::abs(given) > 9007199254740991.0) mismatch(name, "an integer");
  return static_cast<int64_t>(given);
}

std::vector<int64_t> toIntegers(const Napi::Value& value, const std::string& name) {
  return entriesOf<int64_t>(value, name, "an array of integers",
                            [&](const Napi::Value& entry) { return toInteger(entry, name); });
}

std::vector<at::Tensor> toTensors(const Instance& instance, const Napi::Value& value, const std::string& name) {
  return entriesOf<at::Tensor>(value, name, "an array of tensors",
                               [&](const Napi::Value& entry) { return instance.get(entry); });
}

at::ScalarType scalarType(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "float64") return at::kDouble;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  if (name == "int64") return at::kLong;
  if (name == "uint8") return at::kByte;
  if (name == "bool") return at::kBool;
  throw std::invalid_argument("unknown dtype '" + name + "'");
}

std::string scalarName(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kBFloat16: return "bfloat16";
    case at::kHalf: return "float16";
    case at::kLong: return "int64";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    default: return c10::toString(type);
  }
}

c10::IValue toIValue(const Instance& instance, const Napi::Value& value, const c10::Type& type,
                     const std::string& name) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      if (value.IsNull()) return c10::IValue();
      return toIValue(instance, value, *type.containedTypes().at(0), name);
    case c10::TypeKind::TensorType: return instance.get(value);
    case c10::TypeKind::IntType:  // dtypes, layouts and memory formats are integers in a schema
      if (value.IsString()) return static_cast<int64_t>(scalarType(value.As<Napi::String>()));
      return toInteger(value, name);
    case c10::TypeKind::FloatType: return number(value, name);
    case c10::TypeKind::BoolType:
      if (!value.IsBoolean()) mismatch(name, "true or false");
      return value.As<Napi::Boolean>().Value();
    case c10::TypeKind::NumberType: {
      if (value.IsBigInt()) {
        bool lossless = false;
        return value.As<Napi::BigInt>().Int64Value(&lossless);
      }
      // A whole number is an integer scalar, which keeps an int64 tensor int64 and changes nothing for others.
      const double given = number(value, name);
      const bool whole = given == std::floor(given) && std::abs(given) <= 9007199254740991.0 &&
                         !(given == 0 && std::signbit(given));
      if (whole) return static_cast<int64_t>(given);
      return given;
    }
    case c10::TypeKind::StringType:
      if (!value.IsString()) mismatch(name, "a string");
      return value.As<Napi::String>().Utf8Value();
    case c10::TypeKind::DeviceObjType:
      if (!value.IsString()) mismatch(name, "a device such as 'cpu' or 'cuda:0'");
      return c10::Device(value.As<Napi::String>().Utf8Value());
    case c10::TypeKind::ListType: return listValue(instance, value, *type.containedTypes().at(0), name);
    default: mismatch(name, "of a supported type, not " + type.str());
  }
}

Napi::Value fromIValue(Napi::Env env, Instance& instance, const c10::IValue& value) {
  if (value.isTensor()) {
    if (!value.toTensor().defined()) return env.Null();
    return Napi::Number::New(env, instance.add(value.toTensor()));
  }
  if (value.isNone()) return env.Null();
  if (value.isDouble()) return Napi::Number::New(env, value.toDouble());
  if (value.isInt()) return Napi::Number::New(env, static_cast<double>(value.toInt()));
  if (value.isBool()) return Napi::Boolean::New(env, value.toBool());
  if (value.isScalar()) return Napi::Number::New(env, value.toScalar().toDouble());
  if (value.isTensorList()) {
    const auto tensors = value.toTensorVector();
    Napi::Array result = Napi::Array::New(env, tensors.size());
    for (size_t i = 0; i < tensors.size(); i++) {
      result.Set(static_cast<uint32_t>(i), static_cast<double>(instance.add(tensors[i])));
    }
    return result;
  }
  throw std::invalid_argument("the operator returned a " + value.tagKind() + ", which has no JavaScript form");
}

}  // namespace timeseer
