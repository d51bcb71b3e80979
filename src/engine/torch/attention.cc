// Attention of few queries and keys, which libtorch makes of a dozen passes over memory, in one: on the CPU, in float32 and
// float64, with grouped queries, additive masks and a prefix that consecutive rows share. Scores are held for some rows at a
// time; the backward pass computes them again from the logarithm of each row's sum. Columns that a mask hides from all
// rows of a block behind the last visible one (a causal mask does) are not computed. The work is split over prompts and
// key heads, so a gradient is summed in an order that does not depend on the number of threads.
#include <torch/torch.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "meta.h"
#include "passes.h"
#include "vector.h"

namespace timeseer {
namespace {

using at::Tensor;
using OptionalTensor = c10::optional<Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kRows = 48;  // queries whose scores are held at once

// A tensor of four axes by its strides. A mask's axis of size 1 has stride 0.
template <typename T>
struct View {
  T* data = nullptr;
  int64_t stride[4] = {0, 0, 0, 0};

  View() = default;
  explicit View(const Tensor& tensor, bool broadcast = false) {
    data = tensor.data_ptr<T>();
    for (int axis = 0; axis < 4; axis++) {
      stride[axis] = broadcast && tensor.size(axis) == 1 ? 0 : tensor.stride(axis);
    }
  }
  T* at(int64_t a, int64_t b, int64_t c = 0) const { return data + a * stride[0] + b * stride[1] + c * stride[2]; }
};

struct Sizes {
  int64_t batch, prompts, group;     // B = P·G
  int64_t heads, repeat;             // Hkv, and R = Hq / Hkv
  int64_t queries, before, own, all;  // T, S₀, S, S₀ + S
  int64_t width;                     // D
  double scale;                      // 1 / √D
};

struct Inputs {
  Tensor query, key, value, mask, prefixKey, prefixValue, prefixMask;  // undefined where absent
};

Sizes sizesOf(const Inputs& in) {
  Sizes s;
  s.batch = in.query.size(0);
  s.heads = in.key.size(1);
  s.repeat = in.query.size(1) / s.heads;
  s.queries = in.query.size(2);
  s.width = in.query.size(3);
  s.own = in.key.size(2);
  s.prompts = in.prefixKey.defined() ? in.prefixKey.size(0) : s.batch;
  s.before = in.prefixKey.defined() ? in.prefixKey.size(2) : 0;
  s.group = s.batch / std::max<int64_t>(s.prompts, 1);
  s.all = s.before + s.own;
  s.scale = 1 / std::sqrt(static_cast<double>(s.width));
  return s;
}

// Memory of the calling thread, kept between calls; every block begins on a cache line.
template <typename T>
class Scratch {
 public:
  explicit Scratch(std::vector<int64_t> counts) {
    int64_t total = Vector<T>::lanes;
    for (const int64_t count : counts) total += padded<T>(count);
    thread_local std::vector<T> kept;
    if (static_cast<int64_t>(kept.size()) < total) kept.resize(total);
    T* at = kept.data();
    const auto misplaced = reinterpret_cast<uintptr_t>(at) % kVectorBytes / sizeof(T);
    if (misplaced != 0) at += Vector<T>::lanes - misplaced;
    for (const int64_t count : counts) {
      blocks_.push_back(at);
      at += padded<T>(count);
    }
  }
  T* operator[](size_t i) const { return blocks_[i]; }

 private:
  std::vector<T*> blocks_;
};

// Rows [count, D] of a strided matrix into rows of `ld` with zeros behind D.
template <typename T>
void packRows(const T* from, int64_t rowStride, int64_t step, int64_t count, int64_t width, T* into, int64_t ld) {
  for (int64_t s = 0; s < count; s++) {
    const T* row = from + s * rowStride;
    T* out = into + s * ld;
    if (step == 1) std::memcpy(out, row, width * sizeof(T));
    else for (int64_t d = 0; d < width; d++) out[d] = row[d * step];
    for (int64_t d = width; d < ld; d++) out[d] = 0;
  }
}

// Rows [count, D] of a strided matrix into columns: [D, ld].
template <typename T>
void packColumns(const T* from, int64_t rowStride, int64_t step, int64_t count, int64_t width, T* into, int64_t ld) {
  for (int64_t d = 0; d < width; d++) {
    T* out = into + d * ld;
    const T* column = from + d * step;
    for (int64_t s = 0; s < count; s++) out[s] = column[s * rowStride];
  }
}

template <typename T>
void clearColumns(T* into, int64_t ld, int64_t width, int64_t from) {
  for (int64_t d = 0; d < width; d++) std::fill(into + d * ld + from, into + (d + 1) * ld, T(0));
}

// The masks of one row of the batch, and how many of the own columns each query sees at most.
template <typename T>
class Masks {
 public:
  Masks(const Inputs& in, const Sizes& s) : sizes_(s), last_(s.queries, s.own) {
    if (in.mask.defined()) {
      own_ = View<T>(in.mask, true);
      each_ = own_.stride[0] != 0;
      if (!each_) count(0);
    }
    if (in.prefixMask.defined()) before_ = View<T>(in.prefixMask, true);
  }

