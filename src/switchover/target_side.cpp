// What is done to the target before the pause.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/finalize.hpp>

#include <set>

#include "fence.hpp"
#include "parts.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kOldFencePatience{5'000};

void prewarm(pg::Control& target, const std::string& name) {
  pg::control(Side::target, "prewarming", [&] {
    pqxx::nontransaction tx(target);
    const auto schema = tx.exec1(
        "select quote_ident(n.nspname) from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = "
        "e.extnamespace where e.extname = 'pg_prewarm'")[0];
    tx.exec_params(fmt::format("select {}.pg_prewarm($1::regclass)", schema.as<std::string>()), name);
  });
}

}  // namespace

bool closes_target(const std::optional<std::string>& about, const std::string& replica) {
  return about &&
         (*about == target_about(replica) || about->starts_with(source_about(replica, std::string(kSwitchedOver))));
}

void close_target(const Options& options, pg::Control& source, pg::Control& target, const std::stop_token& stop) {
  auto connection = open_fence_session(options.stream.target, "fence");
  FenceRequest request;
  std::set<QualifiedName> here;
  for (const auto& table : catalog::load_tables(source)) here.insert(table.name);
  for (const auto& table : catalog::load_tables(target, {}, Side::target))
    if (here.contains(table.name)) request.tables.push_back(table.name);
  request.about = target_about(options.names.name);
  request.exempt = "pgbaton/";
  request.terminate = false;
  if (const auto about = fence_about(connection); closes_target(about, options.names.name)) {
    // It is never opened on the way: the application works on the other side.
    admit(connection, *about, request.exempt);
    request.about = *about;
    request.tables = without_fence(connection, request.tables);
    if (request.tables.empty()) return;
  } else if (about) {
    open_fence(connection);
    remove_fence(connection, Deadline::after(kOldFencePatience), stop);
  }
  close_fence(connection, request, stop);
}

void warm(const Settings& settings, pg::Control& target, const std::vector<state::TableState>& tables) {
  for (const auto& table : tables)
    if (settings.analyze && table.phase != state::TablePhase::skipped) copy::analyze(target, table.name);
  for (const auto& name : settings.prewarm) try {
      prewarm(target, name);
    } catch (const Error& error) {
      log::warning("{} was not prewarmed: {}", name, error.describe());
    }
}

}  // namespace pgbaton::switchover
