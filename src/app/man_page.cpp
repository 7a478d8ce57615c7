#include <fmt/format.h>
#include <pgbaton/app/options.hpp>

#include <algorithm>
#include <ranges>

#include "command.hpp"
#include "manual.hpp"

namespace pgbaton::app {

namespace {

// A minus that can be copied, no line that is taken for a macro, and an ellipsis that every terminal can show.
std::string escaped(std::string_view text) {
  constexpr std::string_view kEllipsis = "\u2026";
  std::string result;
  bool line_start = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with(kEllipsis)) {
      result += "...";
      i += kEllipsis.size() - 1;
      continue;
    }
    const char c = text[i];
    if (line_start && (c == '.' || c == '\'')) result += "\\&";
    line_start = c == '\n';
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result;
}

std::string macro(std::string_view name, std::string_view text = "") {
  return text.empty() ? fmt::format(".{}\n", name) : fmt::format(".{} {}\n", name, text);
}

std::string section(std::string_view title) {
  return macro("SH", title);
}

// A sentence that begins with an option is a paragraph of its own; other line ends are those of a terminal.
std::string paragraphs(std::string_view text) {
  std::string result = ".PP\n";
  bool sentence_ended = false;
  for (auto part : std::views::split(text, '\n')) {
    std::string_view line(part.begin(), part.end());
    if (line.starts_with("--") && sentence_ended) result += ".PP\n";
    sentence_ended = line.ends_with('.');
    result += escaped(line) + "\n";
  }
  return result;
}

std::string as_is(std::string_view lines) {
  return ".PP\n.RS 4\n.nf\n" + escaped(lines) + "\n.fi\n.RE\n";
}

std::string commands() {
  std::string text = section("COMMANDS");
  for (const Command& command : command_table()) {
    if (command.run == nullptr) continue;
    text += macro("SS", fmt::format("\"{}{}{}\"", command.name, command.arguments.empty() ? "" : " ",
                                    escaped(command.arguments)));
    std::string summary(command.summary);
    summary.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(summary.front())));
    text += paragraphs(summary + ".") + paragraphs(command.description) + as_is(command.examples);
  }
  return text;
}

std::string users_of(const OptionSpec& spec) {
  if (spec.used_by == kEverywhere) return "";
  std::string list;
  for (const Command& command : command_table())
    if (command.run != nullptr && (command.use & spec.used_by) != 0)
      list += fmt::format("{}\\fB{}\\fR", list.empty() ? "" : ", ", command.name);
  return fmt::format("Used by {}.\n", list);
}

std::string choices_of(const OptionSpec& spec) {
  if (spec.choices.empty()) return "";
  std::string list;
  for (auto part : std::views::split(spec.choices, '|'))
    list += fmt::format("{}\\fB{}\\fR", list.empty() ? "" : ", ", escaped({part.begin(), part.end()}));
  return fmt::format("Values: {}.\n", list);
}

std::string sentence(std::string_view help) {
  std::string text(help);
  if (!text.ends_with('.')) text += '.';
  return escaped(text);
}

std::string options() {
  std::string text = section("OPTIONS");
  text += paragraphs(
      "Options may stand before or after the command. All of them but --config, --help and --version may also be "
      "written into the file that --config names, without the leading dashes; flags win over the environment, the "
      "environment over the file.");
  for (const OptionSpec& spec : option_table()) {
    if (const auto headline = headline_before(spec.name); !headline.empty())
      text += macro("SS", fmt::format("\"{}\"", headline));
    text += fmt::format(".TP\n\\fB\\-\\-{}\\fR", escaped(spec.name));
    if (!spec.value.empty()) text += fmt::format(" \\fI{}\\fR", escaped(spec.value));
    text += fmt::format("\n{}\n{}{}", sentence(spec.help), choices_of(spec), users_of(spec));
  }
  text += ".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nThe options of all commands, or with a command its own.\n";
  text += ".TP\n\\fB\\-\\-version\\fR\nThe version.\n";
  text += paragraphs("Durations are 500ms, 120s, 5m, 2h (a bare number is seconds), sizes 64kB, 256MB, 2GB.");
  return text;
}

std::string exit_status() {
  std::string text = section("EXIT STATUS");
  for (const ExitCode& row : exit_code_table())
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", row.code, escaped(row.text));
  return text;
}

std::string environment_and_files() {
  return section("ENVIRONMENT") +
         ".TP\n\\fBPGBATON_SOURCE\\fR, \\fBPGBATON_TARGET\\fR\nConnection strings, where \\fB\\-\\-source\\fR and "
         "\\fB\\-\\-target\\fR are not given.\n"
         ".TP\n\\fBPGPASSFILE\\fR, \\fBPGSERVICEFILE\\fR and the other variables of libpq\nAs with \\fBpsql\\fR(1). "
         "Passwords are best kept in \\fI~/.pgpass\\fR or a service file; they appear in no log, error or process "
         "list.\n" +
         section("FILES") + ".TP\n\\fI/etc/pgbaton/*.yaml\\fR\nWhere the examples keep their configuration.\n";
}

}  // namespace

std::string man_page() {
  std::string text = ".\\\" Generated from the tables of --help; do not edit.\n";
  text += ".TH PGBATON 1 \"\" \"pgbaton " PGBATON_VERSION "\" \"User Commands\"\n.nh\n.ad l\n";
  text += section("NAME") + "pgbaton \\- hand a PostgreSQL database over from a snapshot to a live stream of changes\n";
  text += section("SYNOPSIS") +
          ".B pgbaton\n\\fICOMMAND\\fR [\\fB\\-\\-config\\fR \\fIFILE.yaml\\fR] [\\fB\\-\\-source\\fR "
          "\\fICONNINFO\\fR] [\\fB\\-\\-target\\fR \\fICONNINFO\\fR] [\\fB\\-\\-name\\fR \\fINAME\\fR] "
          "[\\fIoptions\\fR]\n";
  text += section("DESCRIPTION");
  text += paragraphs(
      "pgbaton copies schema and rows of a database to another server while the application keeps writing, goes on "
      "with every change committed since, and can be killed at any moment and started again: nothing is dropped, "
      "nothing carried twice.");
  text += paragraphs(
      "Results go to the standard output, with --json as one JSON document; log and progress go to the standard "
      "error. An error is one line that begins with ERROR, followed by one that begins with HINT.");
  text += commands() + options() + exit_status() + environment_and_files();
  text += section("SEE ALSO") + ".BR pg_dump (1),\n.BR psql (1)\n";
  return text;
}

}  // namespace pgbaton::app
