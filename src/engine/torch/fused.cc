// Operators that ATen of 1.13 has only as chains of elementwise passes. On the CPU each is one pass over memory forward and
// one backward, in float32, float64 and bfloat16 (which computes in float32); other devices and types take the chain, or
// what later versions of ATen fuse. They are operators like any other: registered with the dispatcher under `timeseer::`,
// with autograd, called by name. What a small policy computes stays on the calling thread, because on the CPU the
// parallelism is over Workers; larger inputs are split over the threads that the calling thread may use.
#include <torch/torch.h>

#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace timeseer {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool fusible(const Tensor& x) {
  const auto type = x.scalar_type();
  return x.device().is_cpu() && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16);
}

#define TIMESEER_DISPATCH(type, name, ...) AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, type, name, __VA_ARGS__)

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
    TIMESEER_DISPATCH(x.scalar_type(), "rms_norm", [&] {
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
    TIMESEER_DISPATCH(x.scalar_type(), "rms_norm_backward", [&] {
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
  if (fusible(x) && weight.scalar_type() == x.scalar_type() && weight.device().is_cpu()) {
    return RmsNorm::apply(x, weight, epsilon);
  }
  if (x.device().is_cuda() && weight.scalar_type() == x.scalar_type() && deviceRmsNorm() != nullptr) {
    torch::jit::Stack stack{x, std::vector<int64_t>{x.size(-1)}, weight, epsilon};
    deviceRmsNorm()->callBoxed(stack);
    return stack[0].toTensor();
  }
  const Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const Tensor inverse = (wide * wide).mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  return (wide * inverse * weight.to(wide.scalar_type())).to(x.scalar_type());
}

// y = g·σ(g)·u; s = σ(g) is computed by ATen's vectorised sigmoid. gateUp [N, 2·F], y and s [N, F]
template <typename T, typename A>
void gluForward(const T* gateUp, const A* s, T* y, int64_t from, int64_t to, int64_t width) {
  for (int64_t n = from; n < to; n++) {
    const T* gate = gateUp + 2 * n * width;
    const T* up = gate + width;
    const A* sigma = s + n * width;
    T* out = y + n * width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      out[d] = static_cast<T>(static_cast<A>(gate[d]) * sigma[d] * static_cast<A>(up[d]));
    }
  }
}

// dg = go·u·s·(1 + g·(1 − s)), du = go·g·s
template <typename T, typename A>
void gluBackward(const T* go, const T* gateUp, const A* s, T* out, int64_t from, int64_t to, int64_t width) {
  for (int64_t n = from; n < to; n++) {
    const T* gate = gateUp + 2 * n * width;
    const T* up = gate + width;
    const A* sigma = s + n * width;
    const T* grad = go + n * width;
    T* toGate = out + 2 * n * width;
    T* toUp = toGate + width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      const A g = static_cast<A>(gate[d]);
      const A scaled = static_cast<A>(grad[d]) * sigma[d];
      toGate[d] = static_cast<T>(scaled * static_cast<A>(up[d]) * (1 + g * (1 - sigma[d])));
      toUp[d] = static_cast<T>(scaled * g);
    }
  }
}

// σ of the gate half, in the type that is computed with: [..., F]
Tensor gateSigmoid(const Tensor& gateUp, int64_t width) {
  const Tensor gate = gateUp.narrow(-1, 0, width);
  return at::sigmoid(gate.to(at::toOpMathType(gate.scalar_type()))).contiguous();
}

struct SwiGlu : public torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const Tensor gateUp = input.contiguous();
    const int64_t width = gateUp.size(-1) / 2;
    const Tensor s = gateSigmoid(gateUp, width);
    Tensor y = at::empty_like(s, gateUp.options());
    const int64_t rows = width == 0 ? 0 : y.numel() / width;
    TIMESEER_DISPATCH(gateUp.scalar_type(), "swiglu", [&] {
      using A = at::opmath_type<scalar_t>;
      inParts(rows, partsOf(rows, 2 * width), [&](int64_t from, int64_t to, int64_t) {
        gluForward<scalar_t, A>(gateUp.data_ptr<scalar_t>(), s.data_ptr<A>(), y.data_ptr<scalar_t>(), from, to, width);
      });
    });
    // In bfloat16 σ is twice as wide as the gate: it is computed again rather than kept.
    context->save_for_backward({gateUp, s.scalar_type() == gateUp.scalar_type() ? s : Tensor()});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& gateUp = saved[0];
    const Tensor go = gradients[0].contiguous();
    const int64_t width = gateUp.size(-1) / 2;
    const Tensor s = saved[1].defined() ? saved[1] : gateSigmoid(gateUp, width);
    const int64_t rows = width == 0 ? 0 : go.numel() / width;
    Tensor out = at::empty_like(gateUp);
    TIMESEER_DISPATCH(gateUp.scalar_type(), "swiglu_backward", [&] {
      using A = at::opmath_type<scalar_t>;
      inParts(rows, partsOf(rows, 2 * width), [&](int64_t from, int64_t to, int64_t) {
        gluBackward<scalar_t, A>(go.data_ptr<scalar_t>(), gateUp.data_ptr<scalar_t>(), s.data_ptr<A>(),
                                 out.data_ptr<scalar_t>(), from, to, width);
      });
    });
    return {out};
  }
};

Tensor swiglu(const Tensor& gateUp) {
  TORCH_CHECK(gateUp.dim() >= 1 && gateUp.size(-1) % 2 == 0, "swiglu: the last axis must hold gate and up halves");
  if (fusible(gateUp)) return SwiGlu::apply(gateUp);
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
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, bool transposed) {
  const int64_t heads = x.size(2);
  const int64_t width = x.size(3);
  const int64_t rows = x.size(0) * x.size(1);
  const int64_t angles = cos.size(0) * cos.size(1);
  Tensor y = at::empty_like(x);
  TIMESEER_DISPATCH(x.scalar_type(), "rotary", [&] {
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
    return rotated(x.contiguous(), c, s, false);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {rotated(gradients[0].contiguous(), saved[0], saved[1], true), Tensor(), Tensor()};
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
    return angle.device().is_cpu() && (angle.scalar_type() == x.scalar_type() || angle.scalar_type() == computed);
  };
  if (fusible(x) && constant && fits(cos) && fits(sin)) {
    return Rotary::apply(x, cos, sin);
  }
  const auto halves = x.chunk(2, -1);
  const Tensor turned = at::cat({-halves[1], halves[0]}, -1);
  return (x * cos.unsqueeze(2) + turned * sin.unsqueeze(2)).to(x.scalar_type());
}

}  // namespace

TORCH_LIBRARY(timeseer, library) {
  library.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> Tensor", rmsNorm);
  library.def("swiglu(Tensor gate_up) -> Tensor", swiglu);
  library.def("rotary(Tensor x, Tensor cos, Tensor sin) -> Tensor", rotary);
}

}  // namespace timeseer
