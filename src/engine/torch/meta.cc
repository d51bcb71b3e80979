// Tensors without elements, for memory plans: libtorch's meta device computes shapes, records what the backward pass keeps and
// frees it, as another device would; its allocator books here what that device would hold.
#include "meta.h"

#include "binding.h"

#include <torch/library.h>
#include <torch/torch.h>

#include <c10/core/Allocator.h>

#include <mutex>

namespace timeseer {

// Bytes that a device would hold, by their kind: a number that whoever allocates gave before.
struct Ledger {
  bool host;        // whether operators work as those of host memory do
  int64_t granule;  // the device's allocator gives multiples of so many bytes
  size_t kind = 0;
  int64_t now = 0, peak = 0;
  std::vector<int64_t> held, atPeak;
  bool rising = false;  // whether the peak is now: what it is made of is written down when something is freed

  void take(int64_t bytes) {
    if (held.size() <= kind) held.resize(kind + 1);
    held[kind] += bytes;
    now += bytes;
    if (now > peak) {
      peak = now;
      rising = true;
    }
  }
  void drop(int64_t bytes, size_t of) {
    settle();
    held[of] -= bytes;
    now -= bytes;
  }
  void settle() {
    if (rising) atPeak = held;
    rising = false;
  }
  void again() {
    peak = now;
    rising = true;
  }
};

namespace {

using at::Tensor;
using OptionalTensor = c10::optional<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Where this thread's allocations are booked.
thread_local std::shared_ptr<Ledger> current;

struct Block {
  std::shared_ptr<Ledger> ledger;
  int64_t bytes;
  size_t kind;
};

void release(void* context) {
  if (context == nullptr) return;
  auto* block = static_cast<Block*>(context);
  block->ledger->drop(block->bytes, block->kind);
  delete block;
}

class BookingAllocator final : public c10::Allocator {
 public:
  // Later versions dropped the const: whichever of the two is the virtual function of this one.
  c10::DataPtr allocate(size_t bytes) { return booked(bytes); }
  c10::DataPtr allocate(size_t bytes) const { return booked(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void*, const void*, size_t) const {}

 private:
  static c10::DataPtr booked(size_t bytes) {
    Block* block = nullptr;
    if (current != nullptr && bytes > 0) {
      const int64_t granule = current->granule;
      const int64_t size = (static_cast<int64_t>(bytes) + granule - 1) / granule * granule;
      block = new Block{current, size, current->kind};
      current->take(size);
    }
    return {nullptr, block, &release, c10::Device(c10::DeviceType::Meta)};
  }
};

// ---- operators that libtorch has no meta kernel for -----------------------------------------------------------------

Tensor whereShape(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const auto shape = at::infer_size(at::infer_size(condition.sizes(), a.sizes()), b.sizes());
  return at::empty(shape, a.options().dtype(at::result_type(a, b)));
}

Tensor& absShape(const Tensor& x, Tensor& out) {
  out.resize_(x.sizes());
  return out;
}

Tensor& bothShape(const Tensor& a, const Tensor& b, Tensor& out) {
  out.resize_(at::infer_size(a.sizes(), b.sizes()));
  return out;
}

std::vector<int64_t> selected(const Tensor& x, int64_t axis, const Tensor& index) {
  auto shape = x.sizes().vec();
  shape.at(static_cast<size_t>(axis)) = index.numel();
  return shape;
}

Tensor selectShape(const Tensor& x, int64_t axis, const Tensor& index) {
  return at::empty(selected(x, axis, index), x.options());
}

Tensor searchShape(const Tensor&, const Tensor& values, bool, bool, c10::optional<c10::string_view>, const OptionalTensor&) {
  return at::empty(values.sizes(), values.options().dtype(at::kLong));
}

void addMissingKernels() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::make_optional(c10::DispatchKey::Meta), __FILE__, __LINE__);
  const auto add = [](const char* name, const char* overload, auto kernel) {
    const auto found = c10::Dispatcher::singleton().findSchema({std::string("aten::") + name, overload});
    if (!found.has_value() || found->hasKernelForDispatchKey(c10::DispatchKey::Meta)) return;
    const std::string full = *overload == '\0' ? name : std::string(name) + "." + overload;
    library.impl(full.c_str(), kernel);
  };
  add("index_select", "", TORCH_FN(selectShape));
  add("where", "self", TORCH_FN(whereShape));
  add("abs", "out", TORCH_FN(absShape));
  add("logical_and", "out", TORCH_FN(bothShape));
  add("searchsorted", "Tensor", TORCH_FN(searchShape));
}

// ---- operators whose backward pass libtorch composes otherwise on the meta device ---------------------------------------

// Of a tensor some elements, as gather and index_select take them: the gradient is as large as the whole.
struct Picked : public torch::autograd::Function<Picked> {
  static Tensor forward(AutogradContext* context, const Tensor& whole, const Tensor& index, std::vector<int64_t> shape) {
    context->save_for_backward({index});
    context->saved_data["shape"] = whole.sizes().vec();
    return at::empty(shape, whole.options());
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {at::empty(context->saved_data["shape"].toIntVector(), gradients[0].options()), Tensor(), Tensor()};
  }
};

Tensor indexSelect(const Tensor& x, int64_t axis, const Tensor& index) {
  return Picked::apply(x, index, selected(x, axis, index));
}

Tensor gather(const Tensor& x, int64_t, const Tensor& index) { return Picked::apply(x, index, index.sizes().vec()); }

// [B, H, T, D] as [B, T, H, D] lies in memory.
Tensor positionMajor(const Tensor& like) {
  const int64_t heads = like.size(1), length = like.size(2), width = like.size(3);
  return at::empty_strided(like.sizes(), {length * heads * width, width, heads * width, 1}, like.options());
}

// libtorch 2's attention by tiles keeps query, key, value, mask, its result and one number a row; the scores are never whole.
struct TiledAttention : public torch::autograd::Function<TiledAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const OptionalTensor& mask) {
    const Tensor out = positionMajor(query);
    const Tensor rows = at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(at::kFloat));
    context->save_for_backward({query, key, value, mask.has_value() ? *mask : Tensor(), out, rows});
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor given = gradients[0].transpose(1, 2).contiguous();
    const Tensor along = at::empty_like(saved[5]);  // Σ gradient · result of each row
    return {positionMajor(saved[0]), positionMajor(saved[1]), positionMajor(saved[2]), Tensor()};
  }
};

