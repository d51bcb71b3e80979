// c10d without Python: a TCP store that never blocks JavaScript, and the collectives of Gloo and NCCL for a thread that may block.
#include "binding.h"

#if defined(TIMESEER_DISTRIBUTED) && __has_include(<torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>)
#define USE_C10D_GLOO 1
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <variant>

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef TIMESEER_NCCL
#define USE_C10D_NCCL 1
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace timeseer {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using ByteVector = std::vector<uint8_t>;
using Value = std::variant<std::monostate, bool, int64_t, ByteVector>;

// Pause between two looks at a key that is not there yet: the first, and the longest, to which it doubles.
constexpr Milliseconds kPoll{5};
constexpr Milliseconds kLongestPoll{80};

std::string messageOf(const std::exception& error) {
  const auto* ofTorch = dynamic_cast<const c10::Error*>(&error);
  return ofTorch == nullptr ? error.what() : ofTorch->what_without_backtrace();
}

// While one lives, c10d does not log each attempt to connect with its stack: the error says it once.
class Quiet {
#ifndef C10_USE_GLOG
 public:
  Quiet() { count(1); }
  ~Quiet() { count(-1); }

 private:
  static void count(int change) {
    static std::mutex mutex;
    static int living = 0, before = 0;
    const std::lock_guard<std::mutex> lock(mutex);
    if (living == 0) before = FLAGS_caffe2_log_level;
    living += change;
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = living == 0 ? before : 3;  // FATAL
  }
#endif
};

struct Request {
  int64_t id;
  Clock::time_point deadline;
  // Empty while the key it waits for is not there: it is called again until the deadline.
  std::function<std::optional<Value>(c10d::TCPStore&)> attempt;
};

struct Answer {
  int64_t id;
  Value value;
  std::optional<std::string> error;
};

// One store and its thread. The thread is detached and owns the connection: the socket of a server that has stopped
// holds it for good, and neither this environment nor the end of the process waits for it.
class StoreThread : public std::enable_shared_from_this<StoreThread> {
 public:
  void start(Napi::Env env, std::string host, c10d::TCPStoreOptions options) {
    auto self = shared_from_this();
    answers_ = Napi::ThreadSafeFunction::New(env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}),
                                             "timeseer store", 0, 1, [self](Napi::Env) { self->end(); });
    answers_.Unref(env);
    std::thread([self, host = std::move(host), options] { self->run(host, options); }).detach();
  }

  Napi::Promise submit(Napi::Env env, Milliseconds timeout,
                       std::function<std::optional<Value>(c10d::TCPStore&)> attempt) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    const int64_t id = next_++;
    pending_.emplace(id, deferred);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      requests_.push_back({id, Clock::now() + timeout, std::move(attempt)});
    }
    wake_.notify_one();
    return deferred.Promise();
  }

  // Called once, by the environment's thread: rejects what is pending; the thread ends when its socket lets it.
  void close(Napi::Env env) {
    end();
    for (auto& [id, deferred] : pending_) deferred.Reject(Napi::Error::New(env, "the store was closed").Value());
    pending_.clear();
    answers_.Release();
  }

  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    wake_.notify_one();
  }

 private:
  void run(const std::string& host, const c10d::TCPStoreOptions& options) {
    c10::intrusive_ptr<c10d::TCPStore> store;
    std::optional<std::string> failure;
    try {
      [[maybe_unused]] const Quiet quiet;
      store = c10::make_intrusive<c10d::TCPStore>(host, options);
    } catch (const std::exception& error) {
      failure = messageOf(error);
    }
    std::vector<Request> waiting;
    Milliseconds pause = kPoll;
    for (;;) {
      std::vector<Request> batch;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        const auto ready = [&] { return ended_ || !requests_.empty(); };
        if (waiting.empty()) wake_.wait(lock, ready);
        else pause = wake_.wait_for(lock, pause, ready) ? kPoll : std::min(2 * pause, kLongestPoll);
        if (ended_) return;
        batch.swap(requests_);
      }
      std::move(waiting.begin(), waiting.end(), std::back_inserter(batch));
      waiting.clear();
      for (Request& request : batch) {
        Answer answer{request.id, {}, failure};
        try {
          if (!failure) {
            const bool late = Clock::now() >= request.deadline;
            auto value = request.attempt(*store);
            if (value) answer.value = std::move(*value);
            else if (late) answer.error = "timed out: not set";
            else {
              waiting.push_back(std::move(request));
              continue;
            }
          }
        } catch (const std::exception& error) {
          answer.error = messageOf(error);
        }
        send(std::move(answer));
      }
    }
  }

  void send(Answer answer) {
    const std::lock_guard<std::mutex> lock(mutex_);  // against the end of the environment between the two lines
    if (ended_) return;
    answers_.NonBlockingCall(new Answer(std::move(answer)),
                             [self = shared_from_this()](Napi::Env env, Napi::Function, Answer* given) {
                               const std::unique_ptr<Answer> answer(given);
                               if (static_cast<napi_env>(env) != nullptr) self->settle(env, *answer);
                             });
  }

  void settle(Napi::Env env, const Answer& answer) {
    const auto found = pending_.find(answer.id);
    if (found == pending_.end()) return;
    const auto deferred = found->second;
    pending_.erase(found);
    if (answer.error) return deferred.Reject(Napi::Error::New(env, *answer.error).Value());
    if (const auto* bytes = std::get_if<ByteVector>(&answer.value))
      deferred.Resolve(Napi::Buffer<uint8_t>::Copy(env, bytes->data(), bytes->size()));
    else if (const auto* number = std::get_if<int64_t>(&answer.value))
      deferred.Resolve(Napi::Number::New(env, static_cast<double>(*number)));
    else if (const auto* flag = std::get_if<bool>(&answer.value))
      deferred.Resolve(Napi::Boolean::New(env, *flag));
    else deferred.Resolve(env.Undefined());
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Request> requests_;
  bool ended_ = false;
  Napi::ThreadSafeFunction answers_;
  // By the environment's thread only.
  std::unordered_map<int64_t, Napi::Promise::Deferred> pending_;
  int64_t next_ = 0;
};

