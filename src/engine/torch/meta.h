// Tensors without elements, whose operators allocate what those of another device would and compute nothing.
#pragma once

#include <ATen/ATen.h>

namespace timeseer {

// Whether operators of host memory take the tensor: it lies there, or has no elements and stands for one that would.
bool onHost(const at::Tensor& tensor);

}  // namespace timeseer