  // Must be called before what follows is asked about a row.
  void select(int64_t b) {
    b_ = b;
    if (own_.data != nullptr && each_) count(b);
  }

  int64_t visible(int64_t from, int64_t to) const {
    int64_t most = 0;
    for (int64_t t = from; t < to; t++) most = std::max(most, last_[t]);
    // Where all is hidden all is computed: NaN, as a softmax over nothing but −∞ is.
    return sizes_.before + most == 0 ? sizes_.own : sizes_.before + most;
  }

  // scores [columns] = scores·scale + mask of query t
  void apply(T* scores, int64_t t, int64_t columns) const {
    const T scale = static_cast<T>(sizes_.scale);
#pragma omp simd
    for (int64_t s = 0; s < columns; s++) scores[s] *= scale;
    if (before_.data != nullptr) {
      add(scores, before_.at(b_ / sizes_.group, 0), before_.stride[3], std::min(sizes_.before, columns));
    }
    if (own_.data != nullptr && columns > sizes_.before) {
      add(scores + sizes_.before, own_.at(b_, 0, t), own_.stride[3], columns - sizes_.before);
    }
  }

 private:
  static void add(T* scores, const T* mask, int64_t step, int64_t count) {
    if (step == 1) {
#pragma omp simd
      for (int64_t s = 0; s < count; s++) scores[s] += mask[s];
    } else {
      for (int64_t s = 0; s < count; s++) scores[s] += mask[s * step];
    }
  }

  void count(int64_t b) {
    for (int64_t t = 0; t < sizes_.queries; t++) {
      const T* row = own_.at(b, 0, t);
      int64_t last = sizes_.own;
      while (last > 0 && row[(last - 1) * own_.stride[3]] == -std::numeric_limits<T>::infinity()) last--;
      last_[t] = last;
    }
  }

  Sizes sizes_;
  View<T> own_, before_;
  bool each_ = false;
  int64_t b_ = 0;
  std::vector<int64_t> last_;
};

template <typename T>
T largest(const T* values, int64_t count) {
  T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most)
  for (int64_t s = 0; s < count; s++) most = values[s] > most ? values[s] : most;
  return most;
}

// values = e^(values − shift); their sum.
template <typename T>
T exponentials(T* values, int64_t count, T shift) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t s = 0; s < count; s++) {
    const T e = expOf(values[s] - shift);
    values[s] = e;
    sum += e;
  }
  return sum;
}

// In place: scores of a query to e^(score − max). Returns Σ, and max + log Σ in `logSum`.
template <typename T>
T softmaxRow(T* scores, int64_t count, T* logSum) {
  const T most = largest(scores, count);
  const T sum = exponentials(scores, count, most);
  if (logSum != nullptr) *logSum = most + std::log(sum);
  return sum;
}

template <typename T>
void scaleRow(T* row, int64_t count, T factor) {
#pragma omp simd
  for (int64_t d = 0; d < count; d++) row[d] *= factor;
}

// ---- many queries ------------------------------------------------------------------------------------------------

