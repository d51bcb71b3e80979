// Stands in for a header of Gloo that libtorch does not ship: the declarations that ProcessGroupGloo.hpp names.
#pragma once

#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
