// The relation cache (SEMANTICS 21): what the source said about each relation last, resolved to a target table.
//
// Keyed by the source's OID and replaced on every Relation message, also in the middle of a transaction. Resolving is
// put off until the first row that is to be applied: a shape that only rows below the boundary had may not fit the
// target any more, and need not. One thread.
#pragma once
#include <pgbaton/apply/table.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/wire/message.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pgbaton::stream {

// An owning copy of wire::Relation, because the message's bytes are gone by the time it is resolved.
struct SourceColumn {
  bool is_key = false;
  std::string name;
  wire::Oid type_oid = 0;
  std::int32_t type_modifier = -1;
};
struct SourceRelation {
  wire::Oid oid = 0;
  QualifiedName name;
  char replica_identity = 'd';
  std::vector<SourceColumn> columns;  // without a guard column
  // Where in its rows the source has a guard column of its own: it is the target of another replica (a cascade). That
  // column says something about the other source's history and is never carried on.
  std::optional<std::size_t> guard_at;
};

// What is done about a table that does not fit any more (drift.hpp).
struct DriftPolicy {
  bool add_columns = false;
  std::function<pg::Control&()> source;  // a connection for looks at the source's catalogs; opened when needed
  std::string replica, generation;
  // The publication is not the replica's own and has tables of others, too: a resync beside the stream of all tables.
  bool shared_publication = false;
};

class RelationMap {
 public:
  // `target` is used while resolving and must outlive the map.
  RelationMap(pg::Control& target, const std::vector<state::TableState>& states, DriftPolicy policy);

  void on_type(const wire::Type& type);
  void on_relation(const wire::Relation& relation);

  // Whether a change of this relation with this commit LSN belongs on the target: the table is part of the replica and
  // commit_lsn >= its boundary (G1). Throws Error(rejected) for a table the replica does not know, Error(failed, bug)
  // for an OID that no Relation message announced.
  bool wants(wire::Oid oid, Lsn commit_lsn) const;
  // Where a row of this relation holds the source's own guard, which is to be left out.
  std::optional<std::size_t> guard_at(wire::Oid oid) const { return find(oid).relation.guard_at; }
  // The table in its present shape; throws Error(rejected) with the difference column by column when it does not fit.
  std::shared_ptr<const apply::TargetTable> resolve(wire::Oid oid, Lsn commit_lsn);
  // SQL that must run on the target before the first row of what resolve() returned; handed out once, mostly "".
  std::string take_definition() { return std::exchange(definition_, {}); }

 private:
  struct Entry {
    SourceRelation relation;
    const state::TableState* state = nullptr;
    std::shared_ptr<const apply::TargetTable> resolved;
  };
  const Entry& find(wire::Oid oid) const;

  pg::Control& target_;
  std::unordered_map<wire::Oid, state::TableState> states_;
  std::unordered_map<wire::Oid, Entry> entries_;
  const DriftPolicy policy_;
  std::unordered_map<wire::Oid, std::vector<catalog::Column>> added_;  // by definitions that may not have run yet
  std::string definition_;
  std::unordered_map<wire::Oid, QualifiedName> types_;  // user-defined: what Type messages said (a domain's base type)
};

}  // namespace pgbaton::stream