// Calls `shutdown` where this version has it; a group destroyed without that logs a warning.
template <typename Backend>
auto shutDown(Backend& backend, int) -> decltype(backend.shutdown(), void()) {
  backend.shutdown();
}
template <typename Backend>
void shutDown(Backend&, long) {}

struct Group {
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  int size;
  Milliseconds timeout;
#ifdef TIMESEER_NCCL
  // For tensors of a GPU, once `useNccl` asked for it. Its connections are made by its first operation.
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> nccl;
  bool atGpu() const { return nccl.defined(); }

  ~Group() {
    gloo.reset();  // first, so that the peers hear of it: NCCL may wait for one that is gone
    if (!nccl) return;
    try {
      shutDown(*nccl, 0);
    } catch (const std::exception&) {  // a peer is gone, which the operation under way has said
    }
  }
#else
  bool atGpu() const { return false; }
#endif
};

// Closings of NCCL under way. A process that ends waits for them: the driver ends with it, and NCCL aborts a process that closes
// connections after its driver.
struct Closings {
  std::mutex mutex;
  std::condition_variable ended;
  int count = 0;
};

Closings& closings() {
  static auto* all = new Closings;  // never destroyed: a thread may outlive what is static
  return *all;
}

// At most 5 s: NCCL may wait for a peer that is gone.
void awaitClosings() {
  auto& all = closings();
  std::unique_lock lock(all.mutex);
  all.ended.wait_for(lock, std::chrono::seconds(5), [&all] { return all.count == 0; });
}

// One closing, from its making to its end.
struct Closing {
  Closing() {
    static const int registered = std::atexit(awaitClosings);  // by now, so that it runs before what the driver registered
    (void)registered;
    const std::lock_guard lock(closings().mutex);
    ++closings().count;
  }
  ~Closing() {
    const std::lock_guard lock(closings().mutex);
    --closings().count;
    closings().ended.notify_all();
  }
};

