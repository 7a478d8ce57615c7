#include "row_hash.hpp"

#include <fmt/format.h>
#include <pgbaton/base/name.hpp>

namespace pgbaton::verify {
namespace {

std::string md5_hash(const std::string& text) {
  return fmt::format("('x' || substr(md5({}), 1, 16))::bit(64)::int8", text);
}

std::string text_hash(const std::string& text, std::size_t number, HashStyle style) {
  switch (style) {
    case HashStyle::native:
      return fmt::format("hashtextextended({}, {})", text, number);
    case HashStyle::portable:
      return md5_hash(fmt::format("convert_to('{}:' || {}, 'UTF8')", number, text));
  }
  return {};
}

// "char" prints its upper half differently since 16.
std::string stable_text(const catalog::Column& column) {
  if (column.type != QualifiedName{"pg_catalog", "char"}) return column_text(column);
  return fmt::format("textin(int4out({}::int4))", quote_identifier(column.name));
}

constexpr std::size_t kUpperHalf = 1'000'000'000;  // beyond any column's number

// A call for types whose equal values have one spelling; "" for the others.
std::string native_call(const catalog::Column& column, std::size_t number) {
  if (column.type.schema != "pg_catalog") return {};
  const auto name = quote_identifier(column.name);
  const auto& type = column.type.name;
  if (type == "int2" || type == "int4") return fmt::format("hashint8extended({}::int8, {})", name, number);
  // hashint8extended() and timestamp_hash_extended() fold the two halves into one (hashfunc.c, so that equal int4 and
  // int8 agree): 1 and 4294967296 are the same to them. The upper half is told apart by a call of its own.
  if (type == "int8")
    return fmt::format("(hashint8extended({0}, {1}) # hashint8extended({0} >> 32, {2}))", name, number,
                       number + kUpperHalf);
  if (type == "bool" || type == "char") return fmt::format("hashint8extended({}::int4, {})", name, number);
  // As text it would be trimmed by a slow function first; trailing blanks say nothing in either.
  if (type == "bpchar") return fmt::format("hashbpcharextended({} COLLATE \"C\", {})", name, number);
  if (type == "uuid") return fmt::format("uuid_hash_extended({}, {})", name, number);
  return {};
}

}  // namespace

HashStyle choose_hash_style(pg::Connection& source, pg::Connection& target) {
  constexpr const char* kProbe =
      "SELECT current_setting('server_encoding'), hashbpcharextended('x'::bpchar COLLATE \"C\", 7), "
      "hashtextextended('pgbaton' COLLATE \"C\", 7),"
      " hashint8extended(-123456789012, 7),"
      " uuid_hash_extended('00112233-4455-6677-8899-aabbccddeeff', 7)";
  const auto here = source.exec(kProbe), there = target.exec(kProbe);
  for (int i = 0; i < here.columns(); ++i)
    if (here.value(0, i) != there.value(0, i)) return HashStyle::portable;
  return HashStyle::native;
}

std::string column_text(const catalog::Column& column, std::string_view prefix) {
  const auto name = std::string(prefix) + quote_identifier(column.name);
  return fmt::format("(({}) COLLATE \"C\")", as_text(name, column.has_own_text_cast));
}

std::string column_hash(const catalog::Column& column, bool same_type, std::size_t number, HashStyle style) {
  std::string hash;
  if (same_type && style == HashStyle::native) hash = native_call(column, number);
  if (hash.empty()) hash = text_hash(stable_text(column), number, style);
  return fmt::format("coalesce({}, {})", hash, 1'000'003 * (number + 1));
}

std::string combine(const std::vector<std::string>& hashes, std::uint32_t seed, HashStyle style) {
  if (hashes.empty()) return "0::int8";
  const auto together = fmt::format("{}", fmt::join(hashes, " # "));
  switch (style) {
    case HashStyle::native:  // as text: hashint8extended() would fold it to 32 bits
      return fmt::format("hashtextextended(textin(int8out({})) COLLATE \"C\", {})", together, seed);
    case HashStyle::portable:
      return md5_hash(fmt::format("'{}:' || textin(int8out({}))", seed, together));
  }
  return {};
}

}  // namespace pgbaton::verify
