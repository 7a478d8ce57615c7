#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

constexpr int kOldestMajor = 12, kNewestMajor = 18, kFailoverSlots = 17;
constexpr std::string_view kMayBeAnothers =
    "It may belong to another replica: choose another --name. If it is left over: ";

void check_versions(const catalog::Server& server, Findings& findings) {
  if (server.major() < kOldestMajor)
    findings.blocker("source.version", "source", "PostgreSQL " + server.version_text + " is too old",
                     "Majors 12 to 18 are supported.");
  if (server.major() > kNewestMajor)
    findings.warning("source.version", "source", "PostgreSQL " + server.version_text + " is newer than this tool",
                     "Use a version of pgbaton that knows it.");
}

void check_wal(const catalog::Server& server, Findings& findings) {
  if (server.in_recovery)
    findings.blocker("source.in_recovery", "source", "the server is a standby: publications cannot be made there",
                     "Give the primary's connection string.");
  if (server.wal_level != "logical")
    findings.blocker("source.wal_level", "wal_level", "it is " + server.wal_level + ", logical decoding needs logical",
                     "ALTER SYSTEM SET wal_level = logical; then restart the source.");
}

// A state schema of ours has a table meta with a version. Anybody else's is left out like it, which its owner must
// know.
void check_reserved_schema(CheckSide& source, Findings& findings) {
  pqxx::nontransaction tx(*source.connection);
  const auto row = tx.exec1(
      "select exists (select from pg_namespace where nspname = 'pgbaton'), exists (select from pg_attribute a join "
      "pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'pgbaton' and "
      "c.relname = 'meta' and a.attname = 'schema_version')");
  if (row[0].as<bool>() && !row[1].as<bool>())
    findings.warning("source.reserved_schema", "pgbaton",
                     "the source has a schema of this name that pgbaton did not make: it is left out, with its tables",
                     "ALTER SCHEMA pgbaton RENAME TO …; if it is to be carried.");
}

// Its triggers would be carried like anybody's, and refuse every write on the copy, too.
void check_fence(CheckSide& source, Findings& findings) {
  pqxx::nontransaction tx(*source.connection);
  const auto about = tx.exec(
      "select coalesce(obj_description(oid, 'pg_namespace'), '') from pg_namespace where nspname = "
      "'pgbaton_fence'");
  if (about.empty()) return;
  findings.blocker(
      "source.fenced", "pgbaton_fence",
      fmt::format("a switchover has closed this database for writers{}{}", about[0][0].size() == 0 ? "" : ": ",
                  about[0][0].c_str()),
      "After a flip the source is the other side. One that was given up is opened with `pgbaton switchover "
      "--undo`.");
}

void check_slot_failover(const CheckOptions& options, CheckSide& source, Findings& findings) {
  if (!options.clone.slot_failover) return;
  if (source.server.major() < kFailoverSlots) {
    findings.blocker("source.slot_failover", "slot_failover",
                     fmt::format("PostgreSQL {} has no slots that standbys keep a copy of", source.server.major()),
                     "Leave --slot-failover out: after a failover of this source a new bootstrap is needed.");
    return;
  }
  pqxx::nontransaction tx(*source.connection);
  if (tx.exec1("select current_setting('synchronized_standby_slots') = ''")[0].as<bool>())
    findings.warning("source.slot_failover", "synchronized_standby_slots",
                     "it is empty: the target may get transactions that no standby has yet, and a promoted one is then "
                     "refused",
                     "ALTER SYSTEM SET synchronized_standby_slots = '…' (the standby's physical slot); SELECT "
                     "pg_reload_conf();");
}

// A run needs one slot for the stream; going on after a crash needs a temporary one beside it for a moment.
void check_headroom(const catalog::Server& server, Findings& findings) {
  int slots = server.max_replication_slots - server.used_slots;
  int senders = server.max_wal_senders - server.used_senders;
  if (slots < 1)
    findings.blocker(
        "source.slots", "max_replication_slots", fmt::format("all {} are in use", server.max_replication_slots),
        fmt::format("ALTER SYSTEM SET max_replication_slots = {}; then restart the source. Or drop a slot that nobody "
                    "uses: SELECT pg_drop_replication_slot('…');",
                    server.max_replication_slots + 4));
  else if (slots < 2)
    findings.warning("source.slots", "max_replication_slots",
                     "only 1 is free: an interrupted clone could not take a new boundary",
                     fmt::format("ALTER SYSTEM SET max_replication_slots = {}; then restart the source.",
                                 server.max_replication_slots + 4));
  if (senders < 1)
    findings.blocker(
        "source.senders", "max_wal_senders", fmt::format("all {} are in use", server.max_wal_senders),
        fmt::format("ALTER SYSTEM SET max_wal_senders = {}; then restart the source.", server.max_wal_senders + 4));
  else if (senders < 2)
    findings.warning(
        "source.senders", "max_wal_senders", "only 1 is free: an interrupted clone could not take a new boundary",
        fmt::format("ALTER SYSTEM SET max_wal_senders = {}; then restart the source.", server.max_wal_senders + 4));
}

