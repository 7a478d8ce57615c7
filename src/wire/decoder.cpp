// pgoutput, protocol version 1. Everything is in network byte order; String is bytes up to a NUL.
//
//   message    := begin | commit | origin | relation | type | insert | update | delete | truncate | logical | abort
//   begin      := 'B' Lsn(commit, not 0)  Int64(commit time)  Int32(xid, not 0)
//   commit     := 'C' Int8(flags = 0)  Lsn(commit, not 0)  Lsn(end, not 0)  Int64(commit time)
//   origin     := 'O' Lsn(on the origin server)  String(name)
//   relation   := 'R' Int32(oid)  String(schema)  String(name)  Byte('d'|'n'|'f'|'i')  Int16(n)  column{n}
//   column     := Int8(1: part of the identity, else 0)  String(name)  Int32(type oid)  Int32(type modifier)
//   type       := 'Y' Int32(oid)  String(schema)  String(name)
//   insert     := 'I' Int32(relation oid)  'N' tuple
//   update     := 'U' Int32(relation oid)  [('K'|'O') tuple]  'N' tuple
//   delete     := 'D' Int32(relation oid)  ('K'|'O') tuple
//   truncate   := 'T' Int32(n > 0)  Int8(1: cascade | 2: restart identity)  Int32(relation oid){n}
//   logical    := 'M' Int8(1: transactional, else 0)  Lsn  String(prefix)  Int32(size)  Byte{size}
//   abort      := 'A' Int32(xid)  Int32(subxid)                          see StreamAbort for why it is here
//   tuple      := Int16(n)  value{n}
//   value      := 'n' | 'u' | ('t'|'b') Int32(size) Byte{size}
//
// An empty schema stands for pg_catalog (logicalrep_write_namespace in proto.c). A type's name is that of its base type
// when it is a domain, while the oid is the domain's own.
//
// Every choice depends on bytes already read, so no message is a proper prefix of another: a cut-off message cannot be
// taken for a shorter one.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/wire/message.hpp>

#include "cursor.hpp"