using Staged = std::vector<std::pair<at::Tensor, at::Tensor>>;  // copies in host memory, and what they are copied back to

struct Pending {
  int64_t group;
  c10::intrusive_ptr<c10d::Work> work;  // null: nothing to move
  Staged staged;
};

}  // namespace

struct Distributed {
  std::unordered_map<int64_t, std::shared_ptr<StoreThread>> stores;
  std::unordered_map<int64_t, std::shared_ptr<Group>> groups;
  std::unordered_map<int64_t, Pending> works;
  int64_t next = 1;

  ~Distributed() {
    for (auto& [id, store] : stores) store->end();
    while (!groups.empty()) closeGroup(groups.begin()->first);
  }

  // The connections close, so that the peers hear of it at once; on a thread of its own, because Gloo waits for what is under
  // way, until its time-out where a peer has stopped.
  void closeGroup(int64_t id) {
    for (auto at = works.begin(); at != works.end();) at = at->second.group == id ? works.erase(at) : std::next(at);
    const auto found = groups.find(id);
    if (found == groups.end()) return;
    auto owner = std::move(found->second);
    groups.erase(found);
    auto closing = owner->atGpu() ? std::make_shared<Closing>() : nullptr;
    std::thread([owner = std::move(owner), closing = std::move(closing)]() mutable { owner.reset(); }).detach();
  }
};

namespace {

Distributed& registry(Instance& instance) {
  if (instance.distributed == nullptr) instance.distributed = std::make_shared<Distributed>();
  return *instance.distributed;
}

template <typename Table>
auto& entry(Table& table, const Napi::Value& id, const char* what) {
  const auto found = table.find(toInteger(id, what));
  if (found == table.end()) throw std::invalid_argument(std::string(what) + " is closed");
  return found->second;
}

Milliseconds milliseconds(const Napi::Value& value) { return Milliseconds(toInteger(value, "timeoutMs")); }

c10d::TCPStoreOptions storeOptions(const Napi::Value& port, bool server, Milliseconds timeout) {
  const int64_t number = toInteger(port, "port");
  if (number < 0 || number > 65535) throw std::invalid_argument("port: expected 0 to 65535");
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(number);
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = std::max(timeout, Milliseconds(1000));  // 1.13 counts whole seconds, and 0 of them fail at once
  return options;
}

// Runs `body` on a thread that is left behind when it takes longer than this.
template <typename Body>
auto within(Milliseconds timeout, Body body) {
  auto result = std::make_shared<std::promise<decltype(body())>>();
  auto future = result->get_future();
  std::thread([result, body = std::move(body)] {
    try {
      result->set_value(body());
    } catch (...) {
      result->set_exception(std::current_exception());
    }
  }).detach();
  if (future.wait_for(timeout) != std::future_status::ready) throw std::runtime_error("timed out: no answer");
  return future.get();
}

// Address of this machine on the interface that leads to the host; no packet is sent.
std::string addressTowards(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return "";
  char name[NI_MAXHOST] = "";
  for (const addrinfo* at = list; at != nullptr && name[0] == 0; at = at->ai_next) {
    const int socket = ::socket(at->ai_family, SOCK_DGRAM, 0);
    if (socket < 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (::connect(socket, at->ai_addr, at->ai_addrlen) == 0 &&
        getsockname(socket, reinterpret_cast<sockaddr*>(&local), &length) == 0) {
      getnameinfo(reinterpret_cast<sockaddr*>(&local), length, name, sizeof name, nullptr, 0, NI_NUMERICHOST);
    }
    ::close(socket);
  }
  freeaddrinfo(list);
  return name;
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> groupOptions(const std::string& host, uint16_t port,
                                                                Milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const char* wished = std::getenv("GLOO_SOCKET_IFNAME");
  if (wished != nullptr && *wished != 0) {
    std::istringstream names(wished);
    for (std::string name; std::getline(names, name, ',');)
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(name));
  } else {
    const std::string address = addressTowards(host, port);
    options->devices.push_back(address.empty() ? c10d::ProcessGroupGloo::createDefaultDevice()
                                               : c10d::ProcessGroupGloo::createDeviceForHostname(address));
  }
  options->threads = static_cast<int>(options->devices.size()) * 2;
  return options;
}

// Returns once every rank has come to the store; names those that have not.
void awaitRanks(c10d::Store& store, int rank, int size, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const auto key = [](int of) { return "joined/" + std::to_string(of); };
  store.set(key(rank), ByteVector{1});
  std::string missing;
  do {
    int absent = 0;
    missing.clear();
    for (int of = 0; of < size; of++) {
      if (store.check({key(of)})) continue;
      missing += (absent++ == 0 ? "" : ", ") + std::to_string(of);
    }
    if (absent == 0) return;
    missing = (absent == 1 ? "rank " : "ranks ") + missing + " of " + std::to_string(size);
    std::this_thread::sleep_for(kPoll);
  } while (Clock::now() < deadline);
  throw std::runtime_error("timed out: " + missing + " did not join");
}

// ByteVector of a tensor in place: moving data is the same for every dtype, also those that Gloo does not know.
at::Tensor bytesOf(const at::Tensor& tensor) { return tensor.detach().view({-1}).view(at::kByte); }

at::Tensor summable(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kLong && type != at::kByte) {
    throw std::invalid_argument("Gloo sums float32, float64, int64 and uint8, got " + scalarName(type) +
                                "; cast it to float32 first");
  }
  return tensor.detach();
}

// storeOpen(host, port, server, timeoutMs) → id; storeCall(id, 'port') waits for the connection.
Napi::Value storeOpen(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const std::string host = info[0].As<Napi::String>();
    const auto options = storeOptions(info[1], info[2].As<Napi::Boolean>().Value(), milliseconds(info[3]));
    auto store = std::make_shared<StoreThread>();
    store->start(env, host, options);
    Distributed& all = registry(instance);
    all.stores.emplace(all.next, std::move(store));
    return Napi::Number::New(env, static_cast<double>(all.next++));
  });
}