void check_rights(const CheckOptions& options, const catalog::Server& server, Findings& findings) {
  if (!server.may_replicate)
    findings.blocker("source.replication_right", server.user, "the role may not use the replication protocol",
                     fmt::format("ALTER ROLE {} REPLICATION;", quote_identifier(server.user)));
  if (options.clone.publication.empty() && !server.may_create_in_database)
    findings.blocker("source.publication_right", server.user, "the role may not create publications in this database",
                     fmt::format("GRANT CREATE ON DATABASE {} TO {}; or name one with --publication.",
                                 quote_identifier(server.database), quote_identifier(server.user)));
}

// A slot's name is unique in its cluster: that of another database is a replica of that database, or was one.
void check_slot_name(const std::string& name, const catalog::Server& server, pg::Control& source, Findings& findings) {
  const auto slot = source::load_slot(source, name);
  if (!slot) return;
  const auto drop = fmt::format("SELECT pg_drop_replication_slot({});", quote_literal(name));
  if (slot->database == server.database)
    return findings.blocker("source.slot_exists", name, "a slot of this name exists and the target knows nothing of it",
                            fmt::format("{}{}", kMayBeAnothers, drop));
  const auto database = slot->database.empty() ? "no database: it is a physical one"
                                               : fmt::format("database {}", quote_identifier(slot->database));
  findings.blocker("source.slot_exists", name,
                   fmt::format("a slot of this name exists in the cluster, and belongs to {}; names of slots are "
                               "unique in a cluster",
                               database),
                   fmt::format("Choose another --name. Only if nothing uses it any more: {}", drop));
}

// Objects of our names that no state of ours knows are never adopted.
void check_names(const CheckOptions& options, const catalog::Server& server, pg::Control& source, Findings& findings) {
  if (options.resume) return;
  const auto& names = options.clone.names;
  check_slot_name(names.base, server, source, findings);
  if (!options.clone.publication.empty()) return;
  for (const auto& publication : {names.base, names.publication_inserts})
    if (source::publication_exists(source, publication))
      findings.blocker("source.publication_exists", publication,
                       "a publication of this name exists and the target knows nothing of it",
                       fmt::format("If an administrator made it for this replica, name it: --publication {}. {}DROP "
                                   "PUBLICATION {};",
                                   names.base, kMayBeAnothers, quote_identifier(publication)));
}

// Creating a slot waits for every one of these. They may end in time, so they are no blockers here.
void check_open_transactions(const CheckOptions& options, pg::Control& source, Findings& findings) {
  for (const auto& blocker : source::load_blockers(source)) {
    bool prepared = blocker.pid == 0;
    std::chrono::duration<double> age(blocker.age_seconds);
    // Ordinary transactions end in a moment; only old ones are worth a line.
    if (!prepared && age < std::chrono::seconds(5)) continue;
    findings.warning(
        prepared ? "source.prepared_transaction" : "source.long_transaction", source::describe(blocker),
        fmt::format("creating the slot waits for it, at most --slot-wait {}", format_duration(options.clone.slot_wait)),
        prepared ? fmt::format("COMMIT PREPARED {0}; or ROLLBACK PREPARED {0};", quote_literal(blocker.gid))
                 : fmt::format("Let it end, or SELECT pg_terminate_backend({});", blocker.pid));
  }
}

void check_pg_dump(const CheckOptions& options, const catalog::Server& server, Findings& findings) {
  if (options.clone.schema == SchemaMode::none) return;
  try {
    auto path = copy::find_pg_dump(options.clone.schema_options.pg_dump, server.version_num);
    findings.note("local.pg_dump", path, "makes the schema");
  } catch (const Error& error) {
    findings.blocker("local.pg_dump", "pg_dump", error.message(), error.hint());
  }
}

}  // namespace

void check_source_server(const CheckOptions& options, CheckSide& source, Findings& findings) {
  pg::control(Side::source, "checking the source", [&] {
    pg::Control& connection = *source.connection;
    check_versions(source.server, findings);
    check_wal(source.server, findings);
    check_slot_failover(options, source, findings);
    check_headroom(source.server, findings);
    check_rights(options, source.server, findings);
    check_names(options, source.server, connection, findings);
    check_open_transactions(options, connection, findings);
    check_reserved_schema(source, findings);
    check_fence(source, findings);
    check_pg_dump(options, source.server, findings);
  });
}

}  // namespace pgbaton::snapshot
