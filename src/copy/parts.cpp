#include <pgbaton/copy/parts.hpp>

#include <algorithm>

#include "copy_plan.hpp"

namespace pgbaton::copy {
namespace {

// More parts than this only cost: each is a transaction, and a line of state.
constexpr std::uint64_t kMostParts = 1024;
// TID Range Scan; before it every part would read the whole table.
constexpr int kFirstVersion = 140000;

}  // namespace

std::vector<BlockRange> plan_parts(const catalog::Table& table, const SplitRule& rule) {
  const bool splits = rule.above > 0 && rule.jobs > 1 && rule.source_version >= kFirstVersion;
  if (!splits || table.kind != 'r' || table.bytes <= rule.above || table.columns.empty()) return {{}};
  const auto wanted = (table.bytes + rule.above - 1) / rule.above;
  const auto parts =
      static_cast<std::int64_t>(std::clamp<std::uint64_t>(std::min(wanted, table.heap_blocks), 1, kMostParts));
  const auto blocks = static_cast<std::int64_t>(table.heap_blocks);
  std::vector<BlockRange> ranges;
  for (std::int64_t part = 0; part < parts; ++part) {
    auto& range = ranges.emplace_back();
    range.first = blocks * part / parts;
    if (part + 1 < parts) range.end = blocks * (part + 1) / parts;
  }
  return ranges;
}

void discard_parts(const pg::Endpoint& target, const state::Replica& replica, const state::TableState& state) {
  auto connection = pg::Connection::open(target, "discard-parts");
  const auto table = load_target_table(connection, state.name);
  connection.exec("BEGIN");
  connection.exec(clear_statement(state.name, table));
  connection.exec(state::Store::forget_parts_statement(replica, state.name));
  if (connection.exec(state::Store::copied_statement(replica, state)).affected() != 1) throw fenced();
  connection.exec("COMMIT");
}

}  // namespace pgbaton::copy
