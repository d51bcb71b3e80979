// A product of few rows with a large matrix, as decoding makes for every token, is bound by reading the matrix. Matrix
// libraries read it far slower than memory allows: MKL on one thread for one row, and with passes of its own for two to
// eight. Here it is read once, in order, on all threads. An element is summed in an order of its own, so it depends neither
// on the number of rows nor on that of threads.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <vector>

#include "meta.h"
#include "vector.h"

namespace timeseer {
namespace {

using at::Tensor;

constexpr int64_t kRows = 8;
// Matrices that stay in a core's cache are left to the library.
constexpr int64_t kLarge = 1 << 19;
constexpr int kLanes = 16;
constexpr int64_t kAhead = 4096;  // bytes: processors do not look past a page by themselves

// y[m, n] = Σ x[m, k]·w[n, k] + bias[n] for `R` rows of w from `n`; M rows of x
template <int M, int R, typename W>
void dots(const float* x, const W* w, const W* bias, W* y, int64_t n, int64_t inner, int64_t outer) {
  float sums[R][M][kLanes] = {};
  const int64_t whole = inner / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    for (int r = 0; r < R; r++) {
      const W* row = w + (n + r) * inner + k;
      __builtin_prefetch(reinterpret_cast<const char*>(row) + kAhead);
      float weights[kLanes];
#pragma omp simd
      for (int i = 0; i < kLanes; i++) weights[i] = static_cast<float>(row[i]);
      for (int m = 0; m < M; m++) {
        const float* in = x + m * inner + k;
        float* sum = sums[r][m];
#pragma omp simd
        for (int i = 0; i < kLanes; i++) sum[i] += in[i] * weights[i];
      }
    }
  }
  for (int r = 0; r < R; r++) {
    for (int m = 0; m < M; m++) {
      float total = 0;
      for (int i = 0; i < kLanes; i++) total += sums[r][m][i];
      for (int64_t k = whole; k < inner; k++) total += x[m * inner + k] * static_cast<float>(w[(n + r) * inner + k]);
      if (bias != nullptr) total += static_cast<float>(bias[n + r]);
      y[m * outer + n + r] = static_cast<W>(total);
    }
  }
}

template <int M, typename W>
void product(const float* x, const W* w, const W* bias, W* y, int64_t inner, int64_t outer) {
  constexpr int R = M >= 5 ? 2 : 1;  // with many rows of x, each read of them should serve two of w
  at::parallel_for(0, outer, 64, [&](int64_t begin, int64_t end) {
    int64_t n = begin;
    for (; n + R <= end; n += R) dots<M, R, W>(x, w, bias, y, n, inner, outer);
    for (; n < end; n++) dots<M, 1, W>(x, w, bias, y, n, inner, outer);
  });
}

template <typename W>
void byRows(int64_t rows, const float* x, const W* w, const W* bias, W* y, int64_t inner, int64_t outer) {
  switch (rows) {
    case 1: return product<1, W>(x, w, bias, y, inner, outer);
    case 2: return product<2, W>(x, w, bias, y, inner, outer);
    case 3: return product<3, W>(x, w, bias, y, inner, outer);
    case 4: return product<4, W>(x, w, bias, y, inner, outer);
    case 5: return product<5, W>(x, w, bias, y, inner, outer);
    case 6: return product<6, W>(x, w, bias, y, inner, outer);
    case 7: return product<7, W>(x, w, bias, y, inner, outer);
    default: return product<8, W>(x, w, bias, y, inner, outer);
  }
}

bool recorded(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
  return at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad() || (bias && bias->requires_grad()));
}

bool applies(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
  const auto type = weight.scalar_type();
  return !recorded(x, weight, bias) && x.device().is_cpu() && weight.device().is_cpu() && weight.dim() == 2 && weight.is_contiguous() &&
         weight.numel() >= kLarge && (type == at::kFloat || type == at::kBFloat16) && x.scalar_type() == type &&
         x.dim() >= 1 && x.size(-1) == weight.size(1) && x.numel() > 0 && x.numel() <= kRows * x.size(-1) &&
         (!bias || (bias->scalar_type() == type && bias->device().is_cpu() && bias->dim() == 1 &&
                    bias->size(0) == weight.size(0)));
}

