#include "programs.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/copy/process.hpp>
#include <pgbaton/copy/schema.hpp>

#include <unistd.h>

namespace pgbaton::rebuild {

namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

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
    if (::access(file.c_str(), R_OK) != 0)
      throw Error(ErrorKind::usage, fmt::format("--sql: {}: the file cannot be read", file))
          .hint("Check the path; a relative one begins where pgbaton was started.");
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
        {psql, {"-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, "-d", child.conninfo}, child.environment}, stop);
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
                                           {"PGBATON_POSITION", to_string(generation.position)}}},
                                         stop);
  if (outcome.exit_code == 0) return;
  throw Error(ErrorKind::failed,
              fmt::format("--{} ended with {}: {}", option, outcome.exit_code, trimmed(outcome.errors)))
      .hint("Run the command by hand to see what it says.");
}

}  // namespace pgbaton::rebuild
