// Matching one source relation with its target table: by column name, never by position. Private to the stream.
#pragma once
#include <pgbaton/apply/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <memory>
#include <unordered_map>

#include "drift.hpp"
#include "relation_map.hpp"

namespace pgbaton::stream {

using TypeNames = std::unordered_map<wire::Oid, QualifiedName>;

struct ToResolve {
  pg::Control& target;
  const DriftPolicy& policy;
  const SourceRelation& relation;
  const state::TableState& state;
  const TypeNames& types;
  const std::vector<catalog::Column>& added;  // the target has them, or will have before the next row
  Lsn commit_lsn;
};
struct Resolution {
  std::shared_ptr<const apply::TargetTable> table;
  Mending mending;
};
Resolution resolve_table(const ToResolve& request);

}  // namespace pgbaton::stream
