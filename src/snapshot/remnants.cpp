#include "remnants.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/source/open_reader.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>

#include <fmt/format.h>

namespace pgbaton::snapshot {

namespace {

// The second slot of a writer that was killed ends with its session, which may still be at work. One that somebody else
// made stays his.
void end_reader(pg::Control& source, const state::Replica& replica) {
  try {
    source::end_read_session(source, replica.slot, replica.name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::preflight) throw;
    log::warning("{}", error.describe());
  }
}

}  // namespace

std::vector<std::string> remove_remnants(pg::Control& source, const state::Replica& replica) {
  std::vector<std::string> removed;
  source::end_slot_creators(source, replica.name);
  end_reader(source, replica);
  if (source::drop_slot(source, replica.slot, true))
    removed.push_back(fmt::format("slot {} on the source", replica.slot));
  PGBATON_FAILPOINT("slot_dropped");
  auto drop = [&](const std::string& name) {
    if (!name.empty() && source::drop_publication(source, name))
      removed.push_back(fmt::format("publication {} on the source", name));
  };
  if (replica.owns_publication) drop(replica.publication);
  PGBATON_FAILPOINT("publication_dropped");
  if (replica.owns_publication) drop(replica.publication_inserts);
  return removed;
}

std::string free_temporary_slot(pg::Control& source, const ReplicaNames& names) {
  constexpr int kMost = 100;
  for (int n = 1; n <= kMost; ++n) {
    auto name = names.temporary_slot(n);
    auto slot = source::load_slot(source, name);
    if (!slot) return name;
    if (!slot->temporary || slot->database != source.dbname()) continue;
    log::info("ending temporary slot {} of an earlier run", name);
    source::drop_slot(source, name, true);
    if (!source::load_slot(source, name)) return name;
  }
  throw Error(ErrorKind::preflight,
              fmt::format("slots {} to {} all exist", names.temporary_slot(1), names.temporary_slot(kMost)))
      .side(Side::source)
      .hint("Drop those that nobody uses: SELECT pg_drop_replication_slot(…).");
}

}  // namespace pgbaton::snapshot
