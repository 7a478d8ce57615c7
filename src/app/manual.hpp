// The manual page and the completions of shells, printed from the tables of commands and options while building
// (manual_main.cpp): they cannot know less than --help.
#pragma once
#include <string>
#include <string_view>

namespace pgbaton::app {

std::string man_page();  // pgbaton(1), in the macros of man(7)
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

// A short description for a list of completions: the first clause of a help text.
std::string first_clause(std::string_view help);

}  // namespace pgbaton::app
