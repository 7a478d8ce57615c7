#include <fmt/format.h>
#include <pgbaton/app/options.hpp>

#include <algorithm>
#include <ranges>

#include "command.hpp"
#include "manual.hpp"

namespace pgbaton::app {

namespace {

std::string replaced(std::string_view text, char from, std::string_view to) {
  std::string result;
  for (char c : text)
    if (c == from)
      result += to;
    else
      result += c;
  return result;
}

// What stands in single quotes of a shell.
std::string quoted(std::string_view text) {
  return "'" + replaced(text, '\'', "'\\''") + "'";
}

bool takes_file(const OptionSpec& spec) {
  return spec.value.starts_with("FILE") || spec.value == "PATH";
}

std::string choices_of(const OptionSpec& spec) {
  return replaced(spec.choices, '|', " ");
}

std::vector<const Command*> commands() {
  std::vector<const Command*> result;
  for (const Command& command : command_table())
    if (command.run != nullptr) result.push_back(&command);
  return result;
}

template <typename Wanted>
std::string flags(std::string_view between, Wanted&& wanted) {
  std::string list;
  for (const OptionSpec& spec : option_table())
    if (wanted(spec)) list += fmt::format("{}--{}", list.empty() ? "" : between, spec.name);
  return list;
}

std::string command_names(std::string_view between) {
  std::string list;
  for (const Command* command : commands()) list += (list.empty() ? "" : between), list += command->name;
  return list;
}

std::string bash_values() {
  std::string text;
  for (const OptionSpec& spec : option_table())
    if (!spec.choices.empty())
      text +=
          fmt::format("    --{}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n", spec.name, choices_of(spec));
  const auto files = flags("|", [](const auto& spec) { return takes_file(spec); });
  const auto others =
      flags("|", [](const auto& spec) { return !spec.value.empty() && spec.choices.empty() && !takes_file(spec); });
  text += fmt::format("    {})\n      compopt -o filenames\n      COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
                      files);
  return text + fmt::format("    {}) return ;;\n", others);
}

std::string zsh_option(const OptionSpec& spec) {
  std::string text = fmt::format("--{}", spec.name);
  if (is_list(spec)) text = "*" + text;
  auto described = first_clause(spec.help);
  for (char special : {'[', ']', ':'}) described = replaced(described, special, std::string("\\") + special);
  text += fmt::format("[{}]", described);
  if (spec.value.empty()) return quoted(text);
  const auto action =
      takes_file(spec) ? std::string("_files") : (spec.choices.empty() ? " " : "(" + choices_of(spec) + ")");
  return quoted(fmt::format("{}:{}:{}", text, spec.value, action));
}

}  // namespace

std::string first_clause(std::string_view help) {
  const auto end = std::min({help.find(';'), help.find(" ("), help.find(", or "), help.size()});
  return std::string(help.substr(0, end));
}

// COMP_WORDS breaks "--until=x" into three words, whatever bash-completion is there; so it is met here.
std::string bash_completion() {
  std::string text =
      "# bash completion of pgbaton. Generated from the tables of --help; do not edit.\n"
      "_pgbaton() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' i\n"
      "  COMPREPLY=()\n"
      "  if [[ $cur == '=' ]]; then cur=''; elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n";
  const auto with_value = flags("|", [](const auto& spec) { return !spec.value.empty(); });
  text += fmt::format(
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${{COMP_WORDS[i]}} in\n"
      "      {})\n"
      "        if [[ ${{COMP_WORDS[i + 1]}} == '=' ]]; then ((i++)); fi\n"
      "        ((i++)) ;;\n"
      "      -*) ;;\n"
      "      *) command=${{COMP_WORDS[i]}}; break ;;\n"
      "    esac\n"
      "  done\n"
      "  case $prev in\n{}  esac\n",
      with_value, bash_values());
  text += fmt::format(
      "  if [[ $cur != -* && ( -z $command || $command == help && $prev == help ) ]]; then\n"
      "    COMPREPLY=($(compgen -W '{} help' -- \"$cur\"))\n    return\n  fi\n  local options=''\n  case $command in\n",
      command_names(" "));
  for (const Command* command : commands())
    text += fmt::format("    {}) options='{} --help' ;;\n", command->name,
                        flags(" ", [&](const auto& spec) { return (spec.used_by & command->use) != 0; }));
  text += fmt::format("    '') options='{} --help --version' ;;\n",
                      flags(" ", [](const auto& spec) { return spec.used_by == kEverywhere; }));
  text +=
      "  esac\n  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")); fi\n}\n"
      "complete -F _pgbaton pgbaton\n";
  return text;
}

