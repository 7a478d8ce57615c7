// pgoutput messages, protocol version 1, as values. Names and fields as in the PostgreSQL documentation,
// "Logical Replication Message Formats"; server side: src/backend/replication/logical/proto.c.
//
// Every string_view and span points into the decoded body or into the Arena given to decode().
#pragma once
#include <pgbaton/base/arena.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/wire/value.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace pgbaton::wire {

using Oid = std::uint32_t;
using TimestampUs = std::int64_t;  // microseconds since 2000-01-01 UTC

struct Begin {
  Lsn commit_lsn;  // Begin.final_lsn: start of the commit record; what boundaries and guards are compared with
  TimestampUs commit_time = 0;
  std::uint32_t xid = 0;
};
struct Commit {
  Lsn commit_lsn;
  Lsn end_lsn;  // end of the commit record; what is acknowledged
  TimestampUs commit_time = 0;
};
struct Origin {
  Lsn origin_lsn;
  std::string_view name;
};
struct Column {
  bool is_key = false;  // part of the replica identity (for FULL: every column)
  std::string_view name;
  Oid type_oid = 0;
  std::int32_t type_modifier = -1;
};
struct Relation {
  Oid oid = 0;
  std::string_view schema;  // never empty: the wire's "" for pg_catalog is spelled out
  std::string_view name;
  char replica_identity = 'd';  // pg_class.relreplident: d, n, f, i
  std::span<const Column> columns;
};
struct Type {
  Oid oid = 0;
  std::string_view schema, name;
};
struct Insert {
  Oid relation_oid = 0;
  Tuple new_row;
};
enum class OldRow : unsigned char {
  none,  // key unchanged and not TOASTed
  key,   // 'K': identity columns hold values, all others are null
  full,  // 'O': REPLICA IDENTITY FULL
};
struct Update {
  Oid relation_oid = 0;
  OldRow old_kind = OldRow::none;
  Tuple old_row, new_row;
};
struct Delete {
  Oid relation_oid = 0;
  OldRow old_kind = OldRow::key;
  Tuple old_row;
};
struct Truncate {
  bool cascade = false, restart_identity = false;
  std::span<const Oid> relation_oids;
};
struct LogicalMessage {  // pg_logical_emit_message
  bool transactional = false;
  Lsn lsn;
  std::string_view prefix, content;
};

// Noise, to be dropped. PostgreSQL 18 sends it though nothing is streamed: when memory for decoding runs short, the
// server forgets transactions that it finds aborted, marks their subtransactions as streamed whatever the session asked
// for, and then reports their abort records. Always between transactions and in the layout of version 2; nothing of
// such a transaction was sent before or comes after. Seen on 18.4 with proto_version 1 (tests/data/wire/recipe.sql).
struct StreamAbort {
  std::uint32_t xid = 0;  // top-level
  std::uint32_t sub_xid = 0;
};

using Message =
    std::variant<Begin, Commit, Origin, Relation, Type, Insert, Update, Delete, Truncate, LogicalMessage, StreamAbort>;

// Decodes one message, whole: bytes left over are an error. Bounds-checked; throws Error(failed, action bug) with the
// message type and offset for anything malformed, and by name for messages of later protocol versions (S E c b P K r
// p). Pure: no connection, log or clock. `arena` receives the arrays; `body` is only pointed at.
Message decode(std::span<const std::byte> body, Arena& arena);

}  // namespace pgbaton::wire
