// The command line by CLI11. Every option is an option of the root and the subcommands fall through to it, so an option
// means the same before and after COMMAND. CLI11's own messages are not shown where they would repeat a value: a value
// may be a connection string with a password.
#include <fmt/format.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/endpoint.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "command.hpp"
#include "option_rules.hpp"

namespace pgbaton::app {

namespace {

Error usage(const std::string& message, std::string_view hint) {
  return Error(ErrorKind::usage, message).hint(hint);
}

using Given = std::map<std::string_view, std::vector<std::string>>;

bool is_flag(const OptionSpec& spec) {
  return spec.field.index() == 0;
}

struct Parser {
  CLI::App app{"pgbaton"};
  std::map<std::string_view, CLI::Option*> options;
  std::map<std::string_view, std::vector<std::string>> values;  // CLI11 writes here; node addresses are stable
  bool help = false, version = false;

  Parser() {
    app.set_help_flag();
    app.add_flag("-h,--help", help);
    app.add_flag("--version", version);
    app.allow_extras();
    app.require_subcommand(0, 1);
    for (const OptionSpec& spec : option_table()) add(spec);
    for (const Command& command : command_table()) {
      auto* sub = app.add_subcommand(std::string(command.name));
      sub->set_help_flag();
      sub->fallthrough();
      sub->allow_extras();
    }
  }
  void add(const OptionSpec& spec) {
    std::string flag = "--" + std::string(spec.name);
    if (is_flag(spec)) {
      options[spec.name] = app.add_flag(flag);
      return;
    }
    auto* option = app.add_option(flag, values[spec.name]);
    option->type_size(1)->allow_extra_args(false);
    // One value for each time the option is given, as often as the user likes; count is checked below. Only this limit
    // makes CLI11 heed the line above: with another one the words behind a value are taken for more values.
    option->expected(1, CLI::detail::expected_max_vector_size);
    options[spec.name] = option;
  }
};

std::string command_names() {
  std::string list;
  for (const Command& command : command_table()) list += (list.empty() ? "" : ", ") + std::string(command.name);
  return list;
}

// A stray argument may be a connection string whose flag was forgotten.
std::string shown(const std::string& argument) {
  return looks_like_conninfo(argument) ? "a connection string or the like" : argument;
}

[[noreturn]] void refuse_command(const std::string& word) {
  std::vector<std::string_view> names;
  for (const Command& command : command_table()) names.push_back(command.name);
  std::string near = closest(word, names);
  throw usage(fmt::format("there is no command \"{}\"", word),
              near.empty() ? "Commands: " + command_names() + "." : fmt::format("Did you mean {}?", near));
}

// pgbaton help [COMMAND]
Invocation help_on(const std::vector<std::string>& arguments) {
  Invocation invocation;
  invocation.help = true;
  if (arguments.size() > 2) throw usage("help takes one command", "Write pgbaton help clone.");
  if (arguments.size() < 2 || arguments[1].starts_with("-")) return invocation;
  if (find_command(arguments[1]) == nullptr) refuse_command(arguments[1]);
  invocation.options.command = arguments[1];
  return invocation;
}

[[noreturn]] void refuse_extra(const std::vector<std::string>& extras, bool have_command) {
  auto option = std::ranges::find_if(extras, [](const std::string& word) { return word.starts_with("-"); });
  if (option == extras.end() || (option != extras.begin() && !have_command)) {
    const std::string& word = extras.front();
    if (have_command || shown(word) != word)
      throw usage(fmt::format("unexpected argument: {}", shown(word)),
                  "Connection strings follow --source and --target; pgbaton --help lists the options.");
    refuse_command(word);
  }
  std::string flag = option->substr(0, option->find('='));
  std::vector<std::string_view> names;
  for (const OptionSpec& spec : option_table()) names.push_back(spec.name);
  std::string near = closest(std::string_view(flag).substr(std::min(flag.find_first_not_of('-'), flag.size())), names);
  throw usage(fmt::format("there is no option {}", flag),
              near.empty() ? "pgbaton --help lists the options." : fmt::format("Did you mean --{}?", near));
}

Given collect(Parser& parser) {
  Given given;
  for (const OptionSpec& spec : option_table()) {
    const CLI::Option* option = parser.options.at(spec.name);
    if (option->count() == 0) continue;
    if (is_flag(spec)) {
      given[spec.name] = {option->results().back()};
      continue;
    }
    given[spec.name] = parser.values.at(spec.name);
    if (!is_list(spec) && given[spec.name].size() > 1)
      throw usage(fmt::format("--{} was given {} times", spec.name, given[spec.name].size()), "Give it once.");
  }
  return given;
}

// CLI11 says "--source: 1 required TEXT missing".
[[noreturn]] void refuse_without_value(std::string_view text) {
  const auto flag = text.substr(0, text.find(':'));
  const OptionSpec* spec = flag.starts_with("--") ? find_option(flag.substr(2)) : nullptr;
  if (spec == nullptr) throw usage(std::string(text), "pgbaton --help lists the options.");
  throw usage(fmt::format("--{}: a value is missing", spec->name),
              fmt::format("Write --{} {}.", spec->name, spec->value));
}

void parse_words(Parser& parser, std::vector<std::string> words) {
  std::ranges::reverse(words);  // CLI11 takes them from the back
  try {
    parser.app.parse(std::move(words));
  } catch (const CLI::ArgumentMismatch& error) {
    refuse_without_value(error.what());
  } catch (const CLI::ParseError& error) {
    // Its text names the option; the value, which may be secret, stands only in conversion errors, and every option
    // here is text for CLI11.
    throw usage(error.what(), "pgbaton --help lists the options.");
  }
}

void apply_environment(Options& options, const Environment& environment) {
  const auto read = [&](const std::string& variable, const char* name, std::string& field) {
    auto value = environment(variable);
    if (!value || value->empty()) return;
    field = *value;
    options.file_lines.erase(name);
  };
  read("PGBATON_SOURCE", "source", options.source);
  read("PGBATON_TARGET", "target", options.target);
}

}  // namespace

Invocation parse_invocation(const std::vector<std::string>& arguments, const Environment& environment) {
  if (!arguments.empty() && arguments.front() == "help") return help_on(arguments);
  Parser parser;
  auto words = arguments;
  std::ranges::replace(words, "--undo", "--mode=undo");  // as scripts know it
  parse_words(parser, std::move(words));
  Invocation invocation;
  Options& options = invocation.options;
  invocation.help = parser.help;
  invocation.version = parser.version;
  auto chosen = parser.app.get_subcommands();
  if (!chosen.empty()) options.command = chosen.front()->get_name();
  if (invocation.help || invocation.version) return invocation;

  const Command* command = find_command(options.command);
  if (command != nullptr && command->run == nullptr)
    throw usage(fmt::format("{}: not in this version yet", command->name),
                "pgbaton --help lists what this version does.");
  if (auto extras = parser.app.remaining(true); !extras.empty()) {
    const bool flag = std::ranges::any_of(extras, [](const std::string& word) { return word.starts_with("-"); });
    if (command == nullptr || command->use != kResync || flag) refuse_extra(extras, command != nullptr);
    options.tables = std::move(extras);
  }
  if (command == nullptr) throw usage("a command is missing", "Commands: " + command_names() + ".");

  Given given = collect(parser);
  for (const auto& [name, values] : given) refuse_misplaced_option(name, *command);
  if (auto file = given.find("config"); file != given.end()) load_config_file(file->second.back(), options);
  apply_environment(options, environment);
  for (const auto& [name, values] : given) {
    assign(*find_option(name), options, values, "--" + std::string(name));
    options.file_lines.erase(std::string(name));
  }
  try {
    validate(options);
  } catch (Error& error) {
    add_origin(error, options);
    throw;
  }
  return invocation;
}

}  // namespace pgbaton::app
