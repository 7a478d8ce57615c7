#include "cursor.hpp"

#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include <string>

namespace pgbaton::wire {

namespace {

std::string printable(int type) {
  return type > 0x20 && type < 0x7f ? fmt::format("'{}'", static_cast<char>(type)) : fmt::format("0x{:02X}", type);
}

std::string_view frame_name(char type) {
  switch (type) {
    case 'w':
      return "XLogData";
    case 'k':
      return "Primary Keepalive";
  }
  return {};
}

std::string_view noun(Grammar grammar) {
  switch (grammar) {
    case Grammar::pgoutput:
      return "pgoutput message";
    case Grammar::replication_frame:
      return "replication frame";
    case Grammar::peeked_row:
      return "row of a peek";
  }
  return {};
}

// "pgoutput message 'R' (Relation)"; `type` is a byte, or negative while it is not known.
std::string subject(Grammar grammar, int type) {
  const std::string_view what = noun(grammar);
  if (type < 0) return std::string(what);
  const auto letter = static_cast<char>(type);
  const std::string_view name = grammar == Grammar::replication_frame ? frame_name(letter) : message_name(letter);
  return name.empty() ? fmt::format("{} {}", what, printable(type))
                      : fmt::format("{} {} ({})", what, printable(type), name);
}

}  // namespace

std::string_view message_name(char type) {
  switch (type) {
    case 'B':
      return "Begin";
    case 'C':
      return "Commit";
    case 'O':
      return "Origin";
    case 'R':
      return "Relation";
    case 'Y':
      return "Type";
    case 'I':
      return "Insert";
    case 'U':
      return "Update";
    case 'D':
      return "Delete";
    case 'T':
      return "Truncate";
    case 'M':
      return "Message";
    case 'S':
      return "Stream Start";
    case 'E':
      return "Stream Stop";
    case 'c':
      return "Stream Commit";
    case 'A':
      return "Stream Abort";
    case 'b':
      return "Begin Prepare";
    case 'P':
      return "Prepare";
    case 'K':
      return "Commit Prepared";
    case 'r':
      return "Rollback Prepared";
    case 'p':
      return "Stream Prepare";
  }
  return {};
}

void Cursor::fail(const char* expected) const {
  throw Error(ErrorKind::failed, fmt::format("{}, offset {} of {} bytes: expected {}", subject(grammar_, type_),
                                             offset_, bytes_.size(), expected))
      .side(Side::source)
      .action(Action::bug)
      .hint(
          "Nothing of this transaction was applied. Check that the source is an unmodified PostgreSQL 12 to 18 reached "
          "without a proxy that rewrites the stream, and report this line with the server's version.");
}

void Cursor::fail_before(std::size_t field_bytes, const char* expected) {
  offset_ -= field_bytes;
  fail(expected);
}

}  // namespace pgbaton::wire
