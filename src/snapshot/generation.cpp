#include "generation.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/copy/parts.hpp>

#include <fmt/format.h>

#include <map>
#include <random>

#include "fingerprint.hpp"
#include "given_publication.hpp"
#include "preflight.hpp"
#include "renamed.hpp"

namespace pgbaton::snapshot {

namespace {

using state::Phase;
using state::TablePhase;

}  // namespace

// A random UUID (version 4). random_device reads the kernel's generator here, so two processes never agree.
std::string new_uuid() {
  std::random_device random;
  auto bits = [&] { return static_cast<std::uint32_t>(random()); };
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:08x}{:04x}", bits(), bits() & 0xffff, bits() & 0xfff,
                     (bits() & 0x3fff) | 0x8000, bits(), bits() & 0xffff);
}

Build::Build(const CloneOptions& clone_options, state::Lease& writers_lease, copy::CopyProgress& copy_progress,
             std::stop_token stop_token)
    : options(clone_options),
      lease(writers_lease),
      progress(copy_progress),
      stop(std::move(stop_token)),
      source(pg::open_control(options.source, "clone")),
      target(pg::open_control(options.target, "clone")),
      store(*target) {}

void Build::inspect() {
  source_server = catalog::load_server(*source, Side::source);
  target_server = catalog::load_server(*target, Side::target);
  refuse_same_database(*this);
  store.install();
  if (auto found = store.load_replica(options.names.name)) replica = *found;
}

void Build::persist(const std::function<void()>& work) {
  auto deadline = Deadline::after(kPatience);
  Backoff backoff;
  for (;;) {
    try {
      return work();
    } catch (const Error& error) {
      if (error.action() != Action::retry || deadline.passed() || stop.stop_requested()) throw;
      log::warning("{}; trying again", error.describe());
    }
    sleep_for(backoff.next(), stop);
    revive();
  }
}

void Build::tell_boundary(const std::string& slot, std::size_t tables) {
  const state::Fields detail{
      {"lsn", to_string(snapshot->consistent_point())}, {"slot", slot}, {"tables", std::to_string(tables)}};
  persist([&] { store.add_event(replica.name, "boundary", state::to_json(detail)); });
}

void Build::revive() {
  auto deadline = Deadline::after(kPatience);
  for (Backoff backoff;;) {
    try {
      pg::revive(*source, options.source, "clone");
      if (pg::revive(*target, options.target, "clone")) log::info("connected to the target again");
      return lease.renew();
    } catch (const Error& error) {
      if (error.action() != Action::retry || deadline.passed() || stop.stop_requested()) throw;
      log::warning("{}; trying again", error.describe());
    }
    sleep_for(backoff.next(), stop);
  }
}

state::Replica new_generation(const Build& build, const TablePlan& plan, bool restored) {
  state::Replica replica;
  replica.name = build.options.names.name;
  replica.generation = new_uuid();
  replica.source_system_id = build.source_server.system_identifier;
  replica.source_timeline = build.source_server.timeline;
  replica.source_database = build.source_server.database;
  replica.slot = build.options.names.base;
  replica.publication = plan.publications.publication;
  replica.publication_inserts = plan.publications.publication_inserts;
  replica.owns_publication = build.options.publication.empty();
  replica.phase = Phase::creating;
  replica.epoch = build.replica.epoch;
  replica.options = options_json(build.options, build.source_server);
  replica.schema_restored = restored;
  replica.replica_role = catalog::may_set_replica_role(*build.target);
  return replica;
}

std::vector<state::TableState> states_of(const std::vector<copy::CopyJob>& jobs) {
  std::vector<state::TableState> states;
  for (const auto& job : jobs) states.push_back(job.state);
  return states;
}

void adopt_publication(pg::Control& source, const CloneOptions& options, TablePlan& plan) {
  plan.publications.publication_inserts =
      verify_publication(source, options.publication, plan.jobs, options.replace_rows || options.joins).inserts;
  plan.publications.tables.clear();
  plan.publications.tables_inserts_only.clear();
}

void skip_table(Build& build, state::TableState& table, const std::string& reason) {
  bool partly_copied = table.phase == TablePhase::copying;
  table.phase = TablePhase::skipped;
  table.note = reason;
  table.rows = table.bytes = 0;
  if (partly_copied) {
    copy::discard_parts(build.options.target, build.replica, table);
  } else {
    build.store.store_table(build.replica, table);
  }
  log::warning("{}: {}", table.name.quoted(), reason);
}

void load_jobs(Build& build) {
  auto states = build.store.load_tables(build.replica);
  std::map<catalog::Oid, catalog::Table> tables;
  auto on_source = catalog::load_tables(*build.source);
  catalog::apply_choices(on_source, build.options.filter.choices);
  for (auto& table : on_source) tables.emplace(table.oid, std::move(table));
  std::vector<catalog::Oid> missing;
  for (const auto& recorded : states)
    if (!tables.contains(recorded.source_oid)) missing.push_back(recorded.source_oid);
  const auto elsewhere = catalog::load_relations(*build.source, missing);
  for (auto& recorded : states) {
    auto found = tables.find(recorded.source_oid);
    bool copied = recorded.phase == TablePhase::copied || recorded.phase == TablePhase::indexed ||
                  recorded.phase == TablePhase::done;
    if (copied) {
      ++build.summary.tables_kept;
      build.summary.rows_kept += recorded.rows;
      build.summary.bytes_kept += recorded.bytes;
      build.any_table_committed = true;
    }
    if (found == tables.end() && !copied && recorded.phase != TablePhase::skipped) {
      if (const auto now = elsewhere.find(recorded.source_oid); now != elsewhere.end())
        throw no_table_any_more(recorded.name, now->second.name);
      skip_table(build, recorded, std::string(kDroppedBeforeCopy));
    }
    // Rows of a part are on the target, of use or not: slot and state are worth keeping.
    if (recorded.phase == TablePhase::copying) build.any_table_committed = true;
    copy::CopyJob job;
    if (found != tables.end()) job.table = found->second;
    job.table.name = recorded.name;  // under which the target has it, also when the source renamed it meanwhile
    job.state = std::move(recorded);
    build.jobs.push_back(std::move(job));
  }
}

void require_same_source(const Build& build) {
  require_same_source(build.source_server, build.replica);
}

void require_same_source(const catalog::Server& server, const state::Replica& replica) {
  if (replica.source_system_id == server.system_identifier && replica.source_database == server.database) return;
  throw Error(ErrorKind::usage,
              fmt::format("replica {} was begun on another source: system {}, database {}; this one is system {}, "
                          "database {}. Nothing was changed on either side",
                          replica.name, replica.source_system_id, quote_identifier(replica.source_database),
                          server.system_identifier, quote_identifier(server.database)))
      .hint(
          "Give the --source that it was begun on. If that one is gone for good, `pgbaton drop --source-is-gone` takes "
          "away what is left of it on the target.");
}

}  // namespace pgbaton::snapshot