Tensor tiledAttention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double, bool,
                      c10::optional<double>, bool) {
  return TiledAttention::apply(query, key, value, mask);
}

std::shared_ptr<Ledger>& ledgerOf(Instance& instance, const Napi::Value& id) {
  return instance.ledgers.at(static_cast<size_t>(toInteger(id, "ledger")));
}

}  // namespace

bool onHost(const Tensor& tensor) {
  return tensor.device().is_cpu() || (tensor.is_meta() && current != nullptr && current->host);
}

// openLedger(host, granule) → id. `host`: operators work as on the CPU.
Napi::Value openLedger(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    static std::once_flag once;
    std::call_once(once, [] {
      c10::SetAllocator(c10::DeviceType::Meta, new BookingAllocator(), /*priority=*/1);
      addMissingKernels();
    });
    auto ledger = std::make_shared<Ledger>();
    ledger->host = info[0].ToBoolean();
    ledger->granule = toInteger(info[1], "granule");
    instance.ledgers.push_back(std::move(ledger));
    return Napi::Number::New(env, static_cast<double>(instance.ledgers.size() - 1));
  });
}

// useLedger(id, kind): what this thread allocates on the meta device from now on is booked there, as of this kind.
Napi::Value useLedger(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    current = ledgerOf(instance, info[0]);
    current->kind = static_cast<size_t>(toInteger(info[1], "kind"));
    return env.Undefined();
  });
}

// readLedger(id, again) → [now, peak, bytes of kind 0 at the peak, of kind 1, …]; `again`: the peak is counted anew.
Napi::Value readLedger(const Napi::CallbackInfo& info) {
  return guarded(info, [&](Napi::Env env, Instance& instance) -> Napi::Value {
    Ledger& ledger = *ledgerOf(instance, info[0]);
    ledger.settle();
    Napi::Array result = Napi::Array::New(env);
    uint32_t at = 0;
    result.Set(at++, static_cast<double>(ledger.now));
    result.Set(at++, static_cast<double>(ledger.peak));
    for (const int64_t bytes : ledger.atPeak) result.Set(at++, static_cast<double>(bytes));
    if (info[1].ToBoolean()) ledger.again();
    return result;
  });
}

TORCH_LIBRARY_FRAGMENT(timeseer, library) {
  library.def("meta_index_select(Tensor x, int axis, Tensor index) -> Tensor", indexSelect);
  library.def("meta_gather(Tensor x, int axis, Tensor index) -> Tensor", gather);
  library.def(
      "meta_tiled_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout=0, bool causal=False, "
      "float? scale=None, bool grouped=False) -> Tensor",
      tiledAttention);
}

}  // namespace timeseer
