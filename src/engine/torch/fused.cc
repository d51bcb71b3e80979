// Operators that ATen of 1.13 has only as chains of elementwise passes. On the CPU each is one pass over memory forward and
// one backward, in float32, float64 and bfloat16 (which computes in float32). On CUDA passes.cc has SwiGLU, rotary, sums with their norm and draws. Other
// devices and types take the chain, or what later versions of ATen fuse. They are operators like any other: registered with
// the dispatcher under `timeseer::`, with autograd, called by name. What a small policy computes stays on the calling thread,
// because on the CPU the parallelism is over Workers; larger inputs are split over the threads that it may use.
#include <torch/torch.h>

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "meta.h"
#include "passes.h"
#include "vector.h"

namespace timeseer {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool fusible(const Tensor& x) {
  const auto type = x.scalar_type();
  return onHost(x) && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
}

// Returns true if one pass takes x: on the host, on a device that has passes, or without elements.
bool passable(const Tensor& x) {
  const auto type = x.scalar_type();
  if (onHost(x)) return fusible(x);
  return hasPasses(x) || (x.is_meta() && (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf));
}

// Computes in the type of a tensor, if that has elements.
#define TIMESEER_DISPATCH(tensor, name, ...) \
  if (!(tensor).is_meta()) AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, (tensor).scalar_type(), name, __VA_ARGS__)

// Elements that are worth a thread.
constexpr int64_t kPart = 32768;

int64_t partsOf(int64_t rows, int64_t width) {
  if (rows * width < 2 * kPart || at::in_parallel_region()) return 1;
  return std::max<int64_t>(1, std::min({rows * width / kPart, rows, static_cast<int64_t>(at::get_num_threads())}));
}

// Calls body(first row, row after the last, part) for each of `parts` consecutive parts of the rows.
template <typename Body>
void inParts(int64_t rows, int64_t parts, const Body& body) {
  if (parts <= 1) {
    body(int64_t{0}, rows, int64_t{0});
    return;
  }
  at::parallel_for(0, parts, 1, [&](int64_t from, int64_t to) {
    for (int64_t part = from; part < to; part++) body(part * rows / parts, (part + 1) * rows / parts, part);
  });
}

// y = x · r · w with r = 1/√(mean(x²) + ε); x [N, D], w [D], r [N]. T is stored, A computed with.
template <typename T, typename A>
void rmsForward(const T* x, const T* w, T* y, A* r, int64_t from, int64_t to, int64_t width, double epsilon) {
  for (int64_t n = from; n < to; n++) {
    const T* row = x + n * width;
    T* out = y + n * width;
    A squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < width; d++) squares += static_cast<A>(row[d]) * static_cast<A>(row[d]);
    const A inverse = static_cast<A>(1 / std::sqrt(static_cast<double>(squares) / width + epsilon));
    r[n] = inverse;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      out[d] = static_cast<T>(static_cast<A>(row[d]) * inverse * static_cast<A>(w[d]));
    }
  }
}

// dx = r·(g·w − x·r²·⟨g·w, x⟩/D); dw += Σ g·x·r
template <typename T, typename A>
void rmsBackward(const T* g, const T* x, const T* w, const A* r, T* dx, A* dw, int64_t from, int64_t to,
                 int64_t width) {
  for (int64_t n = from; n < to; n++) {
    const T* grad = g + n * width;
    const T* row = x + n * width;
    T* out = dx + n * width;
    const A inverse = r[n];
    A along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t d = 0; d < width; d++) {
      along += static_cast<A>(grad[d]) * static_cast<A>(w[d]) * static_cast<A>(row[d]);
    }
    const A share = along * inverse * inverse / static_cast<A>(width);
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      const A grown = static_cast<A>(grad[d]);
      const A value = static_cast<A>(row[d]);
      out[d] = static_cast<T>(inverse * (grown * static_cast<A>(w[d]) - value * share));
      dw[d] += grown * value * inverse;
    }
  }
}

