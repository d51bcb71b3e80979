// Files as tensors, and how much memory tensors take.
#include "binding.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <fcntl.h>
#ifdef __APPLE__
#include <malloc/malloc.h>
#else
#include <malloc.h>
#endif
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>

namespace timeseer {
namespace {

std::atomic<int64_t> inUse{0};
std::atomic<int64_t> mostInUse{0};

int64_t sizeOf(void* block) {
#ifdef __APPLE__
  return static_cast<int64_t>(malloc_size(block));
#else
  return static_cast<int64_t>(malloc_usable_size(block));
#endif
}

// libtorch's allocator of host memory with a count of what it gives out. Blocks from before it was installed go back to
// libtorch's own and are not counted, on whatever thread.
class CountingAllocator final : public c10::Allocator {
 public:
  // Later versions dropped the const: whichever of the two is the virtual function of this one.
  c10::DataPtr allocate(size_t bytes) { return counted(bytes); }
  c10::DataPtr allocate(size_t bytes) const { return counted(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* into, const void* from, size_t bytes) const { std::memcpy(into, from, bytes); }

 private:
  static c10::DataPtr counted(size_t bytes) {
    c10::DataPtr block = c10::GetDefaultCPUAllocator()->allocate(bytes);
    if (block.get() == nullptr) return block;
    const int64_t size = sizeOf(block.get());
    const int64_t now = inUse.fetch_add(size) + size;
    int64_t most = mostInUse.load();
    while (now > most && !mostInUse.compare_exchange_weak(most, now)) {
    }
    void* data = block.release_context();  // the default allocator's context is the block itself
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  static void release(void* block) {
    if (block != nullptr) inUse.fetch_sub(sizeOf(block));
    c10::GetDefaultCPUAllocator()->raw_deleter()(block);
  }
};

// Whether the process counts its host memory.
std::atomic<bool> counting{false};

void count() {
  static std::once_flag once;
  std::call_once(once, [] {
    c10::SetCPUAllocator(new CountingAllocator());  // never destroyed: blocks outlive everything
    counting = true;
  });
  mostInUse.store(inUse.load());
}

[[noreturn]] void failed(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// The part of the file in memory of its own. Not mapped: touching a part of a mapping that the file has lost since ends the
// process with a signal, and so does a disk that fails.
at::Tensor partOf(const std::string& file, int64_t offset, int64_t bytes) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for the writer of a pipe
  if (descriptor < 0) failed("open");
  const struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } closer{descriptor};
  struct stat status;
  if (fstat(descriptor, &status) != 0) failed("stat");
  if (!S_ISREG(status.st_mode)) throw std::invalid_argument("not a regular file");
  if (offset < 0 || bytes < 0 || offset > status.st_size || bytes > status.st_size - offset) {
    throw std::out_of_range("the file holds " + std::to_string(status.st_size) + " bytes, " + std::to_string(bytes) +
                            " from " + std::to_string(offset) + " on are wanted");
  }
  at::Tensor part = at::empty({bytes}, at::kByte);
  char* into = static_cast<char*>(part.data_ptr());
  for (int64_t done = 0; done < bytes;) {
    const ssize_t got = pread(descriptor, into + done, static_cast<size_t>(bytes - done), offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed("read");
    if (got == 0) {
      throw std::out_of_range("the file was cut to " + std::to_string(offset + done) + " bytes while it was read");
    }
    done += got;
  }
  return part;
}

}  // namespace

// readFile(file, offset, bytes) → handle of uint8 [bytes].
Napi::Value readFile(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const std::string file = info[0].As<Napi::String>();
    return Napi::Number::New(env, instance.add(partOf(file, toInteger(info[1], "offset"), toInteger(info[2], "bytes"))));
  });
}

// trackMemory(device) counts from now on, and sets the peak to what is in use.
Napi::Value trackMemory(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    const c10::Device device(info[0].As<Napi::String>().Utf8Value());
    if (device.is_cpu()) {
      count();
    } else {
      trackDeviceMemory(device);
    }
    return env.Undefined();
  });
}

// memory(device) → [now, peak], or null where nothing is counted.
Napi::Value memoryUse(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance&) -> Napi::Value {
    const c10::Device device(info[0].As<Napi::String>().Utf8Value());
    Bytes bytes{inUse.load(), mostInUse.load()};
    if (device.is_cpu() ? !counting.load() : !deviceMemory(device, &bytes)) return env.Null();
    Napi::Array result = Napi::Array::New(env, 2);
    result.Set(0u, static_cast<double>(bytes.now));
    result.Set(1u, static_cast<double>(bytes.peak));
    return result;
  });
}

}  // namespace timeseer
