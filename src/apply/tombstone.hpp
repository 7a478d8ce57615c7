// Tombstones, the guards of deleted rows: entries of the table's ledger, or rows of pgbaton.tombstone.
#pragma once
#include "row_session.hpp"

#include <string>

namespace pgbaton::apply {

// The key as a JSON array of its values: readable, and the same for every writer.
std::string tombstone_key(const TargetTable& table, wire::Tuple row);

// A delete of this table leaves a tombstone.
bool leaves_tombstones(const RowSession& session, const TargetTable& table);

// Stores the tombstone of the key in `key_row`; a newer one stays.
void bury(RowSession& session, const Change& change, wire::Tuple key_row);

// A tombstone of the key or the floor of the table is above the change (or at it, when asked).
bool is_buried(RowSession& session, const Change& change, wire::Tuple key_row, bool also_at_same_lsn);

// A change that comes out of order and is older than what tombstones still remember can not be judged:
// Error(boundary_lost) rather than a row that comes back.
void require_remembered(RowSession& session, const Change& change);

// INSERT INTO pgbaton.tombstone of many keys: $1 replica, $2 schema, $3 table, $4 text[] keys, $5 pg_lsn[].
std::string bury_many_statement();

}  // namespace pgbaton::apply
