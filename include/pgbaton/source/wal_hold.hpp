// What the slots of a replica keep on the source: its own, the reader's copy of it, those of a resync, temporary ones
// of a cut or a new boundary. Read only.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace pgbaton::source {

struct HoldingSlot {
  std::string name, wal_status;  // "" below 13
  bool temporary = false, active = false;
  std::int64_t held_bytes = 0;  // WAL between its restart_lsn and now; 0 when it is lost
  std::int64_t xmin_age = 0;    // transactions since the oldest whose catalog rows vacuum must keep for it
};

struct WalHold {
  std::vector<HoldingSlot> slots;        // by name
  std::int64_t held_bytes = 0;           // by all of them together: what the one that is furthest behind holds
  std::int64_t server_limit_bytes = -1;  // max_slot_wal_keep_size, 13+; -1: no limit
  std::int64_t xmin_age = 0;             // the largest of the slots'
  std::int64_t freeze_max_age = 0;       // autovacuum_freeze_max_age: what an xmin age is measured against
  Lsn flush_lsn;
};

// Which slots are meant, all of them of the connection's database. Another replica's may begin with the same words: the
// way back of a database that was switched over to this server is called <base>__back.
struct OwnSlots {
  std::string base;          // ReplicaNames::base
  std::string slot;          // the stream's, and <slot>__read; a resync's and temporary ones are named after either
  bool generations = false;  // of a rebuild, too: <base>__g<id>…
};

WalHold load_wal_hold(pg::Control& source, const OwnSlots& own);

}  // namespace pgbaton::source
