// Cases of a decoding step by one program of passes.cc, included behind its kernels in a namespace; NAME and ALLOWED are defined for each.
static void stepCase(const char* name, int prompts, int group, int heads, int before, int used, int columns, int chunk, bool masked,
                     bool counted, bool ownAngles) {
  const int batch = prompts * group, queryHeads = heads * R, all = queryHeads + 2 * heads, total = before + used + 1;
  const int most = before + (counted ? columns : used + 1), splits = (most + chunk - 1) / chunk;
  Array<T> qkv(batch * all * D, 1.5), cos((ownAngles ? batch : 1) * D, 1), sin((ownAngles ? batch : 1) * D, 1);
  Array<T> keys(batch * heads * columns * D, 1), values(batch * heads * columns * D, 1);
  Array<T> prefixKeys(prompts * heads * before * D + 8, 1), prefixValues(prompts * heads * before * D + 8, 1);
  Array<T> mask(batch * columns, .5), prefixMask(prompts * before + 1, .5), out(batch * queryHeads * D);
  for (int b = 0; b < batch; b++) {  // row b does not see its first b columns, and nobody what lies behind the newest
    for (int s = 0; s < columns; s++) if (s < b % (used + 1) || s > used) mask.put(b * columns + s, -INFINITY);
  }
  for (int p = 0; p < prompts; p++) for (int s = 0; s < p && s < before; s++) prefixMask.put(p * before + s, -INFINITY);
  std::vector<double> oldKeys, oldValues;
  for (size_t i = 0; i < keys.size; i++) oldKeys.push_back(keys.get(i)), oldValues.push_back(values.get(i));
  std::vector<float> partial(batch * queryHeads * splits * (D + 2), NAN);
  const long long at = used;
  const auto rowsOf = [](const Array<T>& of, int heads, int length) { return Rows{of.data, heads * length * D, length * D, D}; };
  const Hidden none{nullptr, 0, 0};
  launch(batch * heads, splits, 32 * WARPS, [&] {
    step(qkv.data, all * D, cos.data, sin.data, ownAngles ? D : 0, rowsOf(keys, heads, columns), rowsOf(values, heads, columns),
         counted ? &at : nullptr, counted ? 0 : used, masked ? Hidden{mask.data, columns, 1} : none, rowsOf(prefixKeys, heads, before),
         rowsOf(prefixValues, heads, before), masked ? Hidden{prefixMask.data, before, 1} : none, group, before, heads, columns,
         static_cast<float>(1 / std::sqrt(double(D))), chunk, splits, partial.data(), out.data);
  });
  if (splits > 1) launch(batch * queryHeads, 1, D, [&] { merge(partial.data(), out.data, splits); });
  Worst worst, cache;
  const auto rounded = [](double value) { Array<T> one(1); one.data[0] = Narrow<T>::of(static_cast<float>(value)); return one.get(0); };
  for (int b = 0; b < batch; b++) {
    const auto turned = [&](int head, int d) {
      const size_t x = (b * all + head) * D, c = ownAngles ? b * D : 0;
      const double far = d < D / 2 ? -qkv.get(x + d + D / 2) : qkv.get(x + d - D / 2);
      return rounded(qkv.get(x + d) * cos.get(c + d) + far * sin.get(c + d));
    };
    for (int h = 0; h < heads; h++) {
      for (int s = 0; s < columns; s++) {
        for (int d = 0; d < D; d++) {
          const size_t place = ((b * heads + h) * columns + s) * D + d;
          cache.see(keys.get(place), s == used ? turned(queryHeads + h, d) : oldKeys[place]);
          cache.see(values.get(place), s == used ? qkv.get((b * all + queryHeads + heads + h) * D + d) : oldValues[place]);
        }
      }
      for (int r = 0; r < R; r++) {
        std::vector<double> weights(total), mixed(D);
        double largest = -INFINITY, sum = 0;
        const int p = b / group;
        const auto place = [&](int key, int d) {
          return key < before ? ((p * heads + h) * before + key) * D + d : ((b * heads + h) * columns + key - before) * D + d;
        };
        for (int key = 0; key < total; key++) {
          double dot = 0;
          for (int d = 0; d < D; d++) dot += turned(h * R + r, d) * (key < before ? prefixKeys : keys).get(place(key, d));
          weights[key] = dot / std::sqrt(double(D));
          if (masked) weights[key] += key < before ? prefixMask.get(p * before + key) : mask.get(b * columns + key - before);
          largest = std::max(largest, weights[key]);
        }
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (int key = 0; key < total; key++) {
          for (int d = 0; d < D; d++) mixed[d] += weights[key] / sum * (key < before ? prefixValues : values).get(place(key, d));
        }
        for (int d = 0; d < D; d++) worst.see(out.get((b * queryHeads + h * R + r) * D + d), mixed[d]);
      }
    }
  }
  report(name, worst.value, ALLOWED);
  report("the caches", cache.value, ALLOWED);
}
