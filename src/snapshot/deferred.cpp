#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/snapshot/deferred.hpp>

#include "definitions.hpp"
#include "fingerprint.hpp"

namespace pgbaton::snapshot {

namespace {

copy::SchemaArchive dump_now(const CloneOptions& options, const std::stop_token& stop) {
  auto schema = options.schema_options;
  if (schema.only_tables.empty()) {
    auto control = pg::open_control(options.source, "deferred");
    for (const auto& name : tables_left_out(*control, options)) schema.excluded_tables.push_back(name);
  }
  for (const auto& pattern : options.filter.exclude_schemas) schema.excluded_schemas.push_back(pattern);
  // No rows are read on this snapshot, so it needs no slot and no settling.
  auto holder = pg::Connection::open(options.source, "holder");
  holder.exec("begin isolation level repeatable read read only");
  auto snapshot_id = holder.exec("select pg_export_snapshot()").text(0, 0);
  return copy::SchemaArchive::dump(options.source, snapshot_id, schema, stop);
}

}  // namespace

void create_deferred(const CloneOptions& given, const state::Replica& replica, const std::stop_token& stop) {
  if (replica.replica_role) return;
  CloneOptions options = given;
  apply_recorded_choice(replica, options);
  if (options.schema == SchemaMode::none) return;  // the target's own keys and triggers were there all the time
  log::info("creating foreign keys, triggers and rules, which were left for the end");
  copy::restore_rest(options.target, dump_now(options, stop), true, stop);
}

void create_rest(const CloneOptions& options, const std::stop_token& stop) {
  copy::restore_rest(options.target, dump_now(options, stop), true, stop, true);
}

}  // namespace pgbaton::snapshot