template <typename T>
void forwardMany(const Inputs& in, const Sizes& s, const Tensor& out, T* logSums) {
  const View<T> query(in.query), key(in.key), value(in.value), result(out);
  const View<T> keyBefore = s.before > 0 ? View<T>(in.prefixKey) : View<T>();
  const View<T> valueBefore = s.before > 0 ? View<T>(in.prefixValue) : View<T>();
  const int64_t ld = padded<T>(s.all), wide = padded<T>(s.width);
  at::parallel_for(0, s.batch * s.heads, 1, [&](int64_t from, int64_t to) {
    const Scratch<T> memory({s.width * ld, s.all * wide, kRows * ld, kRows * wide});
    T *keys = memory[0], *values = memory[1], *scores = memory[2], *mixed = memory[3];
    Masks<T> masks(in, s);
    for (int64_t item = from; item < to; item++) {
      const int64_t b = item / s.heads, h = item % s.heads, p = b / s.group;
      masks.select(b);
      if (s.before > 0) {
        packColumns(keyBefore.at(p, h), keyBefore.stride[2], keyBefore.stride[3], s.before, s.width, keys, ld);
        packRows(valueBefore.at(p, h), valueBefore.stride[2], valueBefore.stride[3], s.before, s.width, values, wide);
      }
      packColumns(key.at(b, h), key.stride[2], key.stride[3], s.own, s.width, keys + s.before, ld);
      packRows(value.at(b, h), value.stride[2], value.stride[3], s.own, s.width, values + s.before * wide, wide);
      clearColumns(keys, ld, s.width, s.all);
      for (int64_t r = 0; r < s.repeat; r++) {
        const int64_t head = h * s.repeat + r;
        for (int64_t t = 0; t < s.queries; t += kRows) {
          const int64_t rows = std::min(kRows, s.queries - t);
          const int64_t columns = masks.visible(t, t + rows);
          multiply<T>(rows, padded<T>(columns), s.width, query.at(b, head, t), query.stride[2], query.stride[3], keys, ld,
                      scores, ld, false);
          for (int64_t i = 0; i < rows; i++) {
            T* row = scores + i * ld;
            masks.apply(row, t + i, columns);
            T* logSum = logSums == nullptr ? nullptr : logSums + (b * s.heads * s.repeat + head) * s.queries + t + i;
            const T sum = softmaxRow(row, columns, logSum);
            scaleRow(row, columns, 1 / sum);
          }
          multiply<T>(rows, wide, columns, scores, ld, 1, values, wide, mixed, wide, false);
          for (int64_t i = 0; i < rows; i++) {
            std::memcpy(result.at(b, head, t + i), mixed + i * wide, s.width * sizeof(T));
          }
        }
      }
    }
  });
}

// out[n] = ⟨q, k[n]⟩ for keys of `N` vectors each: the sums of a block of keys are kept lane by lane and added up together.
template <typename T, int N>
void dotsOfVectors(const T* q, const T* k, int64_t stride, int64_t count, T* out) {
  using V = Vector<T>;
  constexpr int block = static_cast<int>(V::lanes);
  typename V::type query[N];
  for (int v = 0; v < N; v++) query[v] = V::load(q + v * V::lanes);
  int64_t n = 0;
  for (; n + block <= count; n += block) {
    typename V::type sums[block];
    for (int i = 0; i < block; i++) {
      const T* row = k + (n + i) * stride;
      sums[i] = query[0] * V::load(row);
      for (int v = 1; v < N; v++) sums[i] += query[v] * V::load(row + v * V::lanes);
    }
    V::store(out + n, V::sumsOf(sums));
  }
  for (; n < count; n++) {
    const T* row = k + n * stride;
    typename V::type sum = query[0] * V::load(row);
    for (int v = 1; v < N; v++) sum += query[v] * V::load(row + v * V::lanes);
    T total = 0;
    for (int i = 0; i < block; i++) total += sum[i];
    out[n] = total;
  }
}

template <typename T>
void dotsOf(const T* q, const T* k, int64_t stride, int64_t count, int64_t width, T* out) {
  switch (width / Vector<T>::lanes) {
    case 1: return dotsOfVectors<T, 1>(q, k, stride, count, out);
    case 2: return dotsOfVectors<T, 2>(q, k, stride, count, out);
    case 4: return dotsOfVectors<T, 4>(q, k, stride, count, out);
    case 8: return dotsOfVectors<T, 8>(q, k, stride, count, out);
    case 16: return dotsOfVectors<T, 16>(q, k, stride, count, out);
  }
  for (int64_t n = 0; n < count; n++) {
    const T* row = k + n * stride;
    T dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t d = 0; d < width; d++) dot += q[d] * row[d];
    out[n] = dot;
  }
}

// ---- one query a row: decoding -----------------------------------------------------------------------------------

