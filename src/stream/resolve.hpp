// Matching one source relation with its target table: by column name, never by position. Private to the stream.
#pragma once
#include <pgbaton/apply/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <memory>
#include <unordered_map>

#include "relation_map.hpp"

namespace pgbaton::stream {

using TypeNames = std::unordered_map<wire::Oid, QualifiedName>;

std::shared_ptr<const apply::TargetTable> resolve_table(pg::Control& target, const SourceRelation& relation,
                                                        const state::TableState& state, const TypeNames& types,
                                                        Lsn commit_lsn);

}  // namespace pgbaton::stream
