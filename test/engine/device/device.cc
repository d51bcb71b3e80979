// A device that is not the processor, for tests: libtorch's PrivateUse1 under the name `test`, with two devices whose memory
// the host cannot touch. Each tensor has pages of its own, closed but while a kernel of this file works on them, so that a
// pointer that was read on the host is a segmentation fault, as it would be wrong data or a fault on a GPU (not
// while another thread works on the same storage; a system call that reads it fails with EFAULT instead). Operators without
// a kernel here run on copies on the processor. Everything is done when a call returns: what a stream must wait for is not
// tested. It is a Node addon that every thread loads; libtorch 2.9 or later.
#include <napi.h>

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;

constexpr DeviceIndex kDevices = 2;
constexpr DeviceType kType = DeviceType::PrivateUse1;

thread_local DeviceIndex current = 0;

// ---- memory: pages that kernels open ------------------------------------------------------------------------------

struct Pages {
  size_t bytes, wanted;  // whole pages, and what was asked for, which is counted
  int open;  // kernels that work on them now, of any thread
  DeviceIndex device;
};

std::mutex& mutex = *new std::mutex();  // never destroyed, as the pages
std::map<char*, Pages>& allocated = *new std::map<char*, Pages>();  // by their first address
int64_t inUse[kDevices], mostInUse[kDevices];

size_t whole(size_t bytes) {
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void release(void* start) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = allocated.find(static_cast<char*>(start));
  if (found == allocated.end()) return;
  inUse[found->second.device] -= static_cast<int64_t>(found->second.wanted);
  munmap(start, found->second.bytes);
  allocated.erase(found);
}

// Makes the pages of a tensor's storage readable and writable while it lives; nothing for tensors of the processor.
class Opened {
 public:
  explicit Opened(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kType || !tensor.has_storage()) return;
    start_ = static_cast<char*>(tensor.storage().mutable_data());
    if (start_ != nullptr) step(1);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (start_ != nullptr) step(-1);
  }

 private:
  void step(int by) const {
    const std::lock_guard<std::mutex> lock(mutex);
    Pages& pages = allocated.at(start_);
    const bool before = pages.open > 0;
    pages.open += by;
    const bool after = pages.open > 0;
    if (before != after) TORCH_CHECK(mprotect(start_, pages.bytes, after ? PROT_READ | PROT_WRITE : PROT_NONE) == 0, "mprotect");
  }
  char* start_ = nullptr;
};

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t wanted) override {
    if (wanted == 0) return {nullptr, Device(kType, current)};
    const size_t bytes = whole(wanted);
    void* start = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(start != MAP_FAILED, "test device: no memory for ", bytes, " bytes");
    const std::lock_guard<std::mutex> lock(mutex);
    allocated[static_cast<char*>(start)] = {bytes, wanted, 0, current};
    inUse[current] += static_cast<int64_t>(wanted);
    mostInUse[current] = std::max(mostInUse[current], inUse[current]);
    return {start, start, &release, Device(kType, current)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void*, const void*, size_t) const override { TORCH_CHECK(false, "test device: storages are not copied"); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) override {
    const std::lock_guard<std::mutex> lock(mutex);
    c10::CachingDeviceAllocator::DeviceStats stats{};
    stats.allocated_bytes[0].current = inUse[device];
    stats.allocated_bytes[0].peak = mostInUse[device];
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex device) override {
    const std::lock_guard<std::mutex> lock(mutex);
    mostInUse[device] = inUse[device];
  }
};

// ---- devices and streams ------------------------------------------------------------------------------------------

c10::Stream onlyStream(DeviceIndex device) { return c10::Stream(c10::Stream::DEFAULT, Device(kType, device)); }

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override { return kType; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return {kType, current}; }
  void setDevice(Device device) const override {
    if (!device.has_index()) return;
    TORCH_CHECK(device.index() < kDevices, "test device: there is no device ", device);
    current = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) current = device.index();
  }
  c10::Stream getStream(Device device) const override { return onlyStream(device.has_index() ? device.index() : current); }
  c10::Stream getDefaultStream(Device device) const override { return getStream(device); }
  c10::Stream getNewStream(Device device, int) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  void record(void**, const c10::Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
};

struct Hooks final : public at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(DeviceIndex device) const override { current = device; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex exchangeDevice(DeviceIndex device) const override { return std::exchange(current, device); }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override { return device < 0 ? current : exchangeDevice(device); }
  Device getDeviceFromPtr(void*) const override { return {kType, current}; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr next = c10::GetAllocator(kType)->allocate(bytes);
    const size_t kept = std::min(bytes, storage.nbytes());
    if (kept > 0) {
      const auto open = [](void* start, size_t size) { TORCH_CHECK(mprotect(start, size, PROT_READ | PROT_WRITE) == 0, "mprotect"); };
      open(storage.mutable_data(), whole(storage.nbytes()));
      open(next.get(), whole(bytes));
      std::copy_n(static_cast<const char*>(storage.data()), kept, static_cast<char*>(next.get()));
      TORCH_CHECK(mprotect(next.get(), whole(bytes), PROT_NONE) == 0, "mprotect");
    }
    storage.set_data_ptr_noswap(std::move(next));  // the pages before go with what held them
    storage.set_nbytes(bytes);
  }
};

// ---- kernels ------------------------------------------------------------------------------------------------------

Device deviceOf(const std::optional<Device>& given) {
  const Device device = given.value_or(Device(kType));
  return device.has_index() ? device : Device(kType, current);
}

Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<Device> device,
             std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(deviceOf(device));
  return at::detail::empty_generic(size, c10::GetAllocator(kType), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

Tensor emptyStrided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                    std::optional<Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(deviceOf(device));
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kType), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

