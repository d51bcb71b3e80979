// Vectors of a register, and the small dense products and exponentials that the operators of this engine are made of. What
// a small policy multiplies inside attention is too small for a matrix library: its matrices are copied and its threads
// are asked before a product of 40 × 70 × 32 begins.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace timeseer {

// Wider than a register the compiler keeps them in memory, at a fifth of the speed.
#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32;
#else
constexpr int64_t kVectorBytes = 16;
#endif

template <typename T>
struct Vector {
  static constexpr int64_t lanes = kVectorBytes / sizeof(T);
  typedef T type __attribute__((vector_size(kVectorBytes)));

  static inline type load(const T* from) {
    type v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static inline void store(T* into, const type& v) { std::memcpy(into, &v, sizeof v); }

#if defined(__GNUC__) && !defined(__clang__)
  using Index = typename std::conditional<sizeof(T) == 4, int32_t, int64_t>::type;
  typedef Index Order __attribute__((vector_size(kVectorBytes)));

  // Adds neighbouring runs of H lanes: the first half of each pair of runs is of a, the second of b.
  template <int H>
  static inline type fold(const type& a, const type& b) {
    Order low, high;
    for (int i = 0; i < lanes; i++) {
      const int run = i / (2 * H) * 2 * H, place = i % (2 * H);
      low[i] = place < H ? run + place : lanes + run + place - H;
      high[i] = low[i] + H;
    }
    return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, high);
  }

  template <int H>
  static inline type folded(const type* vectors) {  // 2·H vectors
    type halves[H];
    for (int i = 0; i < H; i++) halves[i] = fold<H>(vectors[i], vectors[i + H]);
    if constexpr (H == 1) return halves[0];
    else return folded<H / 2>(halves);
  }

  // Sum of the lanes of each of as many vectors as there are lanes.
  static inline type sumsOf(const type* vectors) { return folded<lanes / 2>(vectors); }
#else
  static inline type sumsOf(const type* vectors) {
    type sums{};
    for (int i = 0; i < lanes; i++) {
      for (int j = 0; j < lanes; j++) sums[i] += vectors[i][j];
    }
    return sums;
  }
#endif
};

template <typename T>
constexpr int64_t padded(int64_t count) {
  return (count + Vector<T>::lanes - 1) / Vector<T>::lanes * Vector<T>::lanes;
}

// A tile holds its sums in registers: 32 with AVX-512, 16 with AVX2.
#ifdef __AVX512F__
constexpr int kTileRows = 8, kTileVectors = 3;
#else
constexpr int kTileRows = 4, kTileVectors = 3;
#endif

// c[m, n] (+)= Σ_k a[m·row + k·step]·b[k, n] for M rows and N vectors of columns.
template <typename T, int M, int N>
inline void tile(int64_t inner, const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c, int64_t ldc,
                 bool add) {
  using V = Vector<T>;
  typename V::type sums[M][N];
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) {
      if (add) sums[m][n] = V::load(c + m * ldc + n * V::lanes);
      else sums[m][n] = typename V::type{};
    }
  }
  for (int64_t k = 0; k < inner; k++) {
    typename V::type columns[N];
    for (int n = 0; n < N; n++) columns[n] = V::load(b + k * ldb + n * V::lanes);
    for (int m = 0; m < M; m++) {
      const T factor = a[m * row + k * step];
      for (int n = 0; n < N; n++) sums[m][n] += factor * columns[n];
    }
  }
  for (int m = 0; m < M; m++) {
    for (int n = 0; n < N; n++) V::store(c + m * ldc + n * V::lanes, sums[m][n]);
  }
}

template <typename T, int N>
inline void tileRows(int64_t rows, int64_t inner, const T* a, int64_t row, int64_t step, const T* b, int64_t ldb, T* c,
                     int64_t ldc, bool add) {
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows) {
    tile<T, kTileRows, N>(inner, a + m * row, row, step, b, ldb, c + m * ldc, ldc, add);
  }
  for (; m + 2 <= rows; m += 2) tile<T, 2, N>(inner, a + m * row, row, step, b, ldb, c + m * ldc, ldc, add);
  for (; m < rows; m++) tile<T, 1, N>(inner, a + m * row, row, step, b, ldb, c + m * ldc, ldc, add);
}

// c [rows, columns] (+)= a·b with a[m, k] at a[m·row + k·step], b [inner, columns] with rows of `ldb`. `columns` is a
// multiple of the lanes. An element is summed in the order of k, whatever the sizes.
template <typename T>
void multiply(int64_t rows, int64_t columns, int64_t inner, const T* a, int64_t row, int64_t step, const T* b,
              int64_t ldb, T* c, int64_t ldc, bool add) {
  constexpr int64_t lanes = Vector<T>::lanes;
  int64_t n = 0;
  for (; n + kTileVectors * lanes <= columns; n += kTileVectors * lanes) {
    tileRows<T, kTileVectors>(rows, inner, a, row, step, b + n, ldb, c + n, ldc, add);
  }
  if (kTileVectors > 2 && n + 2 * lanes <= columns) {
    tileRows<T, 2>(rows, inner, a, row, step, b + n, ldb, c + n, ldc, add);
    n += 2 * lanes;
  }
  for (; n < columns; n += lanes) tileRows<T, 1>(rows, inner, a, row, step, b + n, ldb, c + n, ldc, add);
}

// e^x, for |x| ≤ 87 within a unit in the last place of float32, 0 below and ∞ above 88, NaN for NaN; it has no branch, so that loops
// over it become vectors. Cody and Waite's reduction to |r| ≤ ln 2 / 2 and a Taylor polynomial of degree 7.
inline float expOf(float x) {
  const float bounded = x < -87.0f ? -87.0f : x;
  const float shifted = bounded * 1.44269504f + 12582912.0f;  // rounds to an integer: 1.5·2^23
  const float n = shifted - 12582912.0f;
  const float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  const uint32_t power = (static_cast<uint32_t>(bits) + 127u) << 23;
  float scale;
  std::memcpy(&scale, &power, sizeof scale);
  const float value = x < -87.0f ? 0.0f : p * scale;
  return x > 88.0f ? std::numeric_limits<float>::infinity() : value;
}

inline double expOf(double x) { return std::exp(x); }

}  // namespace timeseer