struct RmsNorm : public torch::autograd::Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, double epsilon) {
    const Tensor x = input.contiguous();
    const Tensor w = weight.contiguous();
    const int64_t width = x.size(-1);
    const int64_t rows = width == 0 ? 0 : x.numel() / width;
    Tensor y = at::empty_like(x);
    Tensor r = at::empty({rows}, x.options().dtype(at::toOpMathType(x.scalar_type())));
    TIMESEER_DISPATCH(x, "rms_norm", [&] {
      using A = at::opmath_type<scalar_t>;
      inParts(rows, partsOf(rows, width), [&](int64_t from, int64_t to, int64_t) {
        rmsForward<scalar_t, A>(x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                                r.data_ptr<A>(), from, to, width, epsilon);
      });
    });
    context->save_for_backward({x, w, r});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& w = saved[1];
    const Tensor g = gradients[0].contiguous();
    const int64_t width = x.size(-1);
    const int64_t rows = width == 0 ? 0 : x.numel() / width;
    const int64_t parts = partsOf(rows, width);
    Tensor dx = at::empty_like(x);
    Tensor dw = at::zeros({parts, width}, saved[2].options());
    TIMESEER_DISPATCH(x, "rms_norm_backward", [&] {
      using A = at::opmath_type<scalar_t>;
      A* sums = dw.data_ptr<A>();
      inParts(rows, parts, [&](int64_t from, int64_t to, int64_t part) {
        rmsBackward<scalar_t, A>(g.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(),
                                 saved[2].data_ptr<A>(), dx.data_ptr<scalar_t>(), sums + part * width, from, to, width);
      });
      for (int64_t part = 1; part < parts; part++) {  // in order: the same for the same number of threads
        for (int64_t d = 0; d < width; d++) sums[d] += sums[part * width + d];
      }
    });
    return {dx, dw.select(0, 0).to(w.scalar_type()), Tensor()};
  }
};

// ATen's own fused norm with a gradient, which later versions have for CUDA; null elsewhere.
const c10::OperatorHandle* deviceRmsNorm() {
  static const c10::optional<c10::OperatorHandle> found = []() -> c10::optional<c10::OperatorHandle> {
    auto& dispatcher = c10::Dispatcher::singleton();
    const auto forward = dispatcher.findSchema({"aten::_fused_rms_norm", ""});
    const bool differentiable = dispatcher.findSchema({"aten::_fused_rms_norm_backward", ""}).has_value();
    const bool known = forward.has_value() && forward->schema().arguments().size() == 4 &&
                       forward->schema().arguments()[1].name() == "normalized_shape" &&
                       forward->schema().returns().size() == 2;
    return known && differentiable ? forward : c10::nullopt;
  }();
  return found.has_value() ? &*found : nullptr;
}

Tensor rmsNorm(const Tensor& x, const Tensor& weight, double epsilon) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 1 && weight.size(0) == x.size(-1), "rms_norm: want x [..., D], weight [D]");
  if (fusible(x) && weight.scalar_type() == x.scalar_type() && onHost(weight)) {
    return RmsNorm::apply(x, weight, epsilon);
  }
  if ((x.device().is_cuda() || x.is_meta()) && weight.scalar_type() == x.scalar_type() && deviceRmsNorm() != nullptr) {
    if (x.is_meta()) return RmsNorm::apply(x, weight, epsilon);  // it keeps the same
    torch::jit::Stack stack{x, std::vector<int64_t>{x.size(-1)}, weight, epsilon};
    deviceRmsNorm()->callBoxed(stack);
    return stack[0].toTensor();
  }
  const Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const Tensor inverse = (wide * wide).mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  return (wide * inverse * weight.to(wide.scalar_type())).to(x.scalar_type());
}

// sum = x + y and its norm. On a device with passes, without a gradient, in one.
std::tuple<Tensor, Tensor> addRmsNorm(const Tensor& x, const Tensor& y, const Tensor& weight, double epsilon) {
  TORCH_CHECK(x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type(), "add_rms_norm: want x and y of one shape and type");
  const bool graded = at::GradMode::is_enabled() && (x.requires_grad() || y.requires_grad() || weight.requires_grad());
  const bool whole = x.dim() >= 1 && weight.dim() == 1 && weight.size(0) == x.size(-1) && weight.scalar_type() == x.scalar_type() &&
                     x.is_contiguous() && y.is_contiguous() && weight.is_contiguous();
  if (!graded && whole && x.is_cuda() && y.is_cuda() && weight.is_cuda() && hasPasses(x)) {
    const Tensor sum = at::empty_like(x), normed = at::empty_like(x);
    if (passAddNorm(x, y, weight, epsilon, sum, normed)) return std::make_tuple(sum, normed);
  }
  const Tensor sum = x + y;
  return std::make_tuple(sum, rmsNorm(sum, weight, epsilon));
}

