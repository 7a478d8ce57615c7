// The commands of the contract (DESIGN 8). A command is one file cmd_<name>.cpp and one row of the table in
// commands.cpp; its help text comes from the row.
#pragma once
#include <pgbaton/app/config.hpp>

#include <span>
#include <string_view>

namespace pgbaton::app {

struct Context;

struct Command {
  std::string_view name;
  unsigned use;                // its Use bit; 0 for a command that a later version brings
  std::string_view arguments;  // after the name in the usage line
  std::string_view summary;    // one line
  std::string_view description;
  std::string_view examples;
  int (*run)(Context& context);  // the exit code; null: not in this version yet
};

std::span<const Command> command_table();
const Command* find_command(std::string_view name);

// What --help and the manual page share.
std::string_view headline_before(std::string_view option);  // "" when none stands before it
struct ExitCode {
  int code;
  std::string_view summary, text;  // a few words; whole sentences
};
std::span<const ExitCode> exit_code_table();

int run_check(Context& context);
int run_clone(Context& context);
int run_follow(Context& context);
int run_status(Context& context);
int run_wait(Context& context);
int run_verify(Context& context);
int run_resync(Context& context);
int run_rebuild(Context& context);
int run_sequences(Context& context);
int run_finish(Context& context);
int run_drop(Context& context);

}  // namespace pgbaton::app
