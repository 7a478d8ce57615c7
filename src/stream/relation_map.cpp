#include "relation_map.hpp"

#include <pgbaton/base/error.hpp>

#include "resolve.hpp"

namespace pgbaton::stream {

RelationMap::RelationMap(pg::Control& target, const std::vector<state::TableState>& states) : target_(target) {
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
  if (entry.state == nullptr) {
    throw Error(ErrorKind::rejected,
                "the source sent a row of a table that this replica does not know (created, "
                "attached as a partition, or dropped and made again, after the copy)")
        .side(Side::source)
        .table(entry.relation.name.quoted())
        .lsn(commit_lsn)
        // Taking it out of the publication would not help: what is in the WAL already is sent by the publication of
        // then.
        .hint("Start anew with `pgbaton clone --restart`.");
  }
  if (entry.state->phase == state::TablePhase::skipped) return false;
  return commit_lsn >= entry.state->boundary;
}

std::shared_ptr<const apply::TargetTable> RelationMap::resolve(wire::Oid oid, Lsn commit_lsn) {
  auto& entry = entries_.at(oid);
  if (!entry.resolved) entry.resolved = resolve_table(target_, entry.relation, *entry.state, types_, commit_lsn);
  return entry.resolved;
}

}  // namespace pgbaton::stream
