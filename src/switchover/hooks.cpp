// Commands of the user, with the facts in their environment and, all of them, as JSON in PGBATON_FACTS.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/process.hpp>

#include <cctype>

#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

copy::Outcome run_named(const std::string& setting, const copy::Command& command, const std::stop_token& stop) {
  try {
    return copy::run_command(command, stop);
  } catch (Error& error) {
    error.context(setting);
    throw;
  }
}

}  // namespace

void run_hook(const std::string& setting, const std::string& command, const Options& options, const Facts& facts,
              const std::stop_token& stop) {
  if (command.empty()) return;
  log::info("running {}", setting);
  const state::Fields fields{{"step", facts.step},
                             {"writable", facts.state},
                             {"direction", options.reversed ? "rollback" : "forward"},
                             {"readers", facts.readers_on_target != options.reversed ? "target" : "source"},
                             {"replica", options.names.name},
                             {"slot", facts.replica.slot},
                             {"publication", facts.replica.publication},
                             {"barrier_lsn", to_string(facts.barrier_lsn)},
                             {"source", pg::redact(options.stream.source.conninfo)},
                             {"target", pg::redact(options.stream.target.conninfo)}};
  copy::Command run{"/bin/sh", {"-c", command}, {{"PGBATON_FACTS", state::to_json(fields)}}};
  for (const auto& [name, value] : fields) {
    std::string variable = "PGBATON_";
    for (const char c : name) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    // Those two are where this program itself looks for connection strings.
    if (name != "source" && name != "target") run.environment.emplace_back(variable, value);
  }
  // Where the application worked, and is to work.
  run.environment.emplace_back("PGBATON_OLD", fields.at("source"));
  run.environment.emplace_back("PGBATON_NEW", fields.at("target"));
  const auto outcome = run_named(setting, run, stop);
  if (outcome.exit_code == 0) return;
  throw Error(ErrorKind::failed, fmt::format("{} ended with {}{}{}", setting, outcome.exit_code,
                                             outcome.errors.empty() ? "" : ": ", outcome.errors))
      .hint("Run the command by hand to see what it says.");
}

}  // namespace pgbaton::switchover