// Keys and values of a row are read where they stand; those of the prefix serve all rows of the group.
template <typename T>
void forwardOne(const Inputs& in, const Sizes& s, const Tensor& out) {
  const View<T> query(in.query), key(in.key), value(in.value), result(out);
  const View<T> keyBefore = s.before > 0 ? View<T>(in.prefixKey) : View<T>();
  const View<T> valueBefore = s.before > 0 ? View<T>(in.prefixValue) : View<T>();
  const int64_t ld = padded<T>(s.before) + padded<T>(s.own), front = padded<T>(s.before);
  const int64_t wide = padded<T>(s.width), rows = s.group * s.repeat;
  at::parallel_for(0, s.prompts * s.heads, 1, [&](int64_t from, int64_t to) {
    const Scratch<T> memory({s.width * front, s.before * wide, rows * ld, rows * wide, rows * wide});
    T *keys = memory[0], *values = memory[1], *scores = memory[2], *queries = memory[3], *mixed = memory[4];
    Masks<T> masks(in, s);
    for (int64_t item = from; item < to; item++) {
      const int64_t p = item / s.heads, h = item % s.heads;
      for (int64_t g = 0; g < s.group; g++) {
        packRows(query.at(p * s.group + g, h * s.repeat), query.stride[1], query.stride[3], s.repeat, s.width,
                 queries + g * s.repeat * wide, wide);
      }
      if (s.before > 0) {
        packColumns(keyBefore.at(p, h), keyBefore.stride[2], keyBefore.stride[3], s.before, s.width, keys, front);
        clearColumns(keys, front, s.width, s.before);
        packRows(valueBefore.at(p, h), valueBefore.stride[2], valueBefore.stride[3], s.before, s.width, values, wide);
        multiply<T>(rows, front, s.width, queries, wide, 1, keys, front, scores, ld, false);
      }
      for (int64_t g = 0; g < s.group; g++) {
        const int64_t b = p * s.group + g;
        masks.select(b);
        const int64_t own = masks.visible(0, 1) - s.before;
        for (int64_t r = 0; r < s.repeat; r++) {
          T* all = scores + (g * s.repeat + r) * ld;
          const T* q = queries + (g * s.repeat + r) * wide;
          dotsOf<T>(q, key.at(b, h), key.stride[2], own, s.width, all + s.before);
          masks.apply(all, 0, s.before + own);
          const T sum = softmaxRow<T>(all, s.before + own, nullptr);
          scaleRow(all, s.before + own, 1 / sum);
        }
        multiply<T>(s.repeat, s.width, own, scores + g * s.repeat * ld + s.before, ld, 1, value.at(b, h), value.stride[2],
                    mixed + g * s.repeat * wide, wide, false);
      }
      if (s.before > 0) multiply<T>(rows, wide, s.before, scores, ld, 1, values, wide, mixed, wide, true);
      for (int64_t i = 0; i < rows; i++) {
        std::memcpy(result.at(p * s.group + i / s.repeat, h * s.repeat + i % s.repeat), mixed + i * wide,
                    s.width * sizeof(T));
      }
    }
  });
}

// ---- gradients ---------------------------------------------------------------------------------------------------

struct Gradients {
  Tensor query, key, value, prefixKey, prefixValue;  // the last two undefined without a prefix
};

