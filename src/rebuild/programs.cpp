#include "programs.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/process.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/copy/shell.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

namespace pgbaton::rebuild {

namespace {

// More of what a command says is for its own log.
constexpr std::size_t kLastLines = 5, kKeptBytes = 4096;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// "second last / last"
std::string last_lines(const std::string& all) {
  std::vector<std::string> lines;
  std::istringstream rest(all);
  for (std::string line; std::getline(rest, line);)
    if (line = trimmed(line); !line.empty()) lines.push_back(line);
  const auto shown = std::min(lines.size(), kLastLines);
  return fmt::format("{}", fmt::join(lines.end() - static_cast<std::ptrdiff_t>(shown), lines.end(), " / "));
}

std::string what_it_said(const copy::Outcome& outcome) {
  const auto errors = last_lines(outcome.errors), output = last_lines(outcome.output);
  if (errors.empty() && output.empty()) return " and said nothing";
  if (output.empty()) return ": " + errors;
  return fmt::format(": {}{}stdout: {}", errors, errors.empty() ? "" : "; ", output);
}

std::string unreadable_reason(const std::string& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return ::strerror(errno);
  if (S_ISDIR(found.st_mode)) return "it is a directory";
  return ::access(file.c_str(), R_OK) == 0 ? "" : ::strerror(errno);
}

constexpr std::string_view kPathHint = "Check the path; a relative one begins where pgbaton was started.";

std::string find_psql(const Place& place, const std::string& pg_dump) {
  auto source = pg::open_control(place.source, "rebuild");
  const auto dump = copy::find_pg_dump(pg_dump, source->server_version());
  auto psql = dump.substr(0, dump.rfind('/') + 1) + "psql";
  if (::access(psql.c_str(), X_OK) == 0) return psql;
  throw Error(ErrorKind::preflight, fmt::format("there is no psql beside {}", dump))
      .hint("Install PostgreSQL's client programs; --sql is run by psql.");
}

}  // namespace

void require_readable(const std::vector<std::string>& files) {
  for (const auto& file : files)
    if (const auto why = unreadable_reason(file); !why.empty())
      throw Error(ErrorKind::usage, fmt::format("--sql: {}: the file cannot be read: {}", file, why)).hint(kPathHint);
}

std::vector<snapshot::Finding> check_programs(const Options& options) {
  std::vector<snapshot::Finding> findings;
  const auto blocker = [&](std::string id, std::string object, std::string message, std::string remedy) {
    findings.push_back(
        {std::move(id), snapshot::Severity::blocker, std::move(object), std::move(message), std::move(remedy)});
  };
  for (const auto& file : options.sql_files)
    if (const auto why = unreadable_reason(file); !why.empty())
      blocker("rebuild.sql", file, "the file of --sql cannot be read: " + why, std::string(kPathHint));
  if (!options.sql_files.empty()) try {
      find_psql(options.place, options.clone.schema_options.pg_dump);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::preflight) throw;
      blocker("rebuild.psql", "psql", error.message(), error.hint());
    }
  for (const auto& [option, command] :
       {std::pair{"--before-swap", options.before_swap}, {"--after-swap", options.after_swap}})
    if (const auto why = command.empty() ? "" : copy::shell_complaint(command); !why.empty())
      blocker("rebuild.hook", option, why,
              "Give what sh can run as the user of this process: an executable file (chmod +x) by its full path, "
              "since cron's PATH is short.");
  return findings;
}

void run_sql_files(const Place& place, const std::string& database, const std::vector<std::string>& files,
                   const std::string& pg_dump, const std::stop_token& stop) {
  if (files.empty()) return;
  const auto psql = find_psql(place, pg_dump);
  auto child = pg::child_connection(endpoint_of(place, database), "sql");
  // The user's SQL is to find the database as an application does.
  std::erase_if(child.environment, [](const auto& variable) { return variable.first == "PGOPTIONS"; });
  for (const auto& file : files) {
    log::info("running {}", file);
    const auto outcome = copy::run_command(
        {psql, {"-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, "-d", child.conninfo}, child.environment, kKeptBytes},
        stop);
    if (outcome.exit_code == 0) continue;
    throw Error(ErrorKind::failed, fmt::format("--sql {}: {}", file, trimmed(outcome.errors)))
        .side(Side::target)
        .hint("The live database is as it was. Mend the file and run the same command again.");
  }
}

void run_hook(std::string_view option, const std::string& command, const Generation& generation,
              const std::string& database, const std::stop_token& stop) {
  if (command.empty()) return;
  log::info("running --{}", option);
  const auto outcome = copy::run_command({"/bin/sh",
                                          {"-c", command},
                                          {{"PGBATON_LIVE", generation.live},
                                           {"PGBATON_DATABASE", database},
                                           {"PGBATON_GENERATION", std::to_string(generation.id)},
                                           {"PGBATON_POSITION", to_string(generation.position)}},
                                          kKeptBytes},
                                         stop);
  if (outcome.exit_code == 0) return;
  throw Error(ErrorKind::failed, fmt::format("--{} ended with {}{}", option, outcome.exit_code, what_it_said(outcome)))
      .hint(generation.state == "live"
                ? "The new generation stays live: run the command by hand, or put the former one back with --rollback."
                : "The live database is as it was: mend the command, and run pgbaton again.");
}

}  // namespace pgbaton::rebuild
