// Values in the server's binary form, which it reads faster than text: array parameters of unnest(), rows of COPY.
// Pure functions of bytes, from the text that the source's output functions wrote under the pinned settings (DateStyle
// ISO, TimeZone UTC, bytea_output hex).
//
//   array:  Int32 dimensions = 1, Int32 has NULLs, Int32 element's oid, Int32 count, Int32 lower bound = 1,
//   value{count} copy:   signature, Int32 flags = 0, Int32 extension = 0, (Int16 count, value{count}){rows}, Int16 = -1
//   value:  Int32 size, Byte{size};  size -1: NULL
//
// Only types whose two forms are the same on every major have a codec, and only values in the one shape that their
// output function has: for everything else append_binary() says no, and the caller takes the text form. So nothing is
// interpreted here that the server might read differently.
#pragma once
#include <pgbaton/apply/table.hpp>
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/wire/value.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pgbaton::apply {

enum class Codec : unsigned char {
  none,  // goes as text
  text,  // the bytes themselves: text, character varying, bpchar, json
  int2,
  int4,
  int8,
  float4,
  float8,
  numeric,
  boolean,
  date,
  timestamp,  // with and without time zone
  uuid,
  bytea,
  jsonb,
  lsn,
};

struct BinaryType {
  Codec codec = Codec::none;
  std::uint32_t oid = 0;  // of the type, as an array's header wants it
};

// By the name that the type has in a cast (TargetColumn::cast_type). Domains and users' types have none.
BinaryType binary_type(std::string_view cast_type);
inline constexpr BinaryType kBinaryText{Codec::text, 25}, kBinaryLsn{Codec::lsn, 3220};

// Appends size and bytes of a value. False, and `out` as before: the text is not in the codec's one shape.
bool append_binary(std::string& out, Codec codec, const wire::Value& value);
void append_binary(std::string& out, Lsn lsn);

class BinaryArray {
 public:
  void start(BinaryType type);
  // False when the value has no binary form: the array is of no use then.
  bool add(const wire::Value& value);
  void add(Lsn lsn);
  std::string_view finish();

 private:
  BinaryType type_;
  std::string bytes_;
  std::uint32_t count_ = 0;
  bool has_nulls_ = false;
};

// Pieces of a binary COPY besides its values.
void append_copy_header(std::string& out);
void append_copy_row(std::string& out, std::size_t values);
void append_copy_end(std::string& out);

}  // namespace pgbaton::apply