template <typename T>
void backward(const Inputs& in, const Sizes& s, const Tensor& out, const T* logSums, const Tensor& given,
              const Gradients& gradients) {
  const View<T> query(in.query), key(in.key), value(in.value), result(out), go(given);
  const View<T> toQuery(gradients.query), toKey(gradients.key), toValue(gradients.value);
  const bool prefixed = s.before > 0;
  const View<T> keyBefore = prefixed ? View<T>(in.prefixKey) : View<T>();
  const View<T> valueBefore = prefixed ? View<T>(in.prefixValue) : View<T>();
  const View<T> toKeyBefore = prefixed ? View<T>(gradients.prefixKey) : View<T>();
  const View<T> toValueBefore = prefixed ? View<T>(gradients.prefixValue) : View<T>();
  const int64_t ld = padded<T>(s.all), wide = padded<T>(s.width);
  at::parallel_for(0, s.prompts * s.heads, 1, [&](int64_t from, int64_t to) {
    const Scratch<T> memory({s.width * ld, s.all * wide, s.width * ld, kRows * ld, kRows * ld, kRows * wide, kRows * wide,
                             kRows * wide, s.all * wide, s.all * wide});
    T *keyColumns = memory[0], *keyRows = memory[1], *valueColumns = memory[2], *weights = memory[3], *slopes = memory[4],
      *q = memory[5], *g0 = memory[6], *dq = memory[7], *dk = memory[8], *dv = memory[9];
    Masks<T> masks(in, s);
    for (int64_t item = from; item < to; item++) {
      const int64_t p = item / s.heads, h = item % s.heads;
      if (prefixed) {
        packColumns(keyBefore.at(p, h), keyBefore.stride[2], keyBefore.stride[3], s.before, s.width, keyColumns, ld);
        packRows(keyBefore.at(p, h), keyBefore.stride[2], keyBefore.stride[3], s.before, s.width, keyRows, wide);
        packColumns(valueBefore.at(p, h), valueBefore.stride[2], valueBefore.stride[3], s.before, s.width, valueColumns, ld);
      }
      std::fill(dk, dk + s.before * wide, T(0));
      std::fill(dv, dv + s.before * wide, T(0));
      for (int64_t g = 0; g < s.group; g++) {
        const int64_t b = p * s.group + g;
        masks.select(b);
        packColumns(key.at(b, h), key.stride[2], key.stride[3], s.own, s.width, keyColumns + s.before, ld);
        packRows(key.at(b, h), key.stride[2], key.stride[3], s.own, s.width, keyRows + s.before * wide, wide);
        packColumns(value.at(b, h), value.stride[2], value.stride[3], s.own, s.width, valueColumns + s.before, ld);
        clearColumns(keyColumns, ld, s.width, s.all);
        clearColumns(valueColumns, ld, s.width, s.all);
        std::fill(dk + s.before * wide, dk + s.all * wide, T(0));
        std::fill(dv + s.before * wide, dv + s.all * wide, T(0));
        for (int64_t r = 0; r < s.repeat; r++) {
          const int64_t head = h * s.repeat + r;
          for (int64_t t = 0; t < s.queries; t += kRows) {
            const int64_t rows = std::min(kRows, s.queries - t);
            const int64_t columns = masks.visible(t, t + rows);
            packRows(query.at(b, head, t), query.stride[2], query.stride[3], rows, s.width, q, wide);
            packRows(go.at(b, head, t), go.stride[2], go.stride[3], rows, s.width, g0, wide);
            multiply<T>(rows, padded<T>(columns), s.width, q, wide, 1, keyColumns, ld, weights, ld, false);
            multiply<T>(rows, padded<T>(columns), s.width, g0, wide, 1, valueColumns, ld, slopes, ld, false);
            for (int64_t i = 0; i < rows; i++) {
              T* w = weights + i * ld;
              T* slope = slopes + i * ld;
              masks.apply(w, t + i, columns);
              exponentials(w, columns, logSums[(b * s.heads * s.repeat + head) * s.queries + t + i]);
              const T* y = result.at(b, head, t + i);  // its last axis is contiguous
              const T* d0 = g0 + i * wide;
              T along = 0;
#pragma omp simd reduction(+ : along)
              for (int64_t d = 0; d < s.width; d++) along += d0[d] * y[d];
              const T scale = static_cast<T>(s.scale);
#pragma omp simd
              for (int64_t n = 0; n < columns; n++) slope[n] = w[n] * (slope[n] - along) * scale;
            }
            multiply<T>(rows, wide, columns, slopes, ld, 1, keyRows, wide, dq, wide, false);
            multiply<T>(columns, wide, rows, slopes, 1, ld, q, wide, dk, wide, true);
            multiply<T>(columns, wide, rows, weights, 1, ld, g0, wide, dv, wide, true);
            for (int64_t i = 0; i < rows; i++) {
              std::memcpy(toQuery.at(b, head, t + i), dq + i * wide, s.width * sizeof(T));
            }
          }
        }
        for (int64_t n = 0; n < s.own; n++) {
          std::memcpy(toKey.at(b, h, n), dk + (s.before + n) * wide, s.width * sizeof(T));
          std::memcpy(toValue.at(b, h, n), dv + (s.before + n) * wide, s.width * sizeof(T));
        }
      }
      for (int64_t n = 0; n < s.before; n++) {
        std::memcpy(toKeyBefore.at(p, h, n), dk + n * wide, s.width * sizeof(T));
        std::memcpy(toValueBefore.at(p, h, n), dv + n * wide, s.width * sizeof(T));
      }
    }
  });
}

