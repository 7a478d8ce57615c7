// Help is printed from the two tables; nothing about an option or a command is said twice.
#include <fmt/format.h>
#include <pgbaton/app/options.hpp>

#include <algorithm>
#include <array>
#include <ranges>

#include "cmd_switchover.hpp"
#include "command.hpp"
#include "layout.hpp"

namespace pgbaton::app {

namespace {

constexpr std::size_t kHelpColumn = 30;
constexpr std::size_t kWidth = 80;

// Headline before the option of this name, in the table's order.
struct Headline {
  std::string_view before, text;
};
constexpr std::array kHeadlines = {Headline{"config", "Connections"}, Headline{"follow", "What the command does"},
                                   Headline{"include-table", "What is copied"}, Headline{"jobs", "How it runs"},
                                   Headline{"log-level", "Output"}};

constexpr std::array kExitCodes = {
    ExitCode{0, "done", "Done."},
    ExitCode{1, "failed or interrupted: nothing is lost, run it again",
             "Failed or interrupted. Nothing is lost: run the same command again."},
    ExitCode{2, "usage or configuration, no such replica", "Usage or configuration, or there is no such replica."},
    ExitCode{3, "preflight found a blocker", "The preflight found a blocker, or the replica is not ready."},
    ExitCode{4, "slot or history gone: a new bootstrap is needed",
             "Slot or history gone: a new bootstrap is needed (clone --restart)."},
    ExitCode{5, "timed out", "Timed out; the message says what it waited for."},
    ExitCode{6, "differences found", "Differences found (with --repair: some remain)."},
    ExitCode{7, "another process holds the replica", "Another process holds the replica, or this one was fenced."},
    ExitCode{8, "schema drift or data the target rejects",
             "Schema drift, or data that the target rejects: a person must act."}};

// Filled up to kWidth, from column `indent` on.
std::string filled(std::string_view text, std::size_t indent = kHelpColumn) {
  std::string result;
  std::size_t column = indent;
  for (auto part : std::views::split(text, ' ')) {
    std::string_view word(part.begin(), part.end());
    if (column > indent && column + 1 + word.size() > kWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string option_lines(const OptionSpec& spec) {
  std::string left = fmt::format("  --{}{}{}", spec.name, spec.value.empty() ? "" : " ", spec.value);
  std::string text(spec.help);
  if (!spec.choices.empty()) {
    std::string choices(spec.choices);
    std::ranges::replace(choices, '|', ' ');
    text += fmt::format(" [{}]", choices);
  }
  if (left.size() + 2 > kHelpColumn) left += "\n" + std::string(kHelpColumn, ' ');
  return fmt::format("{:<{}}{}\n", left, left.find('\n') == std::string::npos ? kHelpColumn : 0, filled(text));
}

std::string section_line(const SettingSpec& spec) {
  return fmt::format("{:<{}}{}\n", fmt::format("  {}:", spec.name), kHelpColumn, filled(spec.help));
}

std::string options_text(unsigned use) {
  std::string result;
  std::string_view headline;
  for (const OptionSpec& spec : option_table()) {
    if (const auto here = headline_before(spec.name); !here.empty()) headline = here;
    if ((spec.used_by & use) == 0) continue;
    if (!headline.empty()) result += fmt::format("\n{}:\n", headline);
    headline = {};
    result += option_lines(spec);
  }
  return result;
}

std::string indented(std::string_view lines) {
  std::string result;
  for (auto line : std::views::split(lines, '\n'))
    result += "  " + std::string(std::string_view(line.begin(), line.end())) + "\n";
  return result;
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const ExitCode& row : kExitCodes) text += fmt::format("  {}  {}\n", row.code, row.summary);
  return text;
}

// Sentences stay where a line of the table ends with one; all else is filled up anew.
std::string paragraphs(std::string_view text) {
  std::string joined;
  for (const char c : text) joined += c == '\n' && !joined.ends_with('.') ? ' ' : c;
  return wrapped(joined, static_cast<int>(kWidth));
}

}  // namespace

std::string_view headline_before(std::string_view option) {
  const auto* found = std::ranges::find(kHeadlines, option, &Headline::before);
  return found == kHeadlines.end() ? std::string_view() : found->text;
}

std::span<const ExitCode> exit_code_table() {
  return kExitCodes;
}

std::string help_text() {
  std::string text =
      "pgbaton hands a PostgreSQL database over from a consistent snapshot to a live\nstream of changes.\n\n"
      "Usage: pgbaton COMMAND [--config FILE.yaml] [--source CONNINFO]\n"
      "               [--target CONNINFO] [--name NAME] [options]\n"
      "Options may stand before or after COMMAND; flags win over the environment, the\nenvironment over the file.\n\n"
      "Commands:\n";
  for (const Command& command : command_table())
    text += fmt::format("  {:<12}{}\n", command.name, filled(command.summary, 14));
  text += options_text(~0u);
  text += fmt::format("{:<{}}{}\n", "  -h, --help", kHelpColumn,
                      filled("this text, or with a command its own; also: pgbaton help [COMMAND]"));
  text += "  --version\n";
  text +=
      "\nDurations are 500ms, 120s, 5m, 2h (a bare number is seconds), sizes 64kB,\n256MB, 2GB. "
      "Passwords: better in ~/.pgpass or a service file than in a\nconnection string; they are never printed.\n\n";
  text += exit_codes_text();
  text +=
      "\nExamples:\n"
      "  pgbaton check  --source 'host=db1 dbname=shop' --target 'host=db2 dbname=shop'\n"
      "  pgbaton clone  --source 'host=db1 dbname=shop' --target 'host=db2 dbname=shop' --follow\n"
      "  pgbaton status --target 'host=db2 dbname=shop'\n"
      "  pgbaton finish --config shop.yaml\n";
  return text;
}

std::string help_text(std::string_view name) {
  const Command* command = find_command(name);
  if (command == nullptr) return help_text();
  auto text = wrapped(fmt::format("pgbaton {}: {}\n", command->name, command->summary), static_cast<int>(kWidth));
  text += fmt::format("\nUsage: pgbaton {}{}{} [options]\n", command->name, command->arguments.empty() ? "" : " ",
                      command->arguments);
  if (command->run == nullptr) return text + "\nThis command belongs to a later version; it ends with exit code 2.\n";
  text += "\n" + paragraphs(command->description);
  text += options_text(command->use);
  if (command->use == kSwitchover) {
    text +=
        "\nSection `switchover:` of the file (pgbaton.example.yaml, in scripts/ or share/doc/pgbaton, explains "
        "each):\n";
    for (const auto& spec : switchover_settings()) text += section_line(spec);
  }
  text += fmt::format("\n{}\nExamples:\n{}", exit_codes_text(), indented(command->examples));
  return text;
}

}  // namespace pgbaton::app
