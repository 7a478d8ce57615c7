#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/snapshot/unlike.hpp>

#include "fingerprint.hpp"

namespace pgbaton::snapshot {

namespace {

constexpr std::size_t kLongest = 100;

std::vector<catalog::DefinitionDifference> compare(pg::Control& source, pg::Control& target, bool whole,
                                                   const std::vector<state::TableState>& tables) {
  const auto from = catalog::load_server(source, Side::source), to = catalog::load_server(target, Side::target);
  catalog::DefinitionScope scope;
  for (const auto& table : tables) scope.tables.insert(table.name);
  scope.whole = whole;
  scope.texts = to.major() >= from.major() && to.encoding == from.encoding;
  return catalog::compare_definitions(catalog::load_definitions(source, Side::source),
                                      catalog::load_definitions(target, Side::target), scope);
}

}  // namespace

std::vector<catalog::DefinitionDifference> definitions_unlike(pg::Control& source, pg::Control& target,
                                                              const state::Replica& replica,
                                                              const std::vector<state::TableState>& tables) {
  CloneOptions begun;
  apply_recorded_choice(replica, begun);
  if (begun.schema == SchemaMode::none) return {};
  try {
    auto found = compare(source, target, begun.filter.empty(), tables);
    if (found.size() <= kLongest) return found;
    const auto more = found.size() - kLongest;
    found.resize(kLongest);
    found.push_back(
        {"definitions", fmt::format("{} more differ", more), "Compare pg_dump --schema-only of both sides."});
    return found;
  } catch (const Error& error) {
    if (error.sqlstate().empty()) throw;  // no answer of the server
    return {{"definitions", "of indexes, constraints, triggers and the like were not compared: " + error.describe(),
             "Compare pg_dump --schema-only of both sides."}};
  }
}

}  // namespace pgbaton::snapshot