// Whether a weight [O, I] lies column by column, with room behind each column for whole vectors: as a product reads it that
// does not copy it first. What stays in a core's cache and is multiplied at every decoding step is kept so.
bool columnMajor(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
  if (!(weight.device().is_cpu() && weight.scalar_type() == at::kFloat && weight.dim() == 2 && weight.stride(0) == 1 &&
        weight.size(0) > 1 && weight.size(1) > 0 && weight.numel() < kLarge)) {
    return false;
  }
  const int64_t outer = weight.size(0), ld = weight.stride(1);
  const int64_t end = weight.storage_offset() + (weight.size(1) - 1) * ld + padded<float>(outer);
  const bool roomy = ld >= padded<float>(outer) && end * static_cast<int64_t>(sizeof(float)) <= static_cast<int64_t>(weight.storage().nbytes());
  return roomy && x.device().is_cpu() && x.scalar_type() == at::kFloat && x.dim() >= 1 && x.size(-1) == weight.size(1) &&
         x.numel() > 0 && !recorded(x, weight, bias) &&
         (!bias || (bias->scalar_type() == at::kFloat && bias->device().is_cpu() && bias->is_contiguous() &&
                    bias->dim() == 1 && bias->size(0) == outer));
}

// Rows worth a thread in a product of `work` multiplications a row.
int64_t rowsPerThread(int64_t work) { return std::max<int64_t>(16, (1 << 18) / std::max<int64_t>(work, 1)); }

Tensor byColumns(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
  const int64_t inner = weight.size(1), outer = weight.size(0), wide = padded<float>(outer), rows = x.numel() / inner;
  const Tensor in = x.contiguous();
  auto shape = x.sizes().vec();
  shape.back() = wide;
  Tensor y = at::empty(shape, x.options());
  const float* from = in.data_ptr<float>();
  const float* columns = weight.data_ptr<float>();
  float* into = y.data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(inner * outer), [&](int64_t begin, int64_t end) {
    if (bias) {
      for (int64_t n = begin; n < end; n++) std::copy_n(bias->data_ptr<float>(), outer, into + n * wide);
    }
    multiply<float>(end - begin, wide, inner, from + begin * inner, inner, 1, columns, weight.stride(1), into + begin * wide,
                    wide, bias.has_value());
  });
  return wide == outer ? y : y.narrow(-1, 0, outer);
}

// ---- products of a small policy ----------------------------------------------------------------------

// For fewer rows turning the weight would cost more than the product; of so many the vectors of one panel still stay in a
// core's second cache, and more are taken in turns, with the same sums.
constexpr int64_t kSeveralRows = 32, kSomeRows = 2048;

// into [C, R] = from [R, C] transposed, in squares that stay in the first cache.
void transpose(const float* from, int64_t rows, int64_t columns, float* into) {
  constexpr int64_t side = 16;
  for (int64_t r = 0; r < rows; r += side) {
    const int64_t height = std::min(side, rows - r);
    for (int64_t c = 0; c < columns; c += side) {
      const int64_t width = std::min(side, columns - c);
      for (int64_t j = 0; j < width; j++) {
        float* out = into + (c + j) * rows + r;
        const float* in = from + r * columns + c + j;
        for (int64_t i = 0; i < height; i++) out[i] = in[i * columns];
      }
    }
  }
}

// y [N, O] = x [N, I]·weightᵀ [O, I] + bias, dx = dy·weight, dweight = dyᵀ·x: all three read their matrices as they lie, where
// a library copies them into an order of its own first, which costs a tenth of an update at these sizes.
Tensor smallProduct(const Tensor& in, const Tensor& weight, const c10::optional<Tensor>& bias) {
  const int64_t outer = weight.size(0), inner = weight.size(1), rows = in.numel() / inner;
  auto shape = in.sizes().vec();
  shape.back() = outer;
  Tensor y = at::empty(shape, in.options()), turned = at::empty({inner, outer}, weight.options());
  transpose(weight.data_ptr<float>(), outer, inner, turned.data_ptr<float>());
  float* into = y.data_ptr<float>();
  at::parallel_for(0, rows, rowsPerThread(inner * outer), [&](int64_t begin, int64_t end) {
    if (bias) {
      for (int64_t n = begin; n < end; n++) std::copy_n(bias->data_ptr<float>(), outer, into + n * outer);
    }
    for (int64_t n = begin; n < end; n += kSomeRows) {
      multiply<float>(std::min(kSomeRows, end - n), outer, inner, in.data_ptr<float>() + n * inner, inner, 1,
                      turned.data_ptr<float>(), outer, into + n * outer, outer, bias.has_value());
    }
  });
  return y;
}

