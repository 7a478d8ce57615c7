// Reads network-order fields out of a byte string. Every read is bounds-checked before it happens; a failure throws
// Error(failed, action bug) that names the message type, the offset in the message and what was expected there.
// Nothing is ever made up for missing bytes.
#pragma once
#include <pgbaton/base/lsn.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace pgbaton::wire {

// Whose grammar the bytes follow; begins the sentence of an error.
enum class Grammar { pgoutput, replication_frame, peeked_row };

class Cursor {
 public:
  Cursor(Grammar grammar, std::span<const std::byte> bytes) : grammar_(grammar), bytes_(bytes) {}

  std::size_t left() const { return bytes_.size() - offset_; }
  std::size_t offset() const { return offset_; }

  // The first byte, which says what follows and is part of every later error.
  char message_type() {
    const std::uint8_t type = u8("a message type");
    type_ = type;
    return static_cast<char>(type);
  }
  std::uint8_t u8(const char* what) { return static_cast<std::uint8_t>(number(1, what)); }
  char letter(const char* what) { return static_cast<char>(u8(what)); }
  std::uint32_t u32(const char* what) { return static_cast<std::uint32_t>(number(4, what)); }
  std::int16_t i16(const char* what) { return static_cast<std::int16_t>(number(2, what)); }
  std::int32_t i32(const char* what) { return static_cast<std::int32_t>(number(4, what)); }
  std::int64_t i64(const char* what) { return static_cast<std::int64_t>(number(8, what)); }
  Lsn lsn(const char* what) { return Lsn{number(8, what)}; }

  bool flag(const char* what) {
    const auto value = u8(what);
    if (value > 1) fail_before(1, what);
    return value == 1;
  }
  // A count of elements that need at least `least_bytes` each: checked against what is left before anything is
  // allocated for them, so that a broken count costs no memory.
  std::size_t count(std::int32_t value, std::size_t field_bytes, std::size_t least_bytes, const char* what) {
    if (value < 0 || static_cast<std::size_t>(value) > left() / least_bytes) fail_before(field_bytes, what);
    return static_cast<std::size_t>(value);
  }
  // Up to a NUL, which is consumed and not part of the result.
  std::string_view string(const char* what) {
    const char* first = text_at(offset_);
    const void* nul = left() == 0 ? nullptr : std::memchr(first, 0, left());
    if (nul == nullptr) fail(what);
    const auto size = static_cast<std::size_t>(static_cast<const char*>(nul) - first);
    offset_ += size + 1;
    return {first, size};
  }
  // Int32 length, then so many bytes.
  std::string_view counted(const char* what) {
    const std::size_t size = count(i32(what), 4, 1, what);
    const std::string_view data{text_at(offset_), size};
    offset_ += size;
    return data;
  }
  std::span<const std::byte> rest() {
    const auto tail = bytes_.subspan(offset_);
    offset_ = bytes_.size();
    return tail;
  }
  void end() const {
    if (left() != 0) fail("the end of the message");
  }

  [[noreturn]] void fail(const char* expected) const;
  // For a field of `field_bytes` bytes that was just read and holds something it must not.
  [[noreturn]] void fail_before(std::size_t field_bytes, const char* expected);

 private:
  static constexpr int kNoType = -1;

  const char* text_at(std::size_t at) const { return reinterpret_cast<const char*>(bytes_.data()) + at; }

  std::uint64_t number(std::size_t size, const char* what) {
    if (left() < size) fail(what);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes_[offset_ + i]);
    offset_ += size;
    return value;
  }

  Grammar grammar_;
  int type_ = kNoType;  // the type's byte once it is read
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
};

// "Relation" for 'R', of any protocol version; empty for a letter that is in none.
std::string_view message_name(char type);

}  // namespace pgbaton::wire
