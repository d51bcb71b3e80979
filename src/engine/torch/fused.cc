// Operators that ATen of 1.13 has only as chains of elementwise passes. On the CPU each is one pass over memory forward and
// one backward, in float32 and float64; other devices and types take the chain. They are operators like any other:
// registered with the dispatcher under `timeseer::`, with autograd, called by name. They run on the calling thread: on the
// CPU the parallelism is over Workers.
#include <torch/torch.h>

#include <cmath>

namespace timeseer {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool fusible(const Tensor& x) {
  return x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

// y = x · r · w with r = 1/√(mean(x²) + ε); x [N, D], w [D], r [N]
template <typename T>
void rmsForward(const T* x, const T* w, T* y, T* r, int64_t rows, int64_t width, double epsilon) {
  for (int64_t n = 0; n < rows; n++) {
    const T* row = x + n * width;
    T* out = y + n * width;
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < width; d++) squares += row[d] * row[d];
    const T inverse = static_cast<T>(1 / std::sqrt(static_cast<double>(squares) / width + epsilon));
    r[n] = inverse;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) out[d] = row[d] * inverse * w[d];
  }
}

// dx = r·(g·w − x·r²·⟨g·w, x⟩/D); dw += Σ g·x·r
template <typename T>
void rmsBackward(const T* g, const T* x, const T* w, const T* r, T* dx, T* dw, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; n++) {
    const T* grad = g + n * width;
    const T* row = x + n * width;
    T* out = dx + n * width;
    const T inverse = r[n];
    T along = 0;
#pragma omp simd reduction(+ : along)
    for (int64_t d = 0; d < width; d++) along += grad[d] * w[d] * row[d];
    const T share = along * inverse * inverse / static_cast<T>(width);
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      out[d] = inverse * (grad[d] * w[d] - row[d] * share);
      dw[d] += grad[d] * row[d] * inverse;
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
    Tensor r = at::empty({rows}, x.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm", [&] {
      rmsForward<scalar_t>(x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                           r.data_ptr<scalar_t>(), rows, width, epsilon);
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
    Tensor dx = at::empty_like(x);
    Tensor dw = at::zeros_like(w);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rms_norm_backward", [&] {
      rmsBackward<scalar_t>(g.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), w.data_ptr<scalar_t>(),
                            saved[2].data_ptr<scalar_t>(), dx.data_ptr<scalar_t>(), dw.data_ptr<scalar_t>(),
                            width == 0 ? 0 : x.numel() / width, width);
    });
    return {dx, dw, Tensor()};
  }
};

Tensor rmsNorm(const Tensor& x, const Tensor& weight, double epsilon) {
  TORCH_CHECK(x.dim() >= 1 && weight.dim() == 1 && weight.size(0) == x.size(-1), "rms_norm: want x [..., D], weight [D]");
  if (fusible(x) && weight.scalar_type() == x.scalar_type() && weight.device().is_cpu()) {
    return RmsNorm::apply(x, weight, epsilon);
  }
  const Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
  const Tensor inverse = (wide * wide).mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  return (wide * inverse * weight.to(wide.scalar_type())).to(x.scalar_type());
}

// y = g·σ(g)·u; s = σ(g) is computed by ATen's vectorised sigmoid and kept. gateUp [N, 2·F], y and s [N, F]
template <typename T>
void gluForward(const T* gateUp, const T* s, T* y, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; n++) {
    const T* gate = gateUp + 2 * n * width;
    const T* up = gate + width;
    const T* sigma = s + n * width;
    T* out = y + n * width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) out[d] = gate[d] * sigma[d] * up[d];
  }
}

// dg = go·u·s·(1 + g·(1 − s)), du = go·g·s
template <typename T>
void gluBackward(const T* go, const T* gateUp, const T* s, T* out, int64_t rows, int64_t width) {
  for (int64_t n = 0; n < rows; n++) {
    const T* gate = gateUp + 2 * n * width;
    const T* up = gate + width;
    const T* sigma = s + n * width;
    const T* grad = go + n * width;
    T* toGate = out + 2 * n * width;
    T* toUp = toGate + width;
#pragma omp simd
    for (int64_t d = 0; d < width; d++) {
      const T scaled = grad[d] * sigma[d];
      toGate[d] = scaled * up[d] * (1 + gate[d] * (1 - sigma[d]));
      toUp[d] = scaled * gate[d];
    }
  }
}

struct SwiGlu : public torch::autograd::Function<SwiGlu> {
  static Tensor forward(AutogradContext* context, const Tensor& input) {
    const Tensor gateUp = input.contiguous();
    const int64_t width = gateUp.size(-1) / 2;
    const Tensor s = at::sigmoid(gateUp.narrow(-1, 0, width)).contiguous();
    Tensor y = at::empty_like(s);
    AT_DISPATCH_FLOATING_TYPES(gateUp.scalar_type(), "swiglu", [&] {
      gluForward<scalar_t>(gateUp.data_ptr<scalar_t>(), s.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
                           width == 0 ? 0 : y.numel() / width, width);
    });
    context->save_for_backward({gateUp, s});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& gateUp = saved[0];
    const Tensor go = gradients[0].contiguous();
    const int64_t width = gateUp.size(-1) / 2;
    Tensor out = at::empty_like(gateUp);
    AT_DISPATCH_FLOATING_TYPES(gateUp.scalar_type(), "swiglu_backward", [&] {
      gluBackward<scalar_t>(go.data_ptr<scalar_t>(), gateUp.data_ptr<scalar_t>(), saved[1].data_ptr<scalar_t>(),
                            out.data_ptr<scalar_t>(), width == 0 ? 0 : go.numel() / width, width);
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
template <typename T>
void rotate(const T* x, const T* cos, const T* sin, T* y, int64_t rows, int64_t angles, int64_t heads, int64_t width,
            bool transposed) {
  const int64_t half = width / 2;
  for (int64_t n = 0; n < rows; n++) {
    const T* c = cos + (n % angles) * width;
    const T* s = sin + (n % angles) * width;
    for (int64_t h = 0; h < heads; h++) {
      const T* in = x + (n * heads + h) * width;
      T* out = y + (n * heads + h) * width;
      if (!transposed) {
#pragma omp simd
        for (int64_t d = 0; d < half; d++) {
          out[d] = in[d] * c[d] - in[d + half] * s[d];
          out[d + half] = in[d + half] * c[d + half] + in[d] * s[d + half];
        }
      } else {
#pragma omp simd
        for (int64_t d = 0; d < half; d++) {
          out[d] = in[d] * c[d] + in[d + half] * s[d + half];
          out[d + half] = in[d + half] * c[d + half] - in[d] * s[d];
        }
      }
    }
  }
}

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, bool transposed) {
  const int64_t heads = x.size(2);
  const int64_t width = x.size(3);
  const int64_t rows = x.size(0) * x.size(1);
  const int64_t angles = cos.size(0) * cos.size(1);
  Tensor y = at::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "rotary", [&] {
    rotate<scalar_t>(x.data_ptr<scalar_t>(), cos.data_ptr<scalar_t>(), sin.data_ptr<scalar_t>(),
                     y.data_ptr<scalar_t>(), rows, angles, heads, width, transposed);
  });
  return y;
}

struct Rotary : public torch::autograd::Function<Rotary> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    const Tensor c = cos.contiguous();
    const Tensor s = sin.contiguous();
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
  if (fusible(x) && constant && cos.scalar_type() == x.scalar_type() && sin.scalar_type() == x.scalar_type() &&
      cos.device().is_cpu()) {
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