// ---- the operator ------------------------------------------------------------------------------------------------

// [B, H, T, D] as [B, T, H, D] lies in memory: what a projection reads and makes.
Tensor positionMajor(const Tensor& like, at::IntArrayRef sizes) {
  const int64_t heads = sizes[1], length = sizes[2], width = sizes[3];
  return at::empty_strided(sizes, {length * heads * width, width, heads * width, 1}, like.options());
}

#define TIMESEER_FLOATS(type, name, ...) AT_DISPATCH_FLOATING_TYPES(type, name, __VA_ARGS__)

Tensor forward(const Inputs& in, const Tensor& logSums, bool step) {
  const Sizes s = sizesOf(in);
  Tensor out = positionMajor(in.query, in.query.sizes());
  if (out.numel() == 0 || out.is_meta()) return out;
  TIMESEER_FLOATS(in.query.scalar_type(), "attention", [&] {
    const bool readable = in.key.stride(3) == 1 && in.value.stride(3) == 1 && s.width % Vector<scalar_t>::lanes == 0;
    // Only where nothing is ever recorded: a pass with a gradient and one without must agree to the bit.
    if (step && s.queries == 1 && readable) forwardOne<scalar_t>(in, s, out);
    else forwardMany<scalar_t>(in, s, out, logSums.defined() ? logSums.data_ptr<scalar_t>() : nullptr);
  });
  return out;
}

const Tensor orNone(const OptionalTensor& tensor) { return tensor.has_value() ? *tensor : Tensor(); }

struct Attention : public torch::autograd::Function<Attention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const OptionalTensor& mask, const OptionalTensor& prefixKey, const OptionalTensor& prefixValue,
                        const OptionalTensor& prefixMask) {
    const Inputs in{query, key, value, orNone(mask), orNone(prefixKey), orNone(prefixValue), orNone(prefixMask)};
    const Tensor logSums = at::empty({query.size(0), query.size(1), query.size(2)}, query.options());
    const Tensor out = timeseer::forward(in, logSums, false);
    context->save_for_backward({query, key, value, in.mask, in.prefixKey, in.prefixValue, in.prefixMask, out, logSums});
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list given) {
    const auto saved = context->get_saved_variables();
    const Inputs in{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6]};
    const Sizes s = sizesOf(in);
    const bool prefixed = in.prefixKey.defined();
    const Gradients to{positionMajor(in.query, in.query.sizes()), positionMajor(in.key, in.key.sizes()),
                       positionMajor(in.value, in.value.sizes()),
                       prefixed ? positionMajor(in.prefixKey, in.prefixKey.sizes()) : Tensor(),
                       prefixed ? positionMajor(in.prefixValue, in.prefixValue.sizes()) : Tensor()};
    if (in.query.numel() == 0) {
      for (const Tensor& tensor : {to.query, to.key, to.value, to.prefixKey, to.prefixValue}) {
        if (tensor.defined()) tensor.zero_();
      }
    } else if (!in.query.is_meta()) {
      TIMESEER_FLOATS(in.query.scalar_type(), "attention_backward", [&] {
        timeseer::backward<scalar_t>(in, s, saved[7], saved[8].data_ptr<scalar_t>(), given[0], to);
      });
    }
    return {to.query, to.key, to.value, Tensor(), to.prefixKey, to.prefixValue, Tensor()};
  }
};