// σ(x), 0 below −88.
template <typename A>
inline A sigmoid(A x) {
  const A value = 1 / (1 + expOf(x < -88 ? A(88) : -x));
  return x < -88 ? A(0) : value;
}

// y = g·σ(g)·u: gateUp [N, 2·F], y [N, F]
template <typename T, typename A>
void gluForward(const T* gateUp, T* y, int64_t from, int64_t to, int64_t width) {
  for (int64_t n = from; n < to; n++) {
    const T* gate = gateUp + 2 * n * width;
    const T* up = gate + width;
    T* out = y + n * width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      const A g = static_cast<A>(gate[d]);
      out[d] = static_cast<T>(g * sigmoid(g) * static_cast<A>(up[d]));
    }
  }
}

// dg = go·u·s·(1 + g·(1 − s)), du = go·g·s with s = σ(g), which costs less to compute again than to keep
template <typename T, typename A>
void gluBackward(const T* go, const T* gateUp, T* out, int64_t from, int64_t to, int64_t width) {
  for (int64_t n = from; n < to; n++) {
    const T* gate = gateUp + 2 * n * width;
    const T* up = gate + width;
    const T* grad = go + n * width;
    T* toGate = out + 2 * n * width;
    T* toUp = toGate + width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      const A g = static_cast<A>(gate[d]);
      const A s = sigmoid(g);
      const A scaled = static_cast<A>(grad[d]) * s;
      toGate[d] = static_cast<T>(scaled * static_cast<A>(up[d]) * (1 + g * (1 - s)));
      toUp[d] = static_cast<T>(scaled * g);
    }
  }
}

struct SwiGlu : public torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const Tensor gateUp = input.contiguous();
    const int64_t width = gateUp.size(-1) / 2;
    auto shape = gateUp.sizes().vec();
    shape.back() = width;
    Tensor y = at::empty(shape, gateUp.options());
    const int64_t rows = width == 0 ? 0 : y.numel() / width;
    if (gateUp.is_cuda()) passSwiglu(gateUp, y);
    else TIMESEER_DISPATCH(gateUp, "swiglu", [&] {
      using A = at::opmath_type<scalar_t>;
      inParts(rows, partsOf(rows, 2 * width), [&](int64_t from, int64_t to, int64_t) {
        gluForward<scalar_t, A>(gateUp.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), from, to, width);
      });
    });
    context->save_for_backward({gateUp});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor gateUp = context->get_saved_variables()[0];
    const Tensor go = gradients[0].contiguous();
    const int64_t width = gateUp.size(-1) / 2;
    const int64_t rows = width == 0 ? 0 : go.numel() / width;
    Tensor out = at::empty_like(gateUp);
    if (gateUp.is_cuda()) passSwigluBackward(go, gateUp, out);
    else TIMESEER_DISPATCH(gateUp, "swiglu_backward", [&] {
      using A = at::opmath_type<scalar_t>;
      inParts(rows, partsOf(rows, 2 * width), [&](int64_t from, int64_t to, int64_t) {
        gluBackward<scalar_t, A>(go.data_ptr<scalar_t>(), gateUp.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), from,
                                 to, width);
      });
    });
    return {out};
  }
};

