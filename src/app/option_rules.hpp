// Between options.cpp and command_line.cpp.
#pragma once
#include <string_view>

namespace pgbaton::app {

struct Command;

// Throws Error(usage) when the option belongs to other commands than this one.
void refuse_misplaced_option(std::string_view name, const Command& command);

}  // namespace pgbaton::app
