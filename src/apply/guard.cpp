#include "guard.hpp"

#include <fmt/format.h>
#include <pgbaton/base/name.hpp>

namespace pgbaton::apply::guard {

bool is_stored(GuardMode mode) {
  return !column(mode).empty();
}

std::string column(GuardMode mode) {
  switch (mode) {
    case GuardMode::column:
      return quote_identifier(kGuardColumn);
    case GuardMode::none:
      return {};
  }
  return {};
}

std::string not_newer(GuardMode mode, std::string_view row, std::string_view commit_lsn) {
  if (!is_stored(mode)) return {};
  return fmt::format(" AND {}.{} <= {}", row, column(mode), commit_lsn);
}

std::string assignment(GuardMode mode, std::string_view commit_lsn) {
  if (!is_stored(mode)) return {};
  return fmt::format("{} = {}", column(mode), commit_lsn);
}

}  // namespace pgbaton::apply::guard
