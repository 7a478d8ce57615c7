#include "statement.hpp"

#include <fmt/format.h>

#include <utility>

namespace pgbaton::apply {

std::string Statement::bind(const wire::Value& value, std::string_view type) {
  parameters.push_back(value.kind == wire::ValueKind::null ? pg::Parameter() : pg::Parameter(value.data));
  return fmt::format("${}::{}", parameters.size(), type);
}

std::string Statement::bind_view(std::string_view text, std::string_view type) {
  return bind({wire::ValueKind::text, text}, type);
}

std::string Statement::bind_own(std::string text, std::string_view type) {
  return bind_view(owned.emplace_back(std::move(text)), type);
}

std::string Statement::bind_lsn(Lsn commit_lsn) {
  return bind_own(to_string(commit_lsn), "pg_lsn");
}

}  // namespace pgbaton::apply