Tensor swiglu(const Tensor& gateUp) {
  TORCH_CHECK(gateUp.dim() >= 1 && gateUp.size(-1) % 2 == 0, "swiglu: the last axis must hold gate and up halves");
  if (passable(gateUp)) return SwiGlu::apply(gateUp);
  const auto halves = gateUp.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

// y = x·cos + rotateHalf(x)·sin over rows of one position: x [R, H, D], cos and sin [rows of angles, D].
// Transposed, it is what the gradient needs.
template <typename T, typename A>
void rotate(const T* x, const A* cos, const A* sin, T* y, int64_t from, int64_t to, int64_t angles, int64_t heads,
            int64_t width, bool transposed) {
  const int64_t half = width / 2;
  for (int64_t n = from; n < to; n++) {
    const A* c = cos + (n % angles) * width;
    const A* s = sin + (n % angles) * width;
    for (int64_t h = 0; h < heads; h++) {
      const T* in = x + (n * heads + h) * width;
      T* out = y + (n * heads + h) * width;
      if (!transposed) {
#pragma omp simd
        for (int64_t d = 0; d < half; d++) {
          const A low = static_cast<A>(in[d]);
          const A high = static_cast<A>(in[d + half]);
          out[d] = static_cast<T>(low * c[d] - high * s[d]);
          out[d + half] = static_cast<T>(high * c[d + half] + low * s[d + half]);
        }
      } else {
#pragma omp simd
        for (int64_t d = 0; d < half; d++) {
          const A low = static_cast<A>(in[d]);
          const A high = static_cast<A>(in[d + half]);
          out[d] = static_cast<T>(low * c[d] + high * s[d + half]);
          out[d + half] = static_cast<T>(high * c[d + half] - low * s[d]);
        }
      }
    }
  }
}

// The angles are in the type that is computed with.
Tensor rotated(const Tensor& given, const Tensor& cos, const Tensor& sin, bool transposed) {
  if (given.is_cuda()) {
    Tensor y = at::empty(given.sizes(), given.options());
    passRotary(given, cos, sin, y, transposed);
    return y;
  }
  const Tensor x = given.contiguous();
  const int64_t heads = x.size(2);
  const int64_t width = x.size(3);
  const int64_t rows = x.size(0) * x.size(1);
  const int64_t angles = cos.size(0) * cos.size(1);
  Tensor y = at::empty_like(x);
  TIMESEER_DISPATCH(x, "rotary", [&] {
    using A = at::opmath_type<scalar_t>;
    inParts(rows, partsOf(rows, heads * width), [&](int64_t from, int64_t to, int64_t) {
      rotate<scalar_t, A>(x.data_ptr<scalar_t>(), cos.data_ptr<A>(), sin.data_ptr<A>(), y.data_ptr<scalar_t>(), from,
                          to, angles, heads, width, transposed);
    });
  });
  return y;
}

struct Rotary : public torch::autograd::Function<Rotary> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    const auto type = at::toOpMathType(x.scalar_type());
    const Tensor c = cos.to(type).contiguous();
    const Tensor s = sin.to(type).contiguous();
    context->save_for_backward({c, s});
    return rotated(x, c, s, false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {rotated(gradients[0], saved[0], saved[1], true), Tensor(), Tensor()};
  }
};

// x [B, T, H, D], cos and sin [B or 1, T, D]: constants, no gradient flows into them on the fused path.
Tensor rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  TORCH_CHECK(x.dim() == 4 && cos.dim() == 3 && cos.sizes() == sin.sizes() && x.size(3) % 2 == 0 &&
                  cos.size(2) == x.size(3) && cos.size(1) == x.size(1) && (cos.size(0) == 1 || cos.size(0) == x.size(0)),
              "rotary: want x [B, T, H, D], cos and sin [B or 1, T, D]");
  const bool constant = !cos.requires_grad() && !sin.requires_grad();
  const auto computed = at::toOpMathType(x.scalar_type());
  const auto fits = [&](const Tensor& angle) {
    return angle.device() == x.device() && (angle.scalar_type() == x.scalar_type() || angle.scalar_type() == computed);
  };
  if (passable(x) && constant && fits(cos) && fits(sin)) {
    return Rotary::apply(x, cos, sin);
  }
  const auto halves = x.chunk(2, -1);
  const Tensor turned = at::cat({-halves[1], halves[0]}, -1);
  return (x * cos.unsqueeze(2) + turned * sin.unsqueeze(2)).to(x.scalar_type());
}

// ---- one update of AdamW -----------------------------------------------------------------------------------------

