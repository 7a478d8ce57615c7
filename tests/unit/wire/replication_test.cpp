// The frames around pgoutput: golden layouts from the documentation, damage, and the status update.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/wire/replication.hpp>

#include <memory>

#include "golden.hpp"

namespace pgbaton::wire::test {

namespace {

using testing::HasSubstr;

std::string error_of(std::span<const std::byte> frame) {
  const auto exact = std::make_unique<std::byte[]>(frame.size());
  std::copy(frame.begin(), frame.end(), exact.get());
  try {
    static_cast<void>(decode_frame({exact.get(), frame.size()}));
  } catch (const Error& error) {
    EXPECT_EQ(error.action(), Action::bug);
    EXPECT_FALSE(error.hint().empty());
    return error.message();
  }
  return "decoded";
}

TEST(ReplicationFrame, XlogData) {
  const Bytes bytes = from_hex(
      "77"
      "00000016b374d848"
      "00000016b374d900"
      "0002b582c4781000"
      "4142");
  const auto frame = std::get<XLogData>(decode_frame(bytes));
  EXPECT_EQ(frame.start_lsn, Lsn{0x16B374D848});
  EXPECT_EQ(frame.wal_end_lsn, Lsn{0x16B374D900});
  EXPECT_EQ(frame.send_time, 0x0002B582C4781000);
  EXPECT_EQ(frame.body.data(), bytes.data() + 25);
  EXPECT_EQ(frame.body.size(), 2U);
}

TEST(ReplicationFrame, Keepalive) {
  const auto frame =
      std::get<Keepalive>(decode_frame(from_hex("6b"
                                                "00000016b374d900"
                                                "0002b582c4781000"
                                                "01")));
  EXPECT_EQ(frame.wal_end_lsn, Lsn{0x16B374D900});
  EXPECT_EQ(frame.send_time, 0x0002B582C4781000);
  EXPECT_TRUE(frame.reply_requested);
  EXPECT_FALSE(std::get<Keepalive>(decode_frame(Build('k').u64(1).u64(2).u8(0))).reply_requested);
}

TEST(ReplicationFrame, KeepaliveIsStrict) {
  EXPECT_THAT(
      error_of(Build('k').u64(1).u64(2).u8(2)),
      HasSubstr("replication frame 'k' (Primary Keepalive), offset 17 of 18 bytes: expected the request for a reply"));
  EXPECT_THAT(error_of(Build('k').u64(1).u64(2).u8(0).u8(0)), HasSubstr("offset 18 of 19 bytes: expected the end"));
}

TEST(ReplicationFrame, OtherTypesAreNamed) {
  EXPECT_THAT(error_of({}), HasSubstr("replication frame, offset 0 of 0 bytes: expected a message type"));
  EXPECT_THAT(error_of(Build('z').u64(1)),
              HasSubstr("replication frame 'z', offset 0 of 9 bytes: expected a frame type: w or k"));
  EXPECT_THAT(error_of(Build('\x07')), HasSubstr("replication frame 0x07"));
}

// The one length that a frame does not carry is that of XLogData's body: a cut inside the body is a valid frame, and
// it is the message decoder that refuses the shorter body (DamagedMessage.NoPrefixDecodes).
TEST(ReplicationFrame, NoPrefixOfAHeaderDecodes) {
  const Build keepalive = Build('k').u64(1).u64(2).u8(0), data = Build('w').u64(1).u64(2).u64(3).raw("body");
  for (std::size_t size = 0; size < keepalive.bytes().size(); ++size) {
    EXPECT_NE(error_of(std::span(keepalive.bytes()).first(size)), "decoded") << size;
  }
  for (std::size_t size = 0; size < 25; ++size) {
    EXPECT_NE(error_of(std::span(data.bytes()).first(size)), "decoded") << size;
  }
  for (std::size_t size = 25; size <= data.bytes().size(); ++size) {
    const auto frame = std::get<XLogData>(decode_frame(std::span(data.bytes()).first(size)));
    EXPECT_EQ(frame.body.size(), size - 25);
  }
}

TEST(ReplicationFrame, NoChangedByteCrashes) {
  for (const Build& build : {Build('k').u64(1).u64(2).u8(0), Build('w').u64(1).u64(2).u64(3).raw("body")}) {
    Bytes bytes = build.bytes();
    for (std::byte& byte : bytes) {
      const std::byte original = byte;
      for (unsigned value = 0; value < 256; ++value) {
        byte = static_cast<std::byte>(value);
        static_cast<void>(error_of(bytes));
      }
      byte = original;
    }
  }
}

const std::string kCopyHeader =
    "5047434f50590aff0d0a00"
    "00000000"
    "00000000";
const std::string kCopyRow =
    "0002"
    "00000008"
    "00000016b374d848"
    "00000003"
    "424344";

TEST(PeekedRow, Golden) {
  for (const auto& start : {std::string(), kCopyHeader}) {
    const Bytes bytes = from_hex(start + kCopyRow);
    const auto row = decode_peeked_row(bytes);
    ASSERT_TRUE(row);
    EXPECT_EQ(row->message_lsn, Lsn{0x16B374D848});
    EXPECT_EQ(row->body.data(), bytes.data() + bytes.size() - 3);
    EXPECT_EQ(row->body.size(), 3U);
    EXPECT_FALSE(decode_peeked_row(from_hex(start + "ffff")));
  }
}

TEST(PeekedRow, DamageIsRefused) {
  const auto refused = [](const Bytes& bytes) {
    const auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    try {
      static_cast<void>(decode_peeked_row({exact.get(), bytes.size()}));
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("row of a peek"));
      return true;
    }
    return false;
  };
  const Bytes whole = from_hex(kCopyHeader + kCopyRow);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_TRUE(refused({whole.data(), whole.data() + size})) << size;
  EXPECT_TRUE(refused(from_hex(kCopyRow + "00"))) << "longer than its message";
  EXPECT_TRUE(refused(from_hex("ffff00")));
  EXPECT_TRUE(refused(from_hex("0003" + kCopyRow.substr(4))));
  EXPECT_TRUE(refused(from_hex("000200000004" + kCopyRow.substr(12))));
  EXPECT_TRUE(
      refused(from_hex("000200000008"
                       "00000016b374d848"
                       "ffffffff")))
      << "NULL is no message";
}

TEST(PeekedRow, BordersAreKnownWithoutDecoding) {
  const Build commit = Build('C').u8(0).u64(0x100).u64(0x130).u64(7);
  EXPECT_EQ(commit_end_lsn(commit.bytes()), Lsn{0x130});
  EXPECT_FALSE(is_begin(commit.bytes()));
  const Build begin = Build('B').u64(0x100).u64(7).raw("1234");
  EXPECT_FALSE(commit_end_lsn(begin.bytes()));
  EXPECT_TRUE(is_begin(begin.bytes()));
  EXPECT_FALSE(is_begin({}));
  EXPECT_THROW(static_cast<void>(commit_end_lsn(Build('C').u8(0).u64(1).bytes())), Error);
}

TEST(StatusUpdate, Golden) {
  const auto frame = encode_status(Lsn{0x16B374D900}, Lsn{0x16B374D848}, Lsn{0x16B374D849}, 0x0002B582C4781000, false);
  EXPECT_EQ(Bytes(frame.begin(), frame.end()), from_hex("72"
                                                        "00000016b374d900"
                                                        "00000016b374d848"
                                                        "00000016b374d849"
                                                        "0002b582c4781000"
                                                        "00"));
  EXPECT_EQ(encode_status({}, {}, {}, 0, true).back(), std::byte{1});
}

TEST(StatusUpdate, ExtremesKeepEveryBit) {
  const auto frame = encode_status(Lsn{~0ULL}, Lsn{0}, Lsn{0x0123456789ABCDEF}, -1, true);
  EXPECT_EQ(Bytes(frame.begin(), frame.end()), from_hex("72"
                                                        "ffffffffffffffff"
                                                        "0000000000000000"
                                                        "0123456789abcdef"
                                                        "ffffffffffffffff"
                                                        "01"));
}

}  // namespace

}  // namespace pgbaton::wire::test
