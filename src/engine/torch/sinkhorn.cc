// Sinkhorn's iterations for many small problems, in float64. As products with the kernel matrices of all problems they are
// bound by memory: 128 of 100 × 200 are 20 MB, read twice an iteration. Here a problem's matrix stays in the second cache
// until all its iterations are done, and both products of an iteration are one pass over it, a few rows at a time, which
// stay in the first cache between their two uses. Problems are split over the threads that the calling thread may use.
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <tuple>

#include "meta.h"
#include "vector.h"

namespace timeseer {
namespace {

using at::Tensor;
using V = Vector<double>;

constexpr int kRows = 8;

inline double sumOf(const V::type& v) {
  double sum = 0;
  for (int i = 0; i < V::lanes; i++) sum += v[i];
  return sum;
}

// u = r / (K·v) for R rows of K [R, stride], and columns += Kᵀ·u
template <int R>
inline void scaleRows(const double* kernel, int64_t stride, const double* v, const double* r, double* u, double* columns) {
  typename V::type sums[R] = {};
  for (int64_t s = 0; s < stride; s += V::lanes) {
    const V::type factor = V::load(v + s);
    for (int i = 0; i < R; i++) sums[i] += V::load(kernel + i * stride + s) * factor;
  }
  for (int i = 0; i < R; i++) u[i] = r[i] / sumOf(sums[i]);
  for (int64_t s = 0; s < stride; s += V::lanes) {
    typename V::type column = V::load(columns + s);
    for (int i = 0; i < R; i++) {
      column += V::load(kernel + i * stride + s) * u[i];
      __builtin_prefetch(kernel + (R + i) * stride + s);  // the next rows, which are in the second cache
    }
    V::store(columns + s, column);
  }
}

// One problem with K [T, stride], of which columns from S on are zero; r and u [T], c [S], v [stride]; room [stride].
// `distance` is ⟨plan, cost⟩, rowSums [T] those of the plan.
void solve(const double* kernel, const double* cost, const double* r, const double* c, int64_t rows, int64_t width,
           int64_t stride, int64_t iterations, double* columns, double* u, double* v, double* distance, double* rowSums) {
  // A column without mass, which is padding, must not take part in the first scaling of the rows.
  for (int64_t s = 0; s < stride; s++) v[s] = s < width && c[s] > 0 ? 1 : 0;
  for (int64_t iteration = 0; iteration < iterations; iteration++) {
    std::fill(columns, columns + stride, 0.0);
    int64_t t = 0;
    for (; t + kRows <= rows; t += kRows) scaleRows<kRows>(kernel + t * stride, stride, v, r + t, u + t, columns);
    for (; t + 2 <= rows; t += 2) scaleRows<2>(kernel + t * stride, stride, v, r + t, u + t, columns);
    for (; t < rows; t++) scaleRows<1>(kernel + t * stride, stride, v, r + t, u + t, columns);
    for (int64_t s = 0; s < width; s++) v[s] = c[s] / columns[s];
  }
  double total = 0;
  for (int64_t t = 0; t < rows; t++) {
    const double* row = kernel + t * stride;
    const double* price = cost + t * width;
    double mass = 0, paid = 0;
#pragma omp simd reduction(+ : mass, paid)
    for (int64_t s = 0; s < width; s++) {
      const double part = row[s] * v[s];
      mass += part;
      paid += part * price[s];
    }
    rowSums[t] = u[t] * mass;
    total += u[t] * paid;
  }
  *distance = total;
}

// cost [B, T, S], r [B, T], c [B, S] → distance [B], row sums [B, T], u [B, T], v [B, S]
std::tuple<Tensor, Tensor, Tensor, Tensor> sinkhorn(const Tensor& cost, const Tensor& r, const Tensor& c, double epsilon, int64_t iterations) {
  const auto fits = [](const Tensor& tensor, int64_t dims) {
    return onHost(tensor) && tensor.scalar_type() == at::kDouble && tensor.dim() == dims;
  };
  TORCH_CHECK(fits(cost, 3) && fits(r, 2) && fits(c, 2) && r.size(0) == cost.size(0) && r.size(1) == cost.size(1) &&
                  c.size(0) == cost.size(0) && c.size(1) == cost.size(2),
              "sinkhorn: want float64 cost [B, T, S], row masses [B, T] and column masses [B, S] on the CPU");
  const at::NoGradGuard noGrad;
  const Tensor prices = cost.contiguous(), from = r.contiguous(), to = c.contiguous();
  const int64_t count = cost.size(0), rows = cost.size(1), width = cost.size(2), stride = padded<double>(width);
  Tensor distance = at::empty({count}, cost.options()), rowSums = at::empty({count, rows}, cost.options());
  Tensor u = at::empty_like(rowSums), v = at::empty({count, width}, cost.options());
  if (cost.is_meta()) return std::make_tuple(distance, rowSums, u, v);
  at::parallel_for(0, count, 1, [&](int64_t first, int64_t last) {
    const at::NoGradGuard quiet;
    const Tensor kernel = at::zeros({rows, stride}, cost.options());
    Tensor own = kernel.narrow(1, 0, width);
    const Tensor room = at::empty({2, stride}, cost.options());  // aligned as vectors are
    double* scale = room.data_ptr<double>();
    for (int64_t b = first; b < last; b++) {
      at::mul_out(own, prices[b], at::scalar_tensor(-1 / epsilon, cost.options()));
      own.exp_();
      solve(kernel.data_ptr<double>(), prices.data_ptr<double>() + b * rows * width, from.data_ptr<double>() + b * rows,
            to.data_ptr<double>() + b * width, rows, width, stride, iterations, scale + stride,
            u.data_ptr<double>() + b * rows, scale, distance.data_ptr<double>() + b, rowSums.data_ptr<double>() + b * rows);
      std::copy(scale, scale + width, v.data_ptr<double>() + b * width);
    }
  });
  return std::make_tuple(distance, rowSums, u, v);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(timeseer, library) {
  library.def("sinkhorn(Tensor cost, Tensor rows, Tensor columns, float epsilon, int iterations) -> (Tensor, Tensor, Tensor, Tensor)", sinkhorn);
}

}  // namespace timeseer