// Loshchilov and Hutter 2019, in the order of torch.optim.AdamW: decay, moments, update. All [P]; decay [P] or one factor.
// gain1 and gain2 are 1 − β₁ and 1 − β₂, taken in double: of float32's 0.999 the difference would be off by 1e-5.
template <typename T>
void adamRange(T* p, const T* g, T* m, T* v, const T* decays, T decay, T scale, T rate, T beta2, T gain1, T gain2,
               T root, T epsilon, T step, int64_t from, int64_t to) {
#pragma omp simd
  for (int64_t i = from; i < to; i++) {
    const T gradient = g[i] * scale;
    const T first = m[i] + (gradient - m[i]) * gain1;
    const T second = v[i] * beta2 + gain2 * gradient * gradient;
    m[i] = first;
    v[i] = second;
    const T kept = p[i] * (1 - rate * (decays == nullptr ? decay : decays[i]));
    p[i] = kept - step * first / (std::sqrt(second) / root + epsilon);
  }
}

// In place: parameters, firstMoment and secondMoment from `scale` times the gradients; false where it does not apply.
bool adamW(Tensor parameters, const Tensor& gradients, Tensor firstMoment, Tensor secondMoment,
           const c10::optional<Tensor>& decays, double decay, double scale, double rate, double beta1, double beta2,
           double epsilon, int64_t step) {
  const auto type = parameters.scalar_type();
  const auto fits = [&](const Tensor& tensor) {
    return onHost(tensor) && tensor.scalar_type() == type && tensor.dim() == 1 && tensor.is_contiguous() &&
           tensor.numel() == parameters.numel();
  };
  if ((type != at::kFloat && type != at::kDouble) || !fits(parameters) || !fits(gradients) || !fits(firstMoment) ||
      !fits(secondMoment) || (decays.has_value() && !fits(*decays))) {
    return false;
  }
  if (parameters.is_meta()) return true;
  AT_DISPATCH_FLOATING_TYPES(type, "adam_w", [&] {
    const double root = std::sqrt(1 - std::pow(beta2, step)), size = rate / (1 - std::pow(beta1, step));
    at::parallel_for(0, parameters.numel(), kPart, [&](int64_t from, int64_t to) {
      adamRange<scalar_t>(parameters.data_ptr<scalar_t>(), gradients.data_ptr<scalar_t>(),
                          firstMoment.data_ptr<scalar_t>(), secondMoment.data_ptr<scalar_t>(),
                          decays.has_value() ? decays->data_ptr<scalar_t>() : nullptr, decay, scale, rate, beta2,
                          1 - beta1, 1 - beta2, root, epsilon, size, from, to);
    });
  });
  return true;
}

// ---- log-probabilities -------------------------------------------------------------------------------------------

// logits [V] (and mask) divided by the temperature, in `row`; the largest of them.
template <typename T>
T temperedRow(const T* logits, const T* mask, T temperature, T* row, int64_t width) {
  T most = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : most)
  for (int64_t v = 0; v < width; v++) {
    const T score = (mask == nullptr ? logits[v] : logits[v] + mask[v]) / temperature;
    row[v] = score;
    most = score > most ? score : most;
  }
  return most;
}

template <typename T>
T logSumOf(const T* row, T most, int64_t width) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t v = 0; v < width; v++) sum += expOf(row[v] - most);
  return most + std::log(sum);
}

// row = −share · softmax
template <typename T>
void softmaxSlope(const T* logits, const T* mask, T temperature, T logSum, T share, T* row, int64_t width) {
#pragma omp simd
  for (int64_t v = 0; v < width; v++) {
    const T score = (mask == nullptr ? logits[v] : logits[v] + mask[v]) / temperature;
    row[v] = -share * expOf(score - logSum);
  }
}

// row → its cumulative masses e^(row − its largest); the logarithm of their sum.
inline double cumulativeMasses(const float* row, double* mass, float most, int64_t width) {
#pragma omp simd
  for (int64_t v = 0; v < width; v++) mass[v] = expOf(row[v] - most);
  double total = 0;
  for (int64_t v = 0; v < width; v++) mass[v] = total += mass[v];
  return most + std::log(total);
}