// storeCall(id, operation, keys, value, timeoutMs) → promise. 'get' and 'wait' leave the connection to others meanwhile.
Napi::Value storeCall(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const std::string operation = info[1].As<Napi::String>();
    std::vector<std::string> keys;
    const auto list = info[2].As<Napi::Array>();
    for (uint32_t i = 0; i < list.Length(); i++) keys.push_back(list.Get(i).As<Napi::String>());
    ByteVector bytes;
    int64_t amount = 0;
    if (operation == "set") {
      const auto value = info[3].As<Napi::Uint8Array>();
      bytes.assign(value.Data(), value.Data() + value.ByteLength());
    } else if (operation == "add") {
      amount = toInteger(info[3], "amount");
    }
    const auto attempt = [=](c10d::TCPStore& store) -> std::optional<Value> {
      if (operation == "port") return Value(static_cast<int64_t>(store.getPort()));
      if (operation == "set") store.set(keys.at(0), bytes);
      else if (operation == "add") return Value(store.add(keys.at(0), amount));
      else if (operation == "check") return Value(store.check(keys));
      else if (operation == "delete") return Value(store.deleteKey(keys.at(0)));
      else if (!store.check(keys)) return std::nullopt;
      else if (operation == "get") return Value(store.get(keys.at(0)));
      return Value();
    };
    return entry(registry(instance).stores, info[0], "the store")->submit(env, milliseconds(info[4]), attempt);
  });
}

Napi::Value storeClose(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    auto& stores = registry(instance).stores;
    entry(stores, info[0], "the store")->close(env);
    stores.erase(toInteger(info[0], "store"));
    return env.Undefined();
  });
}

