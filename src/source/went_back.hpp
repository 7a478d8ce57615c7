// A break that is found by comparing positions, and that the source can write over: it is recorded (history.hpp).
#pragma once
#include <pgbaton/base/error.hpp>

#include <utility>

namespace pgbaton::source {

struct WentBack final : Error {
  explicit WentBack(Error error) : Error(std::move(error)) {}
};

}  // namespace pgbaton::source
