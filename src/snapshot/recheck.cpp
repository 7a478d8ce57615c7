#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/snapshot/recheck.hpp>

#include <map>

#include "fingerprint.hpp"

namespace pgbaton::snapshot {

namespace {

// A pattern that matched when the replica was begun may match nothing now; then all tables are looked at.
std::vector<catalog::Table> chosen_tables(pg::Control& source, const state::Replica& replica) {
  CloneOptions options;
  apply_recorded_choice(replica, options);
  auto tables = catalog::load_tables(source);
  try {
    return catalog::apply_filter(tables, options.filter);
  } catch (const Error& error) {
    log::debug("looking for new tables: {}", error.message());
    return tables;
  }
}

bool publishes_changes(const state::TableState& state) {
  return !state.inserts_only && state.phase != state::TablePhase::skipped;
}

}  // namespace

void ChangeReport::warn_once(const catalog::Table& table, const std::string& message) {
  if (told_.insert(table.name.quoted()).second) log::warning("{} {}", table.name.quoted(), message);
}

void ChangeReport::look(pg::Control& source, const state::Replica& replica,
                        const std::vector<state::TableState>& tables) {
  std::map<catalog::Oid, const state::TableState*> known;
  for (const auto& state : tables) known[state.source_oid] = &state;
  for (const auto& table : chosen_tables(source, replica)) {
    const auto found = known.find(table.oid);
    if (found == known.end()) {
      warn_once(
          table,
          "was created on the source after the copy was planned and is not part of this replica: its rows are not "
          "on the target; `pgbaton clone --restart` takes it in");
    } else if (publishes_changes(*found->second) && table.identity == catalog::Identity::unusable) {
      warn_once(table,
                fmt::format("has no usable identity any more ({}): its updates and deletes are published, so they "
                            "fail on the source or cannot be carried; ALTER TABLE {} REPLICA IDENTITY FULL, or "
                            "give it a primary key",
                            table.identity_reason, table.name.quoted()));
    }
  }
}

}  // namespace pgbaton::snapshot