std::string zsh_completion() {
  std::string text =
      "#compdef pgbaton\n# Generated from the tables of --help; do not edit.\n_pgbaton_commands() {\n  local -a "
      "commands=(\n";
  for (const Command* command : commands())
    text +=
        fmt::format("    {}\n", quoted(fmt::format("{}:{}", command->name, replaced(command->summary, ':', "\\:"))));
  text +=
      "    'help:print help on a command'\n  )\n  _describe -t commands 'pgbaton command' commands\n}\n"
      "_pgbaton() {\n  local word command=''\n  local -a options=('(- *)'{-h,--help}'[print help]')\n";
  text += fmt::format(
      "  for word in ${{words[2,CURRENT-1]}}; do\n    case $word in\n      ({}|help) command=$word; break ;;\n"
      "    esac\n  done\n  case $command in\n",
      command_names("|"));
  for (const Command* command : commands()) {
    text += fmt::format("    ({})\n      options+=(\n", command->name);
    for (const OptionSpec& spec : option_table())
      if ((spec.used_by & command->use) != 0) text += "        " + zsh_option(spec) + "\n";
    text += "      ) ;;\n";
  }
  text += "    ('')\n      options+=(\n        '(- *)--version[print the version]'\n";
  for (const OptionSpec& spec : option_table())
    if (spec.used_by == kEverywhere) text += "        " + zsh_option(spec) + "\n";
  text +=
      "      ) ;;\n  esac\n  if [[ $command == help ]]; then\n    _arguments '1: :()' '2:command:_pgbaton_commands'\n"
      "  else\n    _arguments \"$options[@]\" '1:command:_pgbaton_commands' '*: :()'\n  fi\n}\n_pgbaton \"$@\"\n";
  return text;
}

std::string fish_completion() {
  std::string text = "# Generated from the tables of --help; do not edit.\ncomplete -c pgbaton -f\n";
  const auto all = command_names(" ") + " help";
  for (const Command* command : commands())
    text += fmt::format("complete -c pgbaton -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n", all, command->name,
                        quoted(command->summary));
  text +=
      fmt::format("complete -c pgbaton -n 'not __fish_seen_subcommand_from {}' -a help -d 'help on a command'\n", all);
  text += fmt::format("complete -c pgbaton -n '__fish_seen_subcommand_from help' -a '{}'\n", command_names(" "));
  for (const OptionSpec& spec : option_table()) {
    std::string users;
    for (const Command* command : commands())
      if ((command->use & spec.used_by) != 0) users += (users.empty() ? "" : " "), users += command->name;
    text += "complete -c pgbaton";
    if (spec.used_by != kEverywhere) text += fmt::format(" -n '__fish_seen_subcommand_from {}'", users);
    text += fmt::format(" -l {}", spec.name);
    if (takes_file(spec))
      text += " -r -F";
    else if (!spec.value.empty())
      text += spec.choices.empty() ? " -x" : fmt::format(" -x -a '{}'", choices_of(spec));
    text += fmt::format(" -d {}\n", quoted(first_clause(spec.help)));
  }
  return text +
         "complete -c pgbaton -s h -l help -d 'print help'\ncomplete -c pgbaton -l version -d 'print the version'\n";
}

}  // namespace pgbaton::app
