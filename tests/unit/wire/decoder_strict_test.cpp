// What the decoder must not let pass, message by message, and what its errors say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/wire/message.hpp>

#include <optional>

#include "golden.hpp"

namespace pgbaton::wire::test {

namespace {

using testing::HasSubstr;

std::optional<Error> error_of(std::span<const std::byte> body) {
  Arena arena;
  try {
    static_cast<void>(decode(body, arena));
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_refused(std::span<const std::byte> body, const std::string& text) {
  const auto error = error_of(body);
  ASSERT_TRUE(error) << "decoded, though it must be refused with: " << text;
  EXPECT_THAT(error->message(), HasSubstr(text));
  EXPECT_EQ(error->kind(), ErrorKind::failed);
  EXPECT_EQ(error->action(), Action::bug);
  EXPECT_EQ(error->side(), Side::source);
  EXPECT_FALSE(error->hint().empty());
}

template <typename T>
T decode_as(std::span<const std::byte> body, Arena& arena) {
  return std::get<T>(decode(arena.copy(body), arena));  // the arena outlives a body built in the same expression
}

TEST(Decoder, AnEmptyMessageHasNoType) {
  expect_refused({}, "pgoutput message, offset 0 of 0 bytes: expected a message type");
}

TEST(Decoder, AnUnknownTypeIsNamed) {
  expect_refused(Build('Z'), "pgoutput message 'Z', offset 0 of 1 bytes: expected a message type: B, C, O");
  expect_refused(Build('\0'), "pgoutput message 0x00, offset 0 of 1 bytes");
  expect_refused(Build('\xff'), "pgoutput message 0xFF, offset 0 of 1 bytes");
}

TEST(Decoder, MessagesOfLaterProtocolVersionsAreRefusedByName) {
  const std::pair<char, std::string> later[] = {{'S', "'S' (Stream Start) belongs to protocol version 2"},
                                                {'E', "'E' (Stream Stop) belongs to protocol version 2"},
                                                {'c', "'c' (Stream Commit) belongs to protocol version 2"},
                                                {'b', "'b' (Begin Prepare) belongs to protocol version 3"},
                                                {'P', "'P' (Prepare) belongs to protocol version 3"},
                                                {'K', "'K' (Commit Prepared) belongs to protocol version 3"},
                                                {'r', "'r' (Rollback Prepared) belongs to protocol version 3"},
                                                {'p', "'p' (Stream Prepare) belongs to protocol version 3"}};
  for (const auto& [type, text] : later) expect_refused(Build(type).u32(1), text);
}

TEST(Decoder, Begin) {
  Arena arena;
  const auto begin = decode_as<Begin>(Build('B').u64(0x16B374D848).u64(static_cast<std::uint64_t>(-5)).u32(7), arena);
  EXPECT_EQ(begin.commit_lsn, Lsn{0x16B374D848});
  EXPECT_EQ(begin.commit_time, -5);
  EXPECT_EQ(begin.xid, 7U);
  expect_refused(Build('B').u64(0).u64(0).u32(7),
                 "pgoutput message 'B' (Begin), offset 1 of 21 bytes: expected the commit LSN");
  expect_refused(Build('B').u64(1).u64(0).u32(0), "offset 17 of 21 bytes: expected a transaction id, not 0");
}

TEST(Decoder, CommitFlagsAreFixedToZero) {
  Arena arena;
  const auto commit = decode_as<Commit>(Build('C').u8(0).u64(16).u64(32).u64(9), arena);
  EXPECT_EQ(commit.commit_lsn, Lsn{16});
  EXPECT_EQ(commit.end_lsn, Lsn{32});
  EXPECT_EQ(commit.commit_time, 9);
  expect_refused(Build('C').u8(1).u64(16).u64(32).u64(9), "'C' (Commit), offset 1 of 26 bytes: expected commit flags");
  expect_refused(Build('C').u8(0).u64(0).u64(32).u64(9), "offset 2 of 26 bytes: expected the commit LSN");
  expect_refused(Build('C').u8(0).u64(16).u64(0).u64(9), "offset 10 of 26 bytes: expected the end LSN");
}

TEST(Decoder, OriginMayHaveNoPosition) {
  Arena arena;
  const auto origin = decode_as<Origin>(Build('O').u64(0).string("elsewhere"), arena);
  EXPECT_EQ(origin.origin_lsn, Lsn{});
  EXPECT_EQ(origin.name, "elsewhere");
  expect_refused(Build('O').u64(0).raw("no end"),
                 "'O' (Origin), offset 9 of 15 bytes: expected the origin's name and its NUL");
}

Build relation_head(std::string_view schema, std::string_view name, char identity, std::uint16_t columns) {
  return Build('R').u32(99).string(schema).string(name).letter(identity).u16(columns);
}

TEST(Decoder, AnEmptySchemaIsPgCatalog) {
  Arena arena;
  const auto relation = decode_as<Relation>(relation_head("", "t", 'd', 0), arena);
  EXPECT_EQ(relation.schema, "pg_catalog");
  EXPECT_TRUE(relation.columns.empty());  // a table may have none
  EXPECT_EQ(decode_as<Type>(Build('Y').u32(5).string("").string("text"), arena).schema, "pg_catalog");
}

TEST(Decoder, RelationColumns) {
  Arena arena;
  const auto body =
      relation_head("s", "t", 'i', 2).u8(1).string("a").u32(23).u32(0xFFFFFFFF).u8(0).string("b").u32(1043).u32(24);
  const auto relation = decode_as<Relation>(body, arena);
  EXPECT_EQ(relation.oid, 99U);
  EXPECT_EQ(relation.replica_identity, 'i');
  ASSERT_EQ(relation.columns.size(), 2U);
  EXPECT_TRUE(relation.columns[0].is_key);
  EXPECT_EQ(relation.columns[0].type_modifier, -1);
  EXPECT_FALSE(relation.columns[1].is_key);
  EXPECT_EQ(relation.columns[1].name, "b");
  EXPECT_EQ(relation.columns[1].type_oid, 1043U);
  EXPECT_EQ(relation.columns[1].type_modifier, 24);
}

TEST(Decoder, RelationIsStrict) {
  expect_refused(relation_head("s", "", 'd', 0), "'R' (Relation), offset 7 of 11 bytes: expected the relation's name");
  expect_refused(relation_head("s", "t", 'x', 0), "offset 9 of 12 bytes: expected a replica identity: d, n, f or i");
  expect_refused(relation_head("s", "t", 'd', 0xFFFF), "offset 10 of 12 bytes: expected the number of columns");
  expect_refused(relation_head("s", "t", 'd', 1), "offset 10 of 12 bytes: expected the number of columns");
  expect_refused(relation_head("s", "t", 'd', 1).u8(2).string("a").u32(23).u32(0),
                 "offset 12 of 23 bytes: expected column flags");
  expect_refused(relation_head("s", "t", 'd', 1).u8(0).string("").u32(23).u32(0).u8(0),
                 "offset 13 of 23 bytes: expected a column's name");
  expect_refused(Build('R').u32(99).raw("schema"), "offset 5 of 11 bytes: expected the schema's name and its NUL");
  expect_refused(Build('R').u32(99), "offset 5 of 5 bytes: expected the schema's name and its NUL");
}

TEST(Decoder, TypeIsStrict) {
  expect_refused(Build('Y').u32(5).string("s").string(""), "'Y' (Type), offset 7 of 8 bytes: expected the type's name");
  expect_refused(Build('Y').u32(5).string("s").string("t").u8(0),
                 "offset 9 of 10 bytes: expected the end of the message");
}

TEST(Decoder, EveryValueKind) {
  Arena arena;
  const auto body = Build('I')
                        .u32(7)
                        .letter('N')
                        .u16(5)
                        .letter('n')
                        .letter('u')
                        .letter('t')
                        .counted("")
                        .letter('t')
                        .counted("x\0y")
                        .letter('b')
                        .counted({"\0\xff", 2});
  const auto insert = decode_as<Insert>(body, arena);
  ASSERT_EQ(insert.new_row.size(), 5U);
  EXPECT_EQ(insert.new_row[0].kind, ValueKind::null);
  EXPECT_EQ(insert.new_row[1].kind, ValueKind::unchanged);
  EXPECT_EQ(insert.new_row[2].kind, ValueKind::text);
  EXPECT_EQ(insert.new_row[2].data, "");
  EXPECT_EQ(insert.new_row[3].data, "x");
  EXPECT_EQ(insert.new_row[4].kind, ValueKind::binary);
  EXPECT_EQ(insert.new_row[4].data, std::string_view("\0\xff", 2));
}

TEST(Decoder, InsertIsStrict) {
  const auto head = [] { return Build('I').u32(7).letter('N'); };
  expect_refused(Build('I').u32(7).letter('K').u16(0),
                 "'I' (Insert), offset 5 of 8 bytes: expected 'N' before the new row");
  expect_refused(head().u16(0xFFFF), "offset 6 of 8 bytes: expected the number of values");
  expect_refused(head().u16(2).letter('n'), "offset 6 of 9 bytes: expected the number of values");
  expect_refused(head().u16(1).letter('x'), "offset 8 of 9 bytes: expected a value kind: n, u, t or b");
  expect_refused(head().u16(1).letter('t').u32(0xFFFFFFFF), "offset 9 of 13 bytes: expected the size of a text value");
  expect_refused(head().u16(1).letter('t').u32(3).raw("ab"), "offset 9 of 15 bytes: expected the size of a text value");
  expect_refused(head().u16(1).letter('b').u32(0x7FFFFFFF),
                 "offset 9 of 13 bytes: expected the size of a binary value");
  expect_refused(head().u16(1).letter('n').letter('n'), "offset 9 of 10 bytes: expected the end of the message");
}

TEST(Decoder, UpdateNeedsANewRowAfterTheOldOne) {
  expect_refused(Build('U').u32(7).letter('X').u16(0), "'U' (Update), offset 5 of 8 bytes: expected 'K', 'O' or 'N'");
  expect_refused(Build('U').u32(7).letter('K').u16(0), "offset 8 of 8 bytes: expected 'N' before the new row");
  expect_refused(Build('U').u32(7).letter('K').u16(0).letter('O').u16(0),
                 "offset 8 of 11 bytes: expected 'N' before the new row");
  Arena arena;
  const auto body = Build('U').u32(7).letter('O').u16(1).letter('n').letter('N').u16(1).letter('u');
  const auto update = decode_as<Update>(body, arena);
  EXPECT_EQ(update.old_kind, OldRow::full);
  EXPECT_EQ(update.old_row[0].kind, ValueKind::null);
  EXPECT_EQ(update.new_row[0].kind, ValueKind::unchanged);
}

TEST(Decoder, DeleteNeedsAnOldRow) {
  expect_refused(Build('D').u32(7).letter('N').u16(0), "'D' (Delete), offset 5 of 8 bytes: expected 'K' or 'O'");
}

TEST(Decoder, TruncateIsStrict) {
  Arena arena;
  const auto both = decode_as<Truncate>(Build('T').u32(2).u8(3).u32(7).u32(8), arena);
  EXPECT_TRUE(both.cascade);
  EXPECT_TRUE(both.restart_identity);
  EXPECT_EQ(std::vector<Oid>(both.relation_oids.begin(), both.relation_oids.end()), (std::vector<Oid>{7, 8}));
  expect_refused(Build('T').u32(1).u8(4).u32(7), "'T' (Truncate), offset 5 of 10 bytes: expected truncate flags");
  expect_refused(Build('T').u32(0).u8(0), "offset 1 of 6 bytes: expected the number of relations");
  expect_refused(Build('T').u32(0xFFFFFFFF).u8(0).u32(7), "offset 1 of 10 bytes: expected the number of relations");
  expect_refused(Build('T').u32(0x7FFFFFFF).u8(0).u32(7), "offset 1 of 10 bytes: expected the number of relations");
  expect_refused(Build('T').u32(1).u8(0).u32(7).u32(8), "offset 10 of 14 bytes: expected the end of the message");
}

TEST(Decoder, LogicalMessageIsStrict) {
  Arena arena;
  const auto message = decode_as<LogicalMessage>(Build('M').u8(1).u64(5).string("").counted({"\0", 1}), arena);
  EXPECT_TRUE(message.transactional);
  EXPECT_EQ(message.lsn, Lsn{5});
  EXPECT_EQ(message.prefix, "");
  EXPECT_EQ(message.content, std::string_view("\0", 1));
  expect_refused(Build('M').u8(2).u64(5).string("p").counted(""),
                 "'M' (Message), offset 1 of 16 bytes: expected message flags");
  expect_refused(Build('M').u8(0).u64(5).raw("p"), "offset 10 of 11 bytes: expected the prefix and its NUL");
  expect_refused(Build('M').u8(0).u64(5).string("p").u32(9), "offset 12 of 16 bytes: expected the size of the content");
}

TEST(Decoder, StreamAbortIsReadInTheLayoutOfVersion2Only) {
  Arena arena;
  const auto abort = decode_as<StreamAbort>(Build('A').u32(700).u32(701), arena);
  EXPECT_EQ(abort.xid, 700U);
  EXPECT_EQ(abort.sub_xid, 701U);
  // As a server of major 18 sent it in a session of version 1.
  EXPECT_EQ(decode_as<StreamAbort>(from_hex("410000032e0000032f"), arena).sub_xid, 815U);
  // Version 4 appends an LSN and a time.
  expect_refused(Build('A').u32(700).u32(701).u64(1).u64(2),
                 "'A' (Stream Abort), offset 9 of 25 bytes: expected the end of the message");
}

// A count that promises more than there is must not cost memory first.
TEST(Decoder, ABrokenCountAllocatesNothing) {
  Arena arena;
  EXPECT_THROW(static_cast<void>(decode(Build('T').u32(0x7FFFFFFF).u8(0).u32(7), arena)), Error);
  EXPECT_THROW(static_cast<void>(decode(Build('I').u32(7).letter('N').u16(0x7FFF).letter('n'), arena)), Error);
  EXPECT_EQ(arena.bytes(), 0U);
}

}  // namespace

}  // namespace pgbaton::wire::test
