#include "binary_format.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <utility>

namespace pgbaton::apply {

namespace {

constexpr std::size_t kArrayHeaderBytes = 20;
constexpr int kDaysFrom1970To2000 = 10'957;
constexpr std::int64_t kUsPerSecond = 1'000'000, kSecondsPerDay = 86'400;

template <typename Int>
void append_number(std::string& out, Int value) {
  using Unsigned = std::make_unsigned_t<Int>;
  const auto bits = static_cast<Unsigned>(value);
  std::array<char, sizeof(Int)> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(bits >> 8 * (bytes.size() - 1 - i) & Unsigned{0xff});
  out.append(bytes.data(), bytes.size());
}

void put_number(std::string& out, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<char>(value >> 8 * (3 - i) & 0xff);
}

template <typename Int>
void append_sized(std::string& out, Int value) {
  append_number(out, static_cast<std::int32_t>(sizeof(Int)));
  append_number(out, value);
}

template <typename Int>
bool append_integer(std::string& out, std::string_view text) {
  Int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return false;
  append_sized(out, value);
  return true;
}

// All of `text`, digits only.
std::optional<int> digits(std::string_view text) {
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

// Days since 2000-01-01 of YYYY-MM-DD in the Gregorian calendar; the server wrote it, so day and month are valid.
std::optional<std::int32_t> days(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = digits(text.substr(0, 4)), month = digits(text.substr(5, 2)), day = digits(text.substr(8, 2));
  if (!year || !month || !day) return std::nullopt;
  // Years begin in March, so that the leap day is a year's last (Howard Hinnant's civil calendar).
  const int y = *month <= 2 ? *year - 1 : *year;
  const int era = (y >= 0 ? y : y - 399) / 400;
  const int year_of_era = y - era * 400;
  const int day_of_year = (153 * (*month > 2 ? *month - 3 : *month + 9) + 2) / 5 + *day - 1;
  const int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146'097 + day_of_era - 719'468 - kDaysFrom1970To2000;
}

// Microseconds of `.123456`, one to six digits behind the point.
std::optional<std::int64_t> fraction(std::string_view text) {
  if (text.empty()) return 0;
  if (text.size() < 2 || text.size() > 7 || text[0] != '.') return std::nullopt;
  auto value = digits(text.substr(1));
  if (!value) return std::nullopt;
  std::int64_t microseconds = *value;
  for (std::size_t i = text.size(); i < 7; ++i) microseconds *= 10;
  return microseconds;
}

// YYYY-MM-DD HH:MM:SS[.ffffff][+00], in microseconds since 2000-01-01.
std::optional<std::int64_t> moment(std::string_view text) {
  if (text.ends_with("+00")) text.remove_suffix(3);
  if (text.size() < 19 || text[10] != ' ' || text[13] != ':' || text[16] != ':') return std::nullopt;
  const auto day = days(text.substr(0, 10));
  const auto hour = digits(text.substr(11, 2)), minute = digits(text.substr(14, 2)),
             second = digits(text.substr(17, 2));
  const auto rest = fraction(text.substr(19));
  if (!day || !hour || !minute || !second || !rest) return std::nullopt;
  const std::int64_t seconds = *day * kSecondsPerDay + *hour * 3600 + *minute * 60 + *second;
  return seconds * kUsPerSecond + *rest;
}

// The server prints the shortest text that reads back as the same number. Words (NaN, Infinity) stay text.
template <typename Float, typename Bits>
bool append_float(std::string& out, std::string_view text) {
  Float value = 0;
  if (text.empty() || text.find_first_not_of("0123456789+-.e") != text.npos) return false;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return false;
  append_sized(out, std::bit_cast<Bits>(value));
  return true;
}

// Groups of four decimal digits, counted from the point in both directions.
class NumericDigits {
 public:
  explicit NumericDigits(std::string& out) : out_(out) {}
  // A group that begins a number and is 0 is not stored, but lowers the weight of the first that is.
  void add(int group) {
    if (count_ == 0 && group == 0) {
      ++skipped_;
      return;
    }
    append_number(out_, static_cast<std::int16_t>(group));
    ++count_;
    if (group != 0) significant_ = count_;
  }
  void trim() { out_.resize(out_.size() - 2 * static_cast<std::size_t>(count_ - significant_)); }
  int count() const { return significant_; }
  int skipped() const { return skipped_; }

 private:
  std::string& out_;
  int count_ = 0, significant_ = 0, skipped_ = 0;
};

// numeric: Int16 groups, Int16 weight of the first, Int16 sign, Int16 digits shown behind the point, Int16{groups}
bool append_numeric(std::string& out, std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  const auto point = text.find('.');
  const auto whole = text.substr(0, point);
  auto behind = point == text.npos ? std::string_view() : text.substr(point + 1);
  if (whole.empty() || text.find_first_not_of("0123456789.") != text.npos || behind.find('.') != behind.npos)
    return false;
  const auto scale = static_cast<std::int16_t>(behind.size());
  const std::size_t size_at = out.size();
  out.append(12, '\0');
  NumericDigits groups(out);
  const std::size_t first = (whole.size() + 3) % 4 + 1;
  groups.add(*digits(whole.substr(0, first)));
  for (std::size_t at = first; at < whole.size(); at += 4) groups.add(*digits(whole.substr(at, 4)));
  for (; !behind.empty(); behind.remove_prefix(std::min<std::size_t>(4, behind.size()))) {
    int group = *digits(behind.substr(0, 4));
    for (std::size_t i = behind.size(); i < 4; ++i) group *= 10;
    groups.add(group);
  }
  groups.trim();
  const bool zero = groups.count() == 0;
  const int weight = zero ? 0 : static_cast<int>((whole.size() + 3) / 4) - 1 - groups.skipped();
  std::string header;
  append_number(header, static_cast<std::int32_t>(out.size() - size_at - 4));
  append_number(header, static_cast<std::int16_t>(groups.count()));
  append_number(header, static_cast<std::int16_t>(weight));
  append_number(header, static_cast<std::int16_t>(negative && !zero ? 0x4000 : 0));
  append_number(header, scale);
  out.replace(size_at, header.size(), header);
  return true;
}

std::optional<int> nibble(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

bool append_hex(std::string& out, std::string_view text) {
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    const auto high = nibble(text[i]), low = nibble(text[i + 1]);
    if (!high || !low) return false;
    out += static_cast<char>(*high << 4 | *low);
  }
  return text.size() % 2 == 0;
}

bool append_uuid(std::string& out, std::string_view text) {
  if (text.size() != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') return false;
  append_number(out, std::int32_t{16});
  return append_hex(out, text.substr(0, 8)) && append_hex(out, text.substr(9, 4)) &&
         append_hex(out, text.substr(14, 4)) && append_hex(out, text.substr(19, 4)) && append_hex(out, text.substr(24));
}

bool append_bytea(std::string& out, std::string_view text) {
  if (!text.starts_with("\\x")) return false;
  append_number(out, static_cast<std::int32_t>((text.size() - 2) / 2));
  return append_hex(out, text.substr(2));
}

void append_text(std::string& out, std::string_view text) {
  append_number(out, static_cast<std::int32_t>(text.size()));
  out += text;
}

template <typename Int>
bool append_if_known(std::string& out, std::optional<Int> value) {
  if (value) append_sized(out, *value);
  return value.has_value();
}

bool append_value(std::string& out, Codec codec, std::string_view text) {
  switch (codec) {
    case Codec::none:
      return false;
    case Codec::text:
      append_text(out, text);
      return true;
    case Codec::int2:
      return append_integer<std::int16_t>(out, text);
    case Codec::int4:
      return append_integer<std::int32_t>(out, text);
    case Codec::int8:
      return append_integer<std::int64_t>(out, text);
    case Codec::float4:
      return append_float<float, std::int32_t>(out, text);
    case Codec::float8:
      return append_float<double, std::int64_t>(out, text);
    case Codec::numeric:
      return append_numeric(out, text);
    case Codec::boolean:
      if (text != "t" && text != "f") return false;
      append_number(out, std::int32_t{1});
      out += text == "t" ? '\1' : '\0';
      return true;
    case Codec::date:
      return append_if_known(out, days(text));
    case Codec::timestamp:
      return append_if_known(out, moment(text));
    case Codec::uuid:
      return append_uuid(out, text);
    case Codec::bytea:
      return append_bytea(out, text);
    case Codec::jsonb:
      append_number(out, static_cast<std::int32_t>(text.size() + 1));
      out += '\1';  // version of the format
      out += text;
      return true;
    case Codec::lsn:
      if (const auto lsn = parse_lsn(text)) {
        append_binary(out, *lsn);
        return true;
      }
      return false;
  }
  return false;
}

}  // namespace

BinaryType binary_type(std::string_view cast_type) {
  static constexpr std::array<std::pair<std::string_view, BinaryType>, 18> kTypes{{
      {"text", kBinaryText},
      {"character varying", {Codec::text, 1043}},
      {"bpchar", {Codec::text, 1042}},
      {"json", {Codec::text, 114}},
      {"smallint", {Codec::int2, 21}},
      {"integer", {Codec::int4, 23}},
      {"bigint", {Codec::int8, 20}},
      {"real", {Codec::float4, 700}},
      {"double precision", {Codec::float8, 701}},
      {"numeric", {Codec::numeric, 1700}},
      {"boolean", {Codec::boolean, 16}},
      {"date", {Codec::date, 1082}},
      {"timestamp without time zone", {Codec::timestamp, 1114}},
      {"timestamp with time zone", {Codec::timestamp, 1184}},
      {"uuid", {Codec::uuid, 2950}},
      {"bytea", {Codec::bytea, 17}},
      {"jsonb", {Codec::jsonb, 3802}},
      {"pg_lsn", kBinaryLsn},
  }};
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& t) { return t.first == cast_type; });
  return found == kTypes.end() ? BinaryType{} : found->second;
}

bool append_binary(std::string& out, Codec codec, const wire::Value& value) {
  if (value.kind == wire::ValueKind::null) {
    append_number(out, std::int32_t{-1});
    return true;
  }
  if (value.kind != wire::ValueKind::text) return false;
  const std::size_t before = out.size();
  if (append_value(out, codec, value.data)) return true;
  out.resize(before);
  return false;
}

void append_binary(std::string& out, Lsn lsn) {
  append_sized(out, lsn.value);
}

void BinaryArray::start(BinaryType type) {
  type_ = type;
  count_ = 0;
  has_nulls_ = false;
  bytes_.assign(kArrayHeaderBytes, '\0');
}

bool BinaryArray::add(const wire::Value& value) {
  ++count_;
  has_nulls_ = has_nulls_ || value.kind == wire::ValueKind::null;
  return append_binary(bytes_, type_.codec, value);
}

void BinaryArray::add(Lsn lsn) {
  ++count_;
  append_binary(bytes_, lsn);
}

std::string_view BinaryArray::finish() {
  const std::array<std::uint32_t, 5> header{1, has_nulls_ ? 1u : 0u, type_.oid, count_, 1};
  for (std::size_t i = 0; i < header.size(); ++i) put_number(bytes_, 4 * i, header[i]);
  return bytes_;
}

void append_copy_header(std::string& out) {
  out += std::string_view("PGCOPY\n\377\r\n\0", 11);
  out.append(8, '\0');
}

void append_copy_row(std::string& out, std::size_t values) {
  append_number(out, static_cast<std::int16_t>(values));
}

void append_copy_end(std::string& out) {
  append_number(out, std::int16_t{-1});
}

}  // namespace pgbaton::apply