// query [B, Hq, T, D], key and value [B, Hkv, S, D], mask broadcast to [B, 1, T, S]; prefixes [P, Hkv, S₀, D], their mask
// broadcast to [P, 1, 1, S₀] → [B, Hq, T, D]. The caller has checked the shapes.
Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
              const OptionalTensor& prefixKey, const OptionalTensor& prefixValue, const OptionalTensor& prefixMask,
              bool step) {
  const auto type = query.scalar_type();
  const auto fits = [&](const Tensor& tensor) {
    return onHost(tensor) && tensor.scalar_type() == type && tensor.dim() == 4;
  };
  const auto constant = [&](const OptionalTensor& tensor) {
    return !tensor.has_value() || (fits(*tensor) && !tensor->requires_grad());
  };
  TORCH_CHECK((type == at::kFloat || type == at::kDouble) && fits(query) && fits(key) && fits(value) && constant(mask) &&
                  constant(prefixMask) && prefixKey.has_value() == prefixValue.has_value() &&
                  (!prefixKey.has_value() || (fits(*prefixKey) && fits(*prefixValue))),
              "attention: want float32 or float64 of one type on the CPU, and masks without a gradient");
  TORCH_CHECK(key.size(1) > 0 && query.size(1) % key.size(1) == 0 && key.sizes() == value.sizes() &&
                  query.size(0) == key.size(0) && query.size(3) == key.size(3) &&
                  (!prefixKey.has_value() ||
                   (prefixKey->sizes() == prefixValue->sizes() && prefixKey->size(0) > 0 &&
                    query.size(0) % prefixKey->size(0) == 0 && prefixKey->size(1) == key.size(1) &&
                    prefixKey->size(3) == key.size(3))),
              "attention: query, key, value and prefix do not fit");
  const auto spans = [](const OptionalTensor& tensor, at::IntArrayRef full) {
    if (!tensor.has_value()) return true;
    for (int axis = 0; axis < 4; axis++) {
      if (tensor->size(axis) != 1 && tensor->size(axis) != full[axis]) return false;
    }
    return true;
  };
  TORCH_CHECK(spans(mask, {query.size(0), 1, query.size(2), key.size(2)}) &&
                  spans(prefixMask, {prefixKey.has_value() ? prefixKey->size(0) : 1, 1, 1,
                                     prefixKey.has_value() ? prefixKey->size(2) : 1}),
              "attention: a mask does not fit");
  const auto grows = [](const Tensor& tensor) { return tensor.requires_grad(); };
  const bool recorded = at::GradMode::is_enabled() &&
                        (grows(query) || grows(key) || grows(value) ||
                         (prefixKey.has_value() && (grows(*prefixKey) || grows(*prefixValue))));
  if (recorded) return Attention::apply(query, key, value, mask, prefixKey, prefixValue, prefixMask);
  return forward({query, key, value, orNone(mask), orNone(prefixKey), orNone(prefixValue), orNone(prefixMask)}, Tensor(),
                 step);
}

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask,
                 const OptionalTensor& prefixKey, const OptionalTensor& prefixValue, const OptionalTensor& prefixMask) {
  return attend(query, key, value, mask, prefixKey, prefixValue, prefixMask, false);
}

// ---- a decoding step -----------------------------------------------------------------------------------------------

// Rotates x [D] by one row of the tables.
template <typename T>
void turn(const T* x, const T* cos, const T* sin, T* y, int64_t width) {
  const int64_t half = width / 2;
#pragma omp simd
  for (int64_t d = 0; d < half; d++) {
    y[d] = x[d] * cos[d] - x[d + half] * sin[d];
    y[d + half] = x[d + half] * cos[d + half] + x[d] * sin[d + half];
  }
}

// qkv [B, (Hq + 2·Hkv)·D], cos and sin [1 or B, 1, D]; the rotated keys and the values are written into column `used` of the
// caches [B, Hkv, C, D], and the rotated queries [B, Hq, 1, D] are returned.
template <typename T>
Tensor extendCaches(const Tensor& qkv, const Tensor& cos, const Tensor& sin, const Tensor& keys, const Tensor& values,
                    int64_t used) {
  const int64_t batch = keys.size(0), kept = keys.size(1), width = keys.size(3);
  const int64_t heads = qkv.size(1) / width - 2 * kept;
  const Tensor query = at::empty({batch, heads, 1, width}, qkv.options());
  if (query.is_meta()) return query;
  const View<T> key(keys), value(values);
  const T *from = qkv.data_ptr<T>(), *c = cos.data_ptr<T>(), *s = sin.data_ptr<T>();
  const int64_t angle = cos.size(0) == 1 ? 0 : width;
  at::parallel_for(0, batch, 64, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      const T* x = from + b * qkv.stride(0);
      for (int64_t h = 0; h < heads; h++) {
        turn(x + h * width, c + b * angle, s + b * angle, query.data_ptr<T>() + (b * heads + h) * width, width);
      }
      for (int64_t h = 0; h < kept; h++) {
        turn(x + (heads + h) * width, c + b * angle, s + b * angle, key.at(b, h, used), width);
        std::memcpy(value.at(b, h, used), x + (heads + kept + h) * width, width * sizeof(T));
      }
    }
  });
  return query;
}