struct Linear : public torch::autograd::Function<Linear> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const c10::optional<Tensor>& bias) {
    const Tensor in = x.contiguous(), w = weight.contiguous();
    const Tensor y = smallProduct(in, w, bias);
    const int64_t wanted = (x.requires_grad() ? 1 : 0) + (weight.requires_grad() ? 2 : 0) +
                           (bias && bias->requires_grad() ? 4 : 0);
    context->save_for_backward({wanted & 2 ? in : Tensor(), wanted & 1 ? w : Tensor()});
    context->saved_data["wanted"] = wanted;
    context->saved_data["sizes"] = in.sizes().vec();
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1];
    const int64_t wanted = context->saved_data["wanted"].toInt();
    const Tensor given = gradients[0].contiguous();
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const int64_t outer = given.size(-1), inner = sizes.back(), rows = given.numel() / outer;
    const float* dy = given.data_ptr<float>();
    Tensor toX, toWeight, toBias;
    if (wanted & 1) {
      toX = at::empty(sizes, given.options());
      at::parallel_for(0, rows, rowsPerThread(inner * outer), [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; n += kSomeRows) {
          multiply<float>(std::min(kSomeRows, end - n), inner, outer, dy + n * outer, outer, 1, weight.data_ptr<float>(),
                          inner, toX.data_ptr<float>() + n * inner, inner, false);
        }
      });
    }
    if (wanted & 2) {
      toWeight = at::empty({outer, inner}, given.options());
      at::parallel_for(0, outer, rowsPerThread(inner * rows), [&](int64_t begin, int64_t end) {
        for (int64_t n = 0; n < rows; n += kSomeRows) {
          multiply<float>(end - begin, inner, std::min(kSomeRows, rows - n), dy + begin + n * outer, 1, outer,
                          x.data_ptr<float>() + n * inner, inner, toWeight.data_ptr<float>() + begin * inner, inner, n > 0);
        }
      });
    }
    if (wanted & 4) toBias = given.reshape({rows, outer}).sum(0);
    return {toX, toWeight, toBias};
  }
};

bool small(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
#ifdef __AVX512F__
  const auto plain = [](const Tensor& tensor) { return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat; };
  return plain(x) && plain(weight) && weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1) && x.numel() > 0 &&
         weight.numel() > 0 && weight.numel() < kLarge && weight.size(0) % Vector<float>::lanes == 0 &&
         weight.size(1) % Vector<float>::lanes == 0 && x.numel() / weight.size(1) >= kSeveralRows &&
         (!bias || (plain(*bias) && bias->is_contiguous() && bias->dim() == 1 && bias->size(0) == weight.size(0)));
#else
  (void)x, (void)weight, (void)bias;
  return false;  // with fewer registers a library's tiles are the better ones
#endif
}

// x [..., I], weight [O, I], bias [O] → [..., O]
Tensor linear(const Tensor& x, const Tensor& weight, const c10::optional<Tensor>& bias) {
  if (columnMajor(x, weight, bias)) return byColumns(x, weight, bias);
  if (small(x, weight, bias)) {  // with a gradient or without: layers that are computed again must come out the same
    return recorded(x, weight, bias) ? Linear::apply(x, weight, bias)
                                     : smallProduct(x.contiguous(), weight.contiguous(), bias);
  }
  if (!onHost(x) && x.element_size() == 2 && weight.dim() == 2 && weight.size(1) > 64 && weight.size(1) % 8 != 0) {
    // CUDA's fast products read rows of whole 16 bytes; those of 3420 columns, as in Qwen2.5-VL's vision, are none.
    const std::vector<int64_t> rest{0, 8 - weight.size(1) % 8};
    return at::linear(at::constant_pad_nd(x, rest), at::constant_pad_nd(weight, rest), bias);
  }
  if (!applies(x, weight, bias)) return at::linear(x, weight, bias);
  const int64_t inner = weight.size(1), outer = weight.size(0), rows = x.numel() / inner;
  const Tensor wide = x.to(at::kFloat).contiguous();
  const Tensor offset = bias ? bias->contiguous() : Tensor();
  auto shape = x.sizes().vec();
  shape.back() = outer;
  Tensor y = at::empty(shape, x.options());
  if (weight.scalar_type() == at::kFloat) {
    byRows<float>(rows, wide.data_ptr<float>(), weight.data_ptr<float>(), bias ? offset.data_ptr<float>() : nullptr,
                  y.data_ptr<float>(), inner, outer);
  } else {
    byRows<at::BFloat16>(rows, wide.data_ptr<float>(), weight.data_ptr<at::BFloat16>(),
                         bias ? offset.data_ptr<at::BFloat16>() : nullptr, y.data_ptr<at::BFloat16>(), inner, outer);
  }
  return y;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(timeseer, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor", linear);
}

}  // namespace timeseer
