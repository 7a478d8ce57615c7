// One version of a source relation, resolved to a target table. Built by the stream when a Relation message arrives,
// immutable afterwards, shared by all changes decoded under it.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/name.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pgbaton::apply {

enum class GuardMode {
  column,  // kGuardColumn holds the commit LSN of the row's last change
  ledger,  // a side table holds it, for the keys that changed since the boundary
  none,    // relies on progress alone (G3)
};

// Whether a change older than a delete, or the same change twice, can still arrive for this table.
enum class Delivery {
  in_order,   // the ordinary stream: progress is atomic with the rows, so counts are exact and nothing arrives twice
  any_order,  // resync, repair, replay: deletes leave tombstones, updates with a full row may insert it
};

struct TargetColumn {
  std::string name;
  std::string quoted;
  std::string cast_type;           // type without modifier, qualified and quoted (catalog::Column::cast_type)
  bool has_own_text_cast = false;  // catalog::Column says what these are
  bool has_own_cast_from_text = false;
  bool type_is_array = false;
  bool type_is_integer = false;
  bool has_equality = true;
  // The operator that says so, by its schema: sessions that apply have an empty search_path, so that nobody's `=` in
  // another schema takes the server's place.
  std::string equals = "OPERATOR(pg_catalog.=)";
  bool is_key = false;
  bool identity_always = false;
};

struct TargetTable {
  std::uint32_t source_oid = 0;
  QualifiedName name;
  std::string quoted;                 // "schema"."table" on the target
  std::vector<TargetColumn> columns;  // exactly the published ones, in the wire's order
  std::vector<std::size_t> key;       // indexes into columns; empty: no key (RI FULL or none)
  bool key_is_arbiter = false;        // a unique index on the target covers exactly the key: ON CONFLICT may name it
  bool old_rows_are_full = false;     // REPLICA IDENTITY FULL
  GuardMode guard = GuardMode::column;
  std::string ledger;  // of guard ledger: "pgbaton"."ledger_…"; its k1 … kn are the columns of `key`, in that order
  Delivery delivery = Delivery::in_order;
};

}  // namespace pgbaton::apply