// groupOpen(host, port, prefix, rank, size, timeoutMs) → id; blocks until all ranks are connected.
Napi::Value groupOpen(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    const std::string host = info[0].As<Napi::String>();
    const std::string prefix = info[2].As<Napi::String>();
    const int rank = info[3].As<Napi::Number>().Int32Value();
    const int size = info[4].As<Napi::Number>().Int32Value();
    const Milliseconds timeout = milliseconds(info[5]);
    const auto options = storeOptions(info[1], false, timeout);
    // Connecting, joining and Gloo's own connections may each take as long as the time-out.
    auto group = within(3 * timeout + std::chrono::seconds(1), [=] {
      [[maybe_unused]] const Quiet quiet;
      auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, c10::make_intrusive<c10d::TCPStore>(host, options));
      awaitRanks(*store, rank, size, timeout);
      auto opened = std::make_shared<Group>();
      opened->gloo =
          c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, groupOptions(host, options.port, timeout));
      opened->store = std::move(store);
      opened->size = size;
      opened->timeout = timeout;
      return opened;
    });
    Distributed& all = registry(instance);
    all.groups.emplace(all.next, std::move(group));
    return Napi::Number::New(env, static_cast<double>(all.next++));
  });
}

// groupUseNccl(group) → false where this libtorch has none; all ranks call it, each with a GPU of its own.
Napi::Value groupUseNccl(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    Group& group = *entry(registry(instance).groups, info[0], "the process group");
#ifdef TIMESEER_NCCL
    // NCCL's watchdog would abort the process when a peer is lost, before the job has said which.
    for (const char* name : {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING"})
      setenv(name, "0", /*replace=*/0);
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = group.timeout;
    group.nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("nccl", group.store),
                                                            group.gloo->getRank(), group.size, options);
    return Napi::Boolean::New(env, true);
#else
    (void)group;
    return Napi::Boolean::New(env, false);
#endif
  });
}

template <typename Options>
Options timed(const Group& group) {
  Options options;
  options.timeout = group.timeout;
  return options;
}

template <typename Options>
Options rooted(const Group& group, int64_t root) {
  auto options = timed<Options>(group);
  options.rootRank = root;
  return options;
}

// Starts an operation on Gloo or NCCL; `outputs` are those of a rank that receives.
template <typename Backend>
c10::intrusive_ptr<c10d::Work> begin(Backend& backend, const Group& group, const std::string& operation, int64_t root,
                                     std::vector<at::Tensor>& own, std::vector<std::vector<at::Tensor>>& outputs) {
  if (operation == "allReduce") return backend.allreduce(own, timed<c10d::AllreduceOptions>(group));
  if (operation == "allGather") return backend.allgather(outputs, own, timed<c10d::AllgatherOptions>(group));
  if (operation == "reduce") return backend.reduce(own, rooted<c10d::ReduceOptions>(group, root));
  if (operation == "broadcast") return backend.broadcast(own, rooted<c10d::BroadcastOptions>(group, root));
  return backend.gather(outputs, own, rooted<c10d::GatherOptions>(group, root));
}

// The tensor, or a copy in host memory where it is on a device that neither Gloo nor NCCL knows; it is copied back when the
// work is done.
at::Tensor onKnown(const at::Tensor& tensor, Staged& staged) {
  if (tensor.device().is_cpu() || tensor.is_cuda()) return tensor;
  staged.emplace_back(tensor.cpu(), tensor);
  return staged.back().first;
}