// log softmax((logits + mask) / temperature) at one target a row: logits [N, V], mask [V], targets [N] → [N]
struct TokenLogProb : public torch::autograd::Function<TokenLogProb> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets,
                        const c10::optional<Tensor>& mask, double temperature) {
    const Tensor scores = logits.contiguous(), ids = targets.contiguous();
    const Tensor added = mask.has_value() ? mask->contiguous() : Tensor();
    const int64_t rows = scores.size(0), width = scores.size(1);
    const Tensor out = at::empty({rows}, scores.options()), sums = at::empty({rows}, scores.options());
    const int64_t* id = scores.is_meta() ? nullptr : ids.data_ptr<int64_t>();
    for (int64_t n = 0; id != nullptr && n < rows; n++) TORCH_CHECK(id[n] >= 0 && id[n] < width, "token_log_prob: no token ", id[n]);
    if (!scores.is_meta()) AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "token_log_prob", [&] {
      const scalar_t* given = scores.data_ptr<scalar_t>();
      const scalar_t* hidden = added.defined() ? added.data_ptr<scalar_t>() : nullptr;
      inParts(rows, partsOf(rows, width), [&](int64_t from, int64_t to, int64_t) {
        std::vector<scalar_t> row(width);
        for (int64_t n = from; n < to; n++) {
          const scalar_t most = temperedRow<scalar_t>(given + n * width, hidden, temperature, row.data(), width);
          const scalar_t sum = logSumOf<scalar_t>(row.data(), most, width);
          sums.data_ptr<scalar_t>()[n] = sum;
          out.data_ptr<scalar_t>()[n] = row[id[n]] - sum;
        }
      });
    });
    context->save_for_backward({scores, ids, added, sums});
    context->saved_data["temperature"] = temperature;
    return out;
  }

  // go·(1[v = target] − softmax)/temperature
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& scores = saved[0];
    const Tensor go = gradients[0].contiguous();
    const double temperature = context->saved_data["temperature"].toDouble();
    const int64_t rows = scores.size(0), width = scores.size(1);
    Tensor out = at::empty_like(scores);
    if (!scores.is_meta()) AT_DISPATCH_FLOATING_TYPES(scores.scalar_type(), "token_log_prob_backward", [&] {
      const scalar_t* hidden = saved[2].defined() ? saved[2].data_ptr<scalar_t>() : nullptr;
      inParts(rows, partsOf(rows, width), [&](int64_t from, int64_t to, int64_t) {
        for (int64_t n = from; n < to; n++) {
          const scalar_t* given = scores.data_ptr<scalar_t>() + n * width;
          scalar_t* row = out.data_ptr<scalar_t>() + n * width;
          const scalar_t share = go.data_ptr<scalar_t>()[n] / static_cast<scalar_t>(temperature);
          softmaxSlope<scalar_t>(given, hidden, temperature, saved[3].data_ptr<scalar_t>()[n], share, row, width);
          row[saved[1].data_ptr<int64_t>()[n]] += share;
        }
      });
    });
    return {out, Tensor(), Tensor(), Tensor()};
  }
};

Tensor tokenLogProb(const Tensor& logits, const Tensor& targets, const c10::optional<Tensor>& mask, double temperature) {
  const auto type = logits.scalar_type();
  TORCH_CHECK(onHost(logits) && (type == at::kFloat || type == at::kDouble) && logits.dim() == 2 &&
                  onHost(targets) && targets.scalar_type() == at::kLong && targets.dim() == 1 &&
                  targets.size(0) == logits.size(0) &&
                  (!mask.has_value() || (onHost(*mask) && mask->scalar_type() == type && mask->dim() == 1 &&
                                         mask->size(0) == logits.size(1) && !mask->requires_grad())),
              "token_log_prob: want logits [N, V], targets [N] and a mask [V] on the CPU");
  return TokenLogProb::apply(logits, targets, mask, temperature);
}

// Returns true if `drawTokens` takes these logits on a device, greedy draws included.
bool takesDraw(const Tensor& logits) { return !onHost(logits) && hasDraw(logits); }

