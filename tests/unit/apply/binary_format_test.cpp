#include "../../../src/apply/binary_format.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace pgbaton::apply {
namespace {

// What follows the size, in hexadecimal; nothing when the text has no binary form. Expected values were printed by the
// server: select encode(int8send(…), 'hex') and so on.
std::optional<std::string> encoded(Codec codec, std::string_view text) {
  std::string out = "before";
  if (!append_binary(out, codec, {wire::ValueKind::text, text})) {
    EXPECT_EQ(out, "before");
    return std::nullopt;
  }
  std::string hex;
  for (const char c : out.substr(6)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  EXPECT_EQ(std::stoul(hex.substr(0, 8), nullptr, 16), hex.size() / 2 - 4);
  return hex.substr(8);
}

TEST(BinaryFormat, Numbers) {
  EXPECT_EQ(encoded(Codec::int2, "-32768"), "8000");
  EXPECT_EQ(encoded(Codec::int4, "12"), "0000000c");
  EXPECT_EQ(encoded(Codec::int8, "-1"), "ffffffffffffffff");
  EXPECT_EQ(encoded(Codec::float8, "0.1"), "3fb999999999999a");
  EXPECT_EQ(encoded(Codec::float8, "-0"), "8000000000000000");
  EXPECT_EQ(encoded(Codec::float8, "1e+300"), "7e37e43c8800759c");
  EXPECT_EQ(encoded(Codec::float4, "3.4028235e+38"), "7f7fffff");
  EXPECT_EQ(encoded(Codec::boolean, "t"), "01");
  EXPECT_EQ(encoded(Codec::lsn, "16/B374D848"), "00000016b374d848");
}

TEST(BinaryFormat, Numeric) {
  EXPECT_EQ(encoded(Codec::numeric, "0"), "0000000000000000");
  EXPECT_EQ(encoded(Codec::numeric, "0.00"), "0000000000000002");
  EXPECT_EQ(encoded(Codec::numeric, "1"), "00010000000000000001");
  EXPECT_EQ(encoded(Codec::numeric, "-12345.678"), "0003000140000003000109291a7c");
  EXPECT_EQ(encoded(Codec::numeric, "10000"), "00010001000000000001");
  EXPECT_EQ(encoded(Codec::numeric, "0.0001"), "0001ffff000000040001");
  EXPECT_EQ(encoded(Codec::numeric, "0.00001"), "0001fffe0000000503e8");
  EXPECT_EQ(encoded(Codec::numeric, "1.50"),
            "0002000000000002"
            "0001"
            "1388");
  EXPECT_EQ(encoded(Codec::numeric, "100000000.00000001"),
            "0005000200000008"
            "0001"
            "0000"
            "0000"
            "0000"
            "0001");
}

TEST(BinaryFormat, Moments) {
  EXPECT_EQ(encoded(Codec::date, "2000-01-01"), "00000000");
  EXPECT_EQ(encoded(Codec::date, "1999-12-31"), "ffffffff");
  EXPECT_EQ(encoded(Codec::date, "2024-02-29"), "00002279");
  EXPECT_EQ(encoded(Codec::date, "0001-01-01"), "fff4dbf9");
  EXPECT_EQ(encoded(Codec::timestamp, "2000-01-01 00:00:01+00"), "00000000000f4240");
  EXPECT_EQ(encoded(Codec::timestamp, "2000-01-01 00:00:00.5"), "000000000007a120");
  EXPECT_EQ(encoded(Codec::timestamp, "1999-12-31 23:59:59.999999+00"), "ffffffffffffffff");
}

TEST(BinaryFormat, Bytes) {
  EXPECT_EQ(encoded(Codec::text, "a\"b\\"), "6122625c");
  EXPECT_EQ(encoded(Codec::text, ""), "");
  EXPECT_EQ(encoded(Codec::bytea, "\\x00ff10"), "00ff10");
  EXPECT_EQ(encoded(Codec::bytea, "\\x"), "");
  EXPECT_EQ(encoded(Codec::uuid, "01234567-89ab-cdef-0123-456789abcdef"), "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(encoded(Codec::jsonb, "{}"), "017b7d");
}

TEST(BinaryFormat, WhatHasAnotherShapeStaysText) {
  for (const auto* text : {"", "1 ", "0x1", "99999999999999999999"}) EXPECT_FALSE(encoded(Codec::int8, text)) << text;
  EXPECT_FALSE(encoded(Codec::int2, "32768"));
  for (const auto* text : {"NaN", "Infinity", "-Infinity", "", "1e999"})
    EXPECT_FALSE(encoded(Codec::float8, text)) << text;
  for (const auto* text : {"NaN", "Infinity", "", "-", ".5", "1e5", "1.2.3"})
    EXPECT_FALSE(encoded(Codec::numeric, text)) << text;
  for (const auto* text : {"infinity", "0044-03-15 BC", "10000-01-01", ""})
    EXPECT_FALSE(encoded(Codec::date, text)) << text;
  for (const auto* text :
       {"infinity", "-infinity", "0044-03-15 12:00:00+00 BC", "2000-01-01 00:00:00+02", "12345-01-01 00:00:00"})
    EXPECT_FALSE(encoded(Codec::timestamp, text)) << text;
  EXPECT_FALSE(encoded(Codec::boolean, "true"));
  EXPECT_FALSE(encoded(Codec::bytea, "abc"));
  EXPECT_FALSE(encoded(Codec::bytea, "\\xabc"));
  EXPECT_FALSE(encoded(Codec::uuid, "01234567-89ab-cdef-0123-456789abcdeg"));
  EXPECT_FALSE(encoded(Codec::none, "1"));
}

TEST(BinaryFormat, TypesAreKnownByTheirCast) {
  EXPECT_EQ(binary_type("bigint").oid, 20u);
  EXPECT_EQ(binary_type("interval").codec, Codec::none);
  EXPECT_EQ(binary_type("public.text").codec, Codec::none);
}

TEST(BinaryFormat, Arrays) {
  BinaryArray array;
  array.start(binary_type("integer"));
  EXPECT_TRUE(array.add({wire::ValueKind::text, "7"}));
  EXPECT_TRUE(array.add(wire::Value{}));
  EXPECT_EQ(array.finish(), std::string_view("\0\0\0\1"
                                             "\0\0\0\1"
                                             "\0\0\0\27"
                                             "\0\0\0\2"
                                             "\0\0\0\1"
                                             "\0\0\0\4"
                                             "\0\0\0\7"
                                             "\377\377\377\377",
                                             32));
  array.start(kBinaryLsn);
  array.add(Lsn{1});
  EXPECT_EQ(array.finish().size(), 32u);
  array.start(binary_type("integer"));
  EXPECT_FALSE(array.add({wire::ValueKind::text, "x"}));
}

}  // namespace
}  // namespace pgbaton::apply