// groupStart(group, operation, handle, root, into) → work id; the tensors live as long as the work.
Napi::Value groupStart(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    Distributed& all = registry(instance);
    const std::string operation = info[1].As<Napi::String>();
    const at::Tensor tensor = instance.get(info[2]);
    const int64_t root = toInteger(info[3], "root");
    std::vector<at::Tensor> into = toTensors(instance, info[4], "into");
    const Group& group = *entry(all.groups, info[0], "the process group");
    const bool sum = operation == "allReduce" || operation == "reduce";
    if (!tensor.is_contiguous()) throw std::invalid_argument("the tensor is not contiguous");
    if (root < 0 || root >= group.size) throw std::invalid_argument("root: no such rank");
    const bool receives = operation == "allGather" || (operation == "gather" && root == group.gloo->getRank());
    if (into.size() != static_cast<size_t>(receives ? group.size : 0)) {
      throw std::invalid_argument("into: expected one tensor per rank where tensors are gathered, none elsewhere");
    }
    for (at::Tensor& part : into) {
      if (!part.is_contiguous() || part.numel() != tensor.numel() || part.scalar_type() != tensor.scalar_type()) {
        throw std::invalid_argument("into: expected contiguous tensors of the size and dtype of what is gathered");
      }
      part = bytesOf(part);
    }
    c10::intrusive_ptr<c10d::Work> work;
    Staged staged;
    if (tensor.numel() > 0) {
      std::vector<at::Tensor> own = {onKnown(sum ? summable(tensor) : bytesOf(tensor), staged)};
      std::vector<std::vector<at::Tensor>> outputs;
      for (at::Tensor& part : into) part = onKnown(part, staged);
      if (receives) outputs.push_back(std::move(into));
#ifdef TIMESEER_NCCL
      if (tensor.is_cuda() && group.nccl) work = begin(*group.nccl, group, operation, root, own, outputs);
      else
#endif
        work = begin(*group.gloo, group, operation, root, own, outputs);
    }
    all.works.emplace(all.next, Pending{toInteger(info[0], "group"), std::move(work), std::move(staged)});
    return Napi::Number::New(env, static_cast<double>(all.next++));
  });
}

// Runs what a dead or stopped peer makes fail. Then the group is closed: the peers hear of it at once instead of at their
// time-outs, and its connections are of no use any more.
template <typename Body>
void orClose(Distributed& all, int64_t group, Body body) {
  try {
    body();
  } catch (...) {
    all.closeGroup(group);
    throw;
  }
}

// groupWait(work) blocks until it is done.
Napi::Value groupWait(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    Distributed& all = registry(instance);
    Pending pending = std::move(entry(all.works, info[0], "the process group"));
    all.works.erase(toInteger(info[0], "work"));
    if (!pending.work) return env.Undefined();
    orClose(all, pending.group, [&] {
      const auto work = std::move(pending.work);  // let go of before the group closes
      work->wait();
    });
    for (const auto& [copy, original] : pending.staged) original.copy_(copy);
    return env.Undefined();
  });
}

// groupBarrier(group, timeoutMs) blocks until all ranks are here; rank 0's error names those that are not.
Napi::Value groupBarrier(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    Distributed& all = registry(instance);
    c10d::BarrierOptions options;
    options.timeout = milliseconds(info[1]);
    auto gloo = entry(all.groups, info[0], "the process group")->gloo;
    orClose(all, toInteger(info[0], "group"), [&] {
      const auto alive = std::move(gloo);
      alive->monitoredBarrier(options, /*waitAllRanks=*/true);
    });
    return env.Undefined();
  });
}

Napi::Value groupClose(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    registry(instance).closeGroup(toInteger(info[0], "group"));
    return env.Undefined();
  });
}

}  // namespace

Napi::Value distributedFunctions(Napi::Env env) {
  Napi::Object result = Napi::Object::New(env);
  const auto add = [&](const char* name, Napi::Value (*function)(const Napi::CallbackInfo&)) {
    result.Set(name, Napi::Function::New(env, function, name));
  };
  add("storeOpen", storeOpen);
  add("storeCall", storeCall);
  add("storeClose", storeClose);
  add("groupOpen", groupOpen);
  add("groupUseNccl", groupUseNccl);
  add("groupStart", groupStart);
  add("groupWait", groupWait);
  add("groupBarrier", groupBarrier);
  add("groupClose", groupClose);
  return result;
}

}  // namespace timeseer

#else

Napi::Value timeseer::distributedFunctions(Napi::Env env) { return env.Null(); }

#endif