namespace pgbaton::wire {

namespace {

std::string_view schema_name(Cursor& in) {
  const auto schema = in.string("the schema's name and its NUL");
  return schema.empty() ? "pg_catalog" : schema;
}

std::string_view object_name(Cursor& in, const char* what) {
  const auto name = in.string(what);
  if (name.empty()) in.fail_before(1, what);
  return name;
}

Lsn valid_lsn(Cursor& in, const char* what) {
  const Lsn lsn = in.lsn(what);
  if (!lsn) in.fail_before(8, what);
  return lsn;
}

Value value(Cursor& in) {
  constexpr auto kKind = "a value kind: n, u, t or b";
  switch (in.letter(kKind)) {
    case 'n':
      return {ValueKind::null, {}};
    case 'u':
      return {ValueKind::unchanged, {}};
    case 't':
      return {ValueKind::text, in.counted("the size of a text value, and so many bytes")};
    case 'b':
      return {ValueKind::binary, in.counted("the size of a binary value, and so many bytes")};
  }
  in.fail_before(1, kKind);
}

Tuple tuple(Cursor& in, Arena& arena) {
  constexpr auto kCount = "the number of values, each of at least one byte";
  const auto values = arena.array<Value>(in.count(in.i16(kCount), 2, 1, kCount));
  for (Value& each : values) each = value(in);
  return values;
}

Tuple new_tuple(Cursor& in, Arena& arena) {
  constexpr auto kMark = "'N' before the new row";
  if (in.letter(kMark) != 'N') in.fail_before(1, kMark);
  return tuple(in, arena);
}

Begin begin(Cursor& in) {
  Begin message;
  message.commit_lsn = valid_lsn(in, "the commit LSN, not 0");
  message.commit_time = in.i64("the commit time");
  message.xid = in.u32("the transaction id");
  if (message.xid == 0) in.fail_before(4, "a transaction id, not 0");
  return message;
}

Commit commit(Cursor& in) {
  constexpr auto kFlags = "commit flags, all 0";
  if (in.u8(kFlags) != 0) in.fail_before(1, kFlags);
  Commit message;
  message.commit_lsn = valid_lsn(in, "the commit LSN, not 0");
  message.end_lsn = valid_lsn(in, "the end LSN, not 0");
  message.commit_time = in.i64("the commit time");
  return message;
}

Origin origin(Cursor& in) {
  Origin message;
  message.origin_lsn = in.lsn("the origin's LSN");
  message.name = in.string("the origin's name and its NUL");
  return message;
}

Column column(Cursor& in) {
  Column column;
  column.is_key = in.flag("column flags: 0, or 1 for a key column");
  column.name = object_name(in, "a column's name and its NUL");
  column.type_oid = in.u32("a column's type oid");
  column.type_modifier = in.i32("a column's type modifier");
  return column;
}

char replica_identity(Cursor& in) {
  constexpr auto kIdentity = "a replica identity: d, n, f or i";
  const char identity = in.letter(kIdentity);
  if (std::string_view("dnfi").find(identity) == std::string_view::npos) in.fail_before(1, kIdentity);
  return identity;
}

Relation relation(Cursor& in, Arena& arena) {
  constexpr auto kCount = "the number of columns, each of at least 11 bytes";
  Relation message;
  message.oid = in.u32("the relation's oid");
  message.schema = schema_name(in);
  message.name = object_name(in, "the relation's name and its NUL");
  message.replica_identity = replica_identity(in);
  const auto columns = arena.array<Column>(in.count(in.i16(kCount), 2, 11, kCount));
  for (Column& each : columns) each = column(in);
  message.columns = columns;
  return message;
}

Type type(Cursor& in) {
  Type message;
  message.oid = in.u32("the type's oid");
  message.schema = schema_name(in);
  message.name = object_name(in, "the type's name and its NUL");
  return message;
}

Insert insert(Cursor& in, Arena& arena) {
  Insert message;
  message.relation_oid = in.u32("the relation's oid");
  message.new_row = new_tuple(in, arena);
  return message;
}

Update update(Cursor& in, Arena& arena) {
  constexpr auto kMark = "'K', 'O' or 'N' before a row";
  Update message;
  message.relation_oid = in.u32("the relation's oid");
  switch (in.letter(kMark)) {
    case 'N':
      message.new_row = tuple(in, arena);
      return message;
    case 'K':
      message.old_kind = OldRow::key;
      break;
    case 'O':
      message.old_kind = OldRow::full;
      break;
    default:
      in.fail_before(1, kMark);
  }
  message.old_row = tuple(in, arena);
  message.new_row = new_tuple(in, arena);
  return message;
}

Delete deletion(Cursor& in, Arena& arena) {
  constexpr auto kMark = "'K' or 'O' before the old row";
  Delete message;
  message.relation_oid = in.u32("the relation's oid");
  const char mark = in.letter(kMark);
  if (mark != 'K' && mark != 'O') in.fail_before(1, kMark);
  message.old_kind = mark == 'K' ? OldRow::key : OldRow::full;
  message.old_row = tuple(in, arena);
  return message;
}

Truncate truncate(Cursor& in, Arena& arena) {
  constexpr auto kCount = "the number of relations, at least 1, each of 4 bytes";
  constexpr auto kFlags = "truncate flags: 1 (cascade), 2 (restart identity), both or none";
  const std::int32_t relations = in.i32(kCount);
  if (relations == 0) in.fail_before(4, kCount);
  const std::uint8_t flags = in.u8(kFlags);
  if ((flags & ~3U) != 0) in.fail_before(1, kFlags);
  const auto oids = arena.array<Oid>(in.count(relations, 5, 4, kCount));
  for (Oid& oid : oids) oid = in.u32("a relation's oid");
  return {(flags & 1U) != 0, (flags & 2U) != 0, oids};
}

LogicalMessage logical_message(Cursor& in) {
  LogicalMessage message;
  message.transactional = in.flag("message flags: 0, or 1 for a transactional message");
  message.lsn = in.lsn("the message's LSN");
  message.prefix = in.string("the prefix and its NUL");
  message.content = in.counted("the size of the content, and so many bytes");
  return message;
}

StreamAbort stream_abort(Cursor& in) {
  StreamAbort message;
  message.xid = in.u32("the transaction id");
  message.sub_xid = in.u32("the subtransaction's id");
  return message;
}

[[noreturn]] void refuse(char type, int version) {
  throw Error(ErrorKind::failed,
              fmt::format("pgoutput message '{}' ({}) belongs to protocol version {}, but this session reads version 1",
                          type, message_name(type), version))
      .side(Side::source)
      .action(Action::bug)
      .hint(
          "The server streams although neither streaming nor two_phase was asked for; check that no proxy rewrites "
          "START_REPLICATION, and report this line with the server's version.");
}

Message decode_message(Cursor& in, Arena& arena) {
  const char letter = in.message_type();
  switch (letter) {
    case 'B':
      return begin(in);
    case 'C':
      return commit(in);
    case 'O':
      return origin(in);
    case 'R':
      return relation(in, arena);
    case 'Y':
      return type(in);
    case 'I':
      return insert(in, arena);
    case 'U':
      return update(in, arena);
    case 'D':
      return deletion(in, arena);
    case 'T':
      return truncate(in, arena);
    case 'M':
      return logical_message(in);
    case 'A':
      return stream_abort(in);
    case 'S':
    case 'E':
    case 'c':
      refuse(letter, 2);
    case 'b':
    case 'P':
    case 'K':
    case 'r':
    case 'p':
      refuse(letter, 3);
  }
  in.fail_before(1, "a message type: B, C, O, R, Y, I, U, D, T or M");
}

}  // namespace

Message decode(std::span<const std::byte> body, Arena& arena) {
  Cursor in(Grammar::pgoutput, body);
  Message message = decode_message(in, arena);
  in.end();
  return message;
}

}  // namespace pgbaton::wire