// Returns true if `attentionStep` takes caches like these for this many query heads.
bool takesStep(const Tensor& keys, const Tensor& values, int64_t queryHeads) {
  const auto type = keys.scalar_type();
  if (onHost(keys)) return type == at::kFloat || type == at::kDouble;
  return hasStep(keys, values, queryHeads);
}

// One token a row, written into column `used` of the caches, or `at` where the device alone knows it, and attended with
// all up to it → [B, Hq·D].
Tensor attentionStep(const Tensor& qkv, const Tensor& cos, const Tensor& sin, const Tensor& keys, const Tensor& values,
                     int64_t used, const OptionalTensor& at, const OptionalTensor& mask, const OptionalTensor& prefixKey,
                     const OptionalTensor& prefixValue, const OptionalTensor& prefixMask) {
  const auto type = keys.scalar_type();
  const auto plain = [&](const Tensor& tensor) {
    return onHost(tensor) == onHost(keys) && tensor.device() == keys.device() && tensor.scalar_type() == type;
  };
  TORCH_CHECK(plain(qkv) && plain(cos) && plain(sin) && plain(values) &&
                  keys.dim() == 4 && keys.sizes() == values.sizes() && qkv.dim() == 2 && qkv.size(0) == keys.size(0) && keys.size(3) > 0 &&
                  keys.size(3) % 2 == 0 && qkv.size(1) % keys.size(3) == 0 &&
                  qkv.size(1) / keys.size(3) > 2 * keys.size(1) && used >= 0 && used < keys.size(2) &&
                  cos.sizes() == sin.sizes() && cos.dim() == 3 &&
                  (cos.size(0) == 1 || cos.size(0) == keys.size(0)) && cos.size(1) == 1 && cos.size(2) == keys.size(3) &&
                  takesStep(keys, values, qkv.size(1) / keys.size(3) - 2 * keys.size(1)),
              "attention_step: want qkv [B, (Hq + 2·Hkv)·D], cos and sin [1 or B, 1, D] and caches [B, Hkv, C, D], all of one type, D even");
  TORCH_CHECK(keys.stride(3) == 1 && values.stride(3) == 1, "attention_step: the last axis of the caches, which are written, must be contiguous");
  at::NoGradGuard guard;
  if (!onHost(keys)) {
    if (keys.is_meta()) return at::empty({qkv.size(0), qkv.size(1) - 2 * keys.size(1) * keys.size(3)}, qkv.options());
    const auto typed = [&](const OptionalTensor& tensor) { return tensor.has_value() ? tensor->to(type) : Tensor(); };
    const Tensor column = at.has_value() ? at->to(at::kLong) : Tensor();
    return passStep({qkv, cos, sin, keys, values, used, column, typed(mask), typed(prefixKey), typed(prefixValue), typed(prefixMask)});
  }
  const int64_t column = at.has_value() && !keys.is_meta() ? at->item<int64_t>() : at.has_value() ? keys.size(2) - 1 : used;
  TORCH_CHECK(column >= 0 && column < keys.size(2), "attention_step: no column ", column);
  const OptionalTensor seen =
      mask.has_value() && mask->size(3) > column + 1 ? OptionalTensor(mask->narrow(3, 0, column + 1)) : mask;
  const Tensor in = qkv.stride(1) == 1 ? qkv : qkv.contiguous(), c = cos.contiguous(), s = sin.contiguous();
  Tensor query;
  TIMESEER_FLOATS(type, "attention_step", [&] { query = extendCaches<scalar_t>(in, c, s, keys, values, column); });
  const Tensor mixed = attend(query, keys.narrow(2, 0, column + 1), values.narrow(2, 0, column + 1), seen, prefixKey,
                              prefixValue, prefixMask, true);
  return mixed.reshape({query.size(0), -1});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(timeseer, library) {
  library.def(
      "attention_step(Tensor qkv, Tensor cos, Tensor sin, Tensor(a!) keys, Tensor(b!) values, int used, Tensor? at, "
      "Tensor? mask, Tensor? prefix_key, Tensor? prefix_value, Tensor? prefix_mask) -> Tensor",
      attentionStep);
  library.def("takes_step(Tensor keys, Tensor values, int query_heads) -> bool", takesStep);
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? prefix_key, Tensor? prefix_value, "
      "Tensor? prefix_mask) -> Tensor",
      attention);
}

}  // namespace timeseer
