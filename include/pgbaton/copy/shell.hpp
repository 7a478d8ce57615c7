// Commands of the user, which sh will run later.
#pragma once
#include <string>

namespace pgbaton::copy {

// Why sh could not run it, as far as can be told without doing so: it cannot be parsed, or its first word is no
// program. "" otherwise, and wherever there is doubt.
std::string shell_complaint(const std::string& command);

}  // namespace pgbaton::copy
