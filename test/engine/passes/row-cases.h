// Cases of one program of passes.cc, included behind its kernels in a namespace; NAME and ALLOWED are defined for each.
static void rowCases() {
  const int rows = 3, width = 4 * N + (N == 1 ? 3 : 0);
  const double grow = 3;
  Array<T> gateUp(rows * 2 * width, grow), y(rows * width), gradient(rows * width, 1), out(rows * 2 * width);
  const int parts = (width / N + 255) / 256;
  launch(rows, parts, 256, [&] { glu(gateUp.data, y.data, width); });
  launch(rows, parts, 256, [&] { glu_backward(gradient.data, gateUp.data, out.data, width); });
  Worst forward, backward;
  for (int r = 0; r < rows; r++) {
    for (int d = 0; d < width; d++) {
      const double g = gateUp.get(2 * r * width + d), u = gateUp.get((2 * r + 1) * width + d), s = 1 / (1 + std::exp(-g));
      const double go = gradient.get(r * width + d);
      forward.see(y.get(r * width + d), g * s * u);
      backward.see(out.get(2 * r * width + d), go * u * s * (1 + g * (1 - s)));
      backward.see(out.get((2 * r + 1) * width + d), go * g * s);
    }
  }
  report(NAME " glu", forward.value, ALLOWED);
  report(NAME " glu backward", backward.value, ALLOWED);

  for (int wide : {width, 256 * N + width, 1024 * N}) {
    const double epsilon = .03;
    Array<T> a(rows * wide, 2), b(rows * wide, 1), w(wide, 1), sum(rows * wide), normed(rows * wide);
    launch(rows, 1, 256, [&] { add_norm(a.data, b.data, w.data, sum.data, normed.data, wide, epsilon); });
    Worst sums, norms;
    for (int r = 0; r < rows; r++) {
      double squares = 0;
      for (int d = 0; d < wide; d++) squares += sum.get(r * wide + d) * sum.get(r * wide + d);
      for (int d = 0; d < wide; d++) {
        sums.see(sum.get(r * wide + d), a.get(r * wide + d) + b.get(r * wide + d));
        norms.see(normed.get(r * wide + d), sum.get(r * wide + d) / std::sqrt(squares / wide + epsilon) * w.get(d));
      }
    }
    report(NAME " sum", sums.value, ALLOWED);
    report(NAME " norm of the sum", norms.value, ALLOWED);
  }

  // x [4 rows, 5 heads, D], rows further apart than they are long; angles of two positions.
  const int heads = 5, half = 2 * N, D = 2 * half, stride = (heads + 2) * D, angles = 2, many = 4;
  Array<T> x(many * stride, 1), turned(many * heads * D);
  Array<float> cos(angles * D, 1), sin(angles * D, 1);
  for (int transposed = 0; transposed < 2; transposed++) {
    launch(many, (heads * half / N + 255) / 256, 256,
           [&] { rotary(x.data, stride, cos.data, sin.data, turned.data, angles, heads, D, transposed); });
    Worst worst;
    for (int r = 0; r < many; r++) {
      for (int h = 0; h < heads; h++) {
        for (int d = 0; d < D; d++) {
          const int other = d < half ? d + half : d - half, a = r % angles * D;
          const double own = x.get(r * stride + h * D + d), far = x.get(r * stride + h * D + other);
          const double turn = transposed ? (d < half ? 1 : -1) * sin.get(a + other) : (d < half ? -1 : 1) * sin.get(a + d);
          worst.see(turned.get((r * heads + h) * D + d), own * cos.get(a + d) + far * turn);
        }
      }
    }
    report(transposed ? NAME " rotary, transposed" : NAME " rotary", worst.value, ALLOWED);
  }
}
