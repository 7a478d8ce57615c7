#include "relation_map.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/stream/stream.hpp>

#include "resolve.hpp"

namespace pgbaton::stream {

RelationMap::RelationMap(pg::Control& target, const std::vector<state::TableState>& states, DriftPolicy policy)
    : target_(target), policy_(std::move(policy)) {
  for (const auto& table : states) states_.emplace(table.source_oid, table);
}

void RelationMap::on_type(const wire::Type& type) {
  types_[type.oid] = {std::string(type.schema), std::string(type.name)};
}

void RelationMap::on_relation(const wire::Relation& relation) {
  Entry entry;
  entry.relation.oid = relation.oid;
  entry.relation.name = {std::string(relation.schema), std::string(relation.name)};
  entry.relation.replica_identity = relation.replica_identity;
  for (const auto& column : relation.columns) {
    if (column.name == kGuardColumn) {
      entry.relation.guard_at = static_cast<std::size_t>(&column - relation.columns.data());
      continue;
    }
    entry.relation.columns.push_back({column.is_key, std::string(column.name), column.type_oid, column.type_modifier});
  }
  if (auto known = states_.find(relation.oid); known != states_.end()) entry.state = &known->second;
  entries_[relation.oid] = std::move(entry);
}

const RelationMap::Entry& RelationMap::find(wire::Oid oid) const {
  auto found = entries_.find(oid);
  if (found == entries_.end()) {
    throw Error(ErrorKind::failed, "the source sent a row of relation " + std::to_string(oid) +
                                       " without having described the relation first")
        .side(Side::source)
        .action(Action::bug)
        .hint(
            "This is a defect of pgbaton or of the source; please report it. Nothing of the transaction was applied.");
  }
  return found->second;
}

bool RelationMap::wants(wire::Oid oid, Lsn commit_lsn) const {
  const Entry& entry = find(oid);
  if (entry.state != nullptr && entry.state->detached) return false;
  // Recorded and not copied: a partition whose taking in was cut short.
  const bool pending = entry.state != nullptr && (entry.state->phase == state::TablePhase::pending ||
                                                  entry.state->phase == state::TablePhase::copying);
  // A cascade's source may publish all of its tables, our state among them.
  if (entry.state == nullptr && (policy_.shared_publication || entry.relation.name.schema == "pgbaton")) return false;
  if (entry.state == nullptr || pending) {
    throw Error(ErrorKind::rejected,
                "the source sent a row of a table that this replica does not know (created, "
                "attached as a partition, or dropped and made again, after the copy)")
        .side(Side::source)
        .table(entry.relation.name.quoted())
        .lsn(commit_lsn)
        .sqlstate(kUnknownTable)
        // Taking it out of the publication would not help: what is in the WAL already is sent by the publication of
        // then.
        .hint(
            "A partition of a table that is replicated as a whole: `pgbaton follow --drift add-columns` makes it on "
            "the "
            "target and copies it. Any other table: start anew with `pgbaton clone --restart`.");
  }
  if (entry.state->phase == state::TablePhase::skipped) return false;
  return commit_lsn >= entry.state->boundary;
}

std::shared_ptr<const apply::TargetTable> RelationMap::resolve(wire::Oid oid, Lsn commit_lsn) {
  auto& entry = entries_.at(oid);
  if (entry.resolved) return entry.resolved;
  auto resolution = resolve_table({target_, policy_, entry.relation, *entry.state, types_, added_[oid], commit_lsn});
  auto& added = added_[oid];
  added.insert(added.end(), resolution.mending.added.begin(), resolution.mending.added.end());
  definition_ += resolution.mending.statements;
  return entry.resolved = std::move(resolution.table);
}

}  // namespace pgbaton::stream