// Draws from softmax((logits + mask) / temperature) by its inverse cumulative distribution in double precision: the first
// token whose cumulative mass exceeds draw · total. logits [B, V], uniforms [B] → ids [B], log-probabilities [B]. NaN
// logits give the last token and a log-probability of NaN.
std::tuple<Tensor, Tensor> drawTokens(const Tensor& logits, const c10::optional<Tensor>& mask, double temperature,
                                      const Tensor& uniforms) {
  if (takesDraw(logits)) {
    TORCH_CHECK(uniforms.dim() == 1 && uniforms.size(0) == logits.size(0) && uniforms.scalar_type() == at::kFloat &&
                    uniforms.device() == logits.device() &&
                    (!mask.has_value() || (mask->scalar_type() == at::kFloat && mask->dim() == 1 &&
                                           mask->size(0) == logits.size(1) && mask->device() == logits.device())),
                "draw_tokens: want uniforms [B] and a mask [V] in float32 beside logits [B, V]");
    const auto floats = logits.options().dtype(at::kFloat);
    const Tensor ids = at::empty({logits.size(0)}, floats.dtype(at::kLong)), logProbs = at::empty({logits.size(0)}, floats);
    if (!logits.is_meta()) {
      passDraw(logits, mask.has_value() ? mask->contiguous() : Tensor(), temperature, uniforms.contiguous(), ids, logProbs);
    }
    return std::make_tuple(ids, logProbs);
  }
  TORCH_CHECK(onHost(logits) && logits.scalar_type() == at::kFloat && logits.dim() == 2 && logits.size(1) > 0 &&
                  onHost(uniforms) && uniforms.scalar_type() == at::kFloat && uniforms.dim() == 1 &&
                  uniforms.size(0) == logits.size(0) &&
                  (!mask.has_value() || (onHost(*mask) && mask->scalar_type() == at::kFloat &&
                                         mask->dim() == 1 && mask->size(0) == logits.size(1))),
              "draw_tokens: want float32 logits [B, V], uniforms [B] and a mask [V] on the CPU");
  const Tensor scores = logits.stride(1) == 1 ? logits : logits.contiguous(), draws = uniforms.contiguous();
  const Tensor added = mask.has_value() ? mask->contiguous() : Tensor();
  const int64_t rows = scores.size(0), width = scores.size(1), stride = scores.stride(0);
  Tensor ids = at::empty({rows}, scores.options().dtype(at::kLong)), logProbs = at::empty({rows}, scores.options());
  if (scores.is_meta()) return std::make_tuple(ids, logProbs);
  const float* hidden = added.defined() ? added.data_ptr<float>() : nullptr;
  inParts(rows, partsOf(rows, width), [&](int64_t from, int64_t to, int64_t) {
    std::vector<float> row(width);
    std::vector<double> mass(width);
    for (int64_t n = from; n < to; n++) {
      const float most = temperedRow<float>(scores.data_ptr<float>() + n * stride, hidden, temperature, row.data(), width);
      const double logSum = cumulativeMasses(row.data(), mass.data(), most, width);
      const double draw = std::min(std::max(static_cast<double>(draws.data_ptr<float>()[n]), 0.0), 1 - 0x1p-32) * mass[width - 1];
      const int64_t id = std::min<int64_t>(std::upper_bound(mass.begin(), mass.end(), draw) - mass.begin(), width - 1);
      ids.data_ptr<int64_t>()[n] = id;
      logProbs.data_ptr<float>()[n] = static_cast<float>(row[id] - logSum);
    }
  });
  return std::make_tuple(ids, logProbs);
}

}  // namespace

TORCH_LIBRARY(timeseer, library) {
  library.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> Tensor", rmsNorm);
  library.def("add_rms_norm(Tensor x, Tensor y, Tensor weight, float epsilon) -> (Tensor, Tensor)", addRmsNorm);
  library.def("swiglu(Tensor gate_up) -> Tensor", swiglu);
  library.def("rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor", rotary);
  library.def(
      "adam_w(Tensor(a!) parameters, Tensor gradients, Tensor(b!) first_moment, Tensor(c!) second_moment, Tensor? decays, "
      "float decay, float scale, float rate, float beta1, float beta2, float epsilon, int step) -> bool",
      adamW);
  library.def("token_log_prob(Tensor logits, Tensor targets, Tensor? mask, float temperature) -> Tensor", tokenLogProb);
  library.def("takes_draw(Tensor logits) -> bool", takesDraw);
  library.def("draw_tokens(Tensor logits, Tensor? mask, float temperature, Tensor uniforms) -> (Tensor, Tensor)", drawTokens);
}

}  // namespace timeseer
