// Cases of drawing by one program of passes.cc, included behind its kernel in a namespace.
static void drawCase(const char* name, int width, double temperature, bool masked, double broken = 0) {
  const int rows = 7, stride = (width + 3 * N) / N * N, tiles = (width + THREADS * N - 1) / (THREADS * N);
  Array<T> logits(rows * stride, 6);
  Array<float> mask(width, 1), draws(rows, 1);
  for (int r = 0; r < rows; r++) draws.put(r, r == 0 ? 0 : r == 1 ? 1 : std::fabs(draws.get(r)));
  for (int d = 0; masked && d < width; d++) mask.put(d, d % 3 == 1 ? -1e9 : 0);
  for (int r = 2; r < rows; r++) {  // equal largest ones, far apart
    logits.put(r * stride + (width - 1) / 2, 8), logits.put(r * stride + width - 2, 8);
  }
  if (broken != 0) logits.put(3 * stride + width / 3, broken);
  std::vector<long long> ids(rows, -1);
  std::vector<float> logProbs(rows, NAN);
  launch(rows, 1, THREADS, [&] {
    draw(logits.data, stride, masked ? mask.data : nullptr, temperature == 0 ? 1 : temperature, temperature == 0 ? nullptr : draws.data,
         width, tiles, ids.data(), logProbs.data());
  });
  Worst worst;
  int wrong = 0;
  for (int r = 0; r < rows; r++) {
    std::vector<double> scores(width);
    double largest = -INFINITY, total = 0, up = 0;
    int likeliest = 0, drawn = -1, firstNan = -1;
    for (int d = 0; d < width; d++) {
      scores[d] = (logits.get(r * stride + d) + (masked ? mask.get(d) : 0)) / (temperature == 0 ? 1 : float(temperature));
      if (std::isnan(scores[d]) && firstNan < 0) firstNan = d;
      if (scores[d] > largest) largest = scores[d], likeliest = d;
    }
    for (double score : scores) total += std::exp(score - largest);
    const double u = std::min(draws.get(r), 1 - 0x1p-32) * total;
    for (int d = 0; d < width && drawn < 0; d++) if ((up += std::exp(scores[d] - largest)) > u) drawn = d;
    if (firstNan >= 0) {
      wrong += ids[r] != (temperature == 0 ? firstNan : width - 1) || !std::isnan(logProbs[r]);
      continue;
    }
    const int got = static_cast<int>(ids[r]);
    if (got < 0 || got >= width) { wrong++; continue; }
    if (temperature == 0) wrong += got != likeliest;
    else {  // a draw that falls on the edge of two tokens, to the rounding of float, may give either
      double below = 0;
      for (int d = 0; d < got; d++) below += std::exp(scores[d] - largest);
      wrong += u < below - 1e-6 * total || u > below + std::exp(scores[got] - largest) + 1e-6 * total || std::exp(scores[got] - largest) == 0;
    }
    worst.see(logProbs[r], scores[got] - largest - std::log(total));
  }
  report(name, worst.value, 1e-5);
  report("wrong tokens", wrong, .5);
}
