#include "renamed.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

namespace pgbaton::snapshot {

namespace {

Error misplaced(const QualifiedName& table, const std::string& what) {
  return Error(ErrorKind::rejected, what).side(Side::source).table(table.quoted());
}

}  // namespace

bool is_noted_as_dropped(const state::TableState& state) {
  return state.phase == state::TablePhase::skipped && state.note.starts_with(kDropped);
}

Error renamed(const QualifiedName& planned, const QualifiedName& now) {
  return misplaced(planned, "the table was renamed on the source to " + now.quoted())
      .hint(
          "Rename it back and run the same command again, or begin anew: `pgbaton clone --restart`; a rebuild always "
          "does.");
}

Error no_table_any_more(const QualifiedName& planned, const QualifiedName& now) {
  if (now != planned) return renamed(planned, now);
  return misplaced(planned, "it is no table of its own any more on the source, but a view or a member of an extension")
      .hint("Make it a table again and run the same command again, or begin anew: `pgbaton clone --restart`.");
}

void require_names(pg::Control& source, const std::vector<copy::CopyJob>& jobs) {
  std::vector<catalog::Oid> oids;
  for (const auto& job : jobs) oids.push_back(job.state.source_oid);
  const auto relations = catalog::load_relations(source, oids);
  for (const auto& job : jobs) {
    const auto found = relations.find(job.state.source_oid);
    if (found == relations.end() || is_noted_as_dropped(job.state)) continue;
    const auto& [name, kind] = found->second;
    if (name != job.state.name) throw renamed(job.state.name, name);
    if (job.state.phase != state::TablePhase::skipped && kind != 'r') throw no_table_any_more(job.state.name, name);
  }
}

}  // namespace pgbaton::snapshot
