// What a server or libpq said, taken apart.
#pragma once
#include <pgbaton/base/error.hpp>

namespace pgbaton::pg {

// "ERROR:  text\nDETAIL:  more\n…" on one line: "text (more)".
std::string one_line(std::string_view message);

// "(id)=(7)" out of "Key (id)=(7) already exists."; empty when there is no key in it.
std::string key_of_detail(std::string_view detail);

// What could not be done: "connecting (apply)", and for those that come first in a command, why.
std::string connecting(std::string_view role);

// A failed connection attempt as libpq describes it with PQERRORS_VERBOSE ("FATAL:  28P01: password authentication
// failed …"). libpq 15 has no other way to learn the SQLSTATE, and the text may be in any language.
Error connect_error(std::string_view message, Side side, std::string_view role);

}  // namespace pgbaton::pg