Tensor strided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  return at::cpu::as_strided_symint(self, size, stride, offset);
}

const Tensor& resize(const Tensor& self, c10::SymIntArrayRef size, std::optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(self.device());
  size_t bytes = static_cast<size_t>(self.storage_offset()) * self.itemsize();
  bytes += static_cast<size_t>(c10::multiply_integers(C10_AS_INTARRAYREF_SLOW(size))) * self.itemsize();
  if (bytes > self.storage().nbytes()) at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(self.storage(), bytes);
  return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), format);
}

Tensor reshaped(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

Tensor viewed(const Tensor& self, c10::SymIntArrayRef size) { return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size)); }

// The same memory as a tensor of the processor; its pages must be open.
Tensor onProcessor(const Tensor& tensor) {
  if (tensor.device().type() != kType) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU).requires_grad(false));
}

Tensor copyFrom(const Tensor& self, const Tensor& target, bool) {
  at::NoGradGuard noGradient;
  const Opened from(self), into(target);
  onProcessor(target).copy_(onProcessor(self));
  return target;
}

Tensor copyFromAndResize(const Tensor& self, const Tensor& target) {
  if (target.sizes() != self.sizes()) target.resize_(self.sizes());
  return copyFrom(self, target, false);
}

c10::Scalar scalarOf(const Tensor& self) {
  const Opened opened(self);
  return onProcessor(self).item();
}

Tensor& setTensor(Tensor& self, const Tensor& source) { return at::native::set_tensor_(self, source); }
Tensor& setStorage(Tensor& self, at::Storage source) { return at::native::set_(self, source); }
Tensor& setPart(Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::cpu::set_(self, source, offset, size, stride);
}

void onCopies(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  // A GPU refuses tensors of several devices; single numbers of the processor are let through, as element-wise operators do.
  std::optional<Device> device;
  const auto compare = [&](const Tensor& tensor) {
    if (!tensor.defined() || (tensor.device().is_cpu() && tensor.dim() == 0)) return;
    if (!device.has_value()) device = tensor.device();
    TORCH_CHECK(tensor.device() == *device, operation.schema().name(), ": tensors of ", *device, " and ", tensor.device());
  };
  const size_t count = operation.schema().arguments().size();
  const auto& name = operation.schema().name();
  const bool takesIndices = name == "aten::index" || name == "aten::index_put" || name == "aten::index_put_" ||
                            name == "aten::_index_put_impl_" || name == "aten::_unsafe_index";
  if (!takesIndices) {  // which may be on the processor
    for (const auto& value : torch::jit::last(*stack, count)) {
      if (value.isTensor()) compare(value.toTensor());
      if (value.isTensorList()) for (const Tensor& tensor : value.toTensorVector()) compare(tensor);
    }
  }
  at::native::cpu_fallback(operation, stack, /*error_on_views=*/true);  // a copy would not be a view
}

Allocator* allocator = new Allocator();  // never destroyed: tensors may outlive static destruction
Guard* guardOfDevices = new Guard();

struct Registration {
  Registration() {
    c10::register_privateuse1_backend("test");
    c10::SetAllocator(kType, allocator);
    at::RegisterPrivateUse1HooksInterface(new Hooks());
  }
};
const Registration registration;
const c10::impl::DeviceGuardImplRegistrar guardRegistration(kType, guardOfDevices);

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", emptyStrided);
  library.impl("as_strided", strided);
  library.impl("resize_", resize);
  library.impl("_reshape_alias", reshaped);
  library.impl("view", viewed);
  library.impl("_copy_from", copyFrom);
  library.impl("_copy_from_and_resize", copyFromAndResize);
  library.impl("_local_scalar_dense", scalarOf);
  library.impl("set_.source_Tensor", setTensor);
  library.impl("set_.source_Storage", setStorage);
  library.impl("set_.source_Storage_storage_offset", setPart);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&onCopies>()); }

// readOnHost(open) reads a tensor's memory as no program may, for the test of the device itself; `open`: as a kernel may.
Napi::Value readOnHost(const Napi::CallbackInfo& info) {
  const Tensor tensor = at::ones({8}, at::TensorOptions().device(Device(kType, 0)));
  const auto read = [&] { return static_cast<const volatile float*>(tensor.data_ptr())[3]; };
  if (!info[0].ToBoolean()) return Napi::Number::New(info.Env(), read());
  const Opened opened(tensor);
  return Napi::Number::New(info.Env(), read());
}

// grow(device) → [device of the storage, values] of a tensor of three numbers that grew past its pages, while another device
// was the current one.
Napi::Value grow(const Napi::CallbackInfo& info) {
  const auto device = static_cast<DeviceIndex>(info[0].As<Napi::Number>().Int32Value());
  const Tensor tensor = at::arange(3, at::TensorOptions().dtype(at::kFloat).device(Device(kType, device)));
  current = static_cast<DeviceIndex>(1 - device);
  tensor.resize_({5000});
  current = 0;
  const Tensor host = tensor.cpu();
  Napi::Array result = Napi::Array::New(info.Env());
  result.Set(0u, static_cast<double>(tensor.storage().device().index()));
  for (uint32_t i = 0; i < 3; i++) result.Set(i + 1, static_cast<double>(host.data_ptr<float>()[i]));
  return result;
}

Napi::Object start(Napi::Env env, Napi::Object exports) {
  exports.Set("grow", Napi::Function::New(env, grow));
  exports.Set("readOnHost", Napi::Function::New(env, readOnHost));
  return exports;
}

}  // namespace

NODE_API_MODULE(test_device, start)
