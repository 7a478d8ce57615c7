// Column values as they come over the wire, in the text format of the pinned session settings.
#pragma once
#include <span>
#include <string_view>

namespace pgbaton::wire {

enum class ValueKind : unsigned char {
  null,       // 'n'
  unchanged,  // 'u': a TOASTed value that the source did not log. Not known here, and never NULL.
  text,       // 't'
  binary,     // 'b'
};

struct Value {
  ValueKind kind = ValueKind::null;
  std::string_view data;  // a view; its lifetime is that of the bytes it was decoded from
};

// In the column order of the relation message in force when the row was sent.
using Tuple = std::span<const Value>;

}  // namespace pgbaton::wire
