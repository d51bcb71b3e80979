// Passes over memory on a CUDA device, compiled there when they are first needed. Without CUDA's headers there are none.
#pragma once

#include <ATen/ATen.h>

namespace timeseer {

// Returns true if there are passes for the type of the tensor on its device.
bool hasPasses(const at::Tensor& tensor);

// gateUp [..., 2·F] → y [..., F], and the gradient of gateUp; all contiguous.
void passSwiglu(const at::Tensor& gateUp, const at::Tensor& y);
void passSwigluBackward(const at::Tensor& gradient, const at::Tensor& gateUp, const at::Tensor& out);

// sum = x + y, normed = RMSNorm(sum)·weight: [..., D], weight [D], all contiguous and of one type, no gradient. Returns false
// where rows are too long, and then computes nothing.
bool passAddNorm(const at::Tensor& x, const at::Tensor& y, const at::Tensor& weight, double epsilon, const at::Tensor& sum,
                 const at::Tensor& normed);

// x [B, T, H, D] by cos and sin [B or 1, T, D] in float32, contiguous, as y is; rows of x may lie apart.
void passRotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& y, bool transposed);

// Returns true if `passDraw` takes logits [B, V] like these, on a device that has passes or without elements.
bool hasDraw(const at::Tensor& logits);

// Tokens ids [B] and logProbs [B] of softmax((logits + mask) / temperature) by `draws` [B]; of temperature 0 the likeliest, with
// log-probabilities of temperature 1. mask [V] and draws in float32, contiguous; the mask may be undefined.
void passDraw(const at::Tensor& logits, const at::Tensor& mask, double temperature, const at::Tensor& draws, const at::Tensor& ids,
              const at::Tensor& logProbs);

// Inputs of a decoding step, one token a row; undefined where there is none.
struct Step {
  at::Tensor qkv;                               // [B, (Hq + 2·Hkv)·D]
  at::Tensor cos, sin;                          // [1 or B, 1, D]
  at::Tensor keys, values;                      // [B, Hkv, C, D]
  int64_t used;                                 // column to write
  at::Tensor at;                                // the same as int64 [1], where the device alone knows it
  at::Tensor mask;                              // [1 or B, 1, 1, columns]
  at::Tensor prefixKey, prefixValue, prefixMask;  // [P, Hkv, S₀, D], [1 or P, 1, 1, S₀]
};

// Returns true if `passStep` takes caches of this form, on a device that has passes or without elements.
bool hasStep(const at::Tensor& keys, const at::Tensor& values, int64_t queryHeads);

// Rotates, writes the column and attends to all up to it → [B, Hq·D].
at::Tensor passStep(const Step& step);

}  // namespace timeseer
