#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

constexpr int kOldestMajor = 12, kNewestMajor = 18;

void check_versions(const catalog::Server& server, Findings& findings) {
  if (server.major() < kOldestMajor)
    findings.blocker("source.version", "source", "PostgreSQL " + server.version_text + " is too old",
                     "Majors 12 to 18 are supported.");
  if (server.major() > kNewestMajor)
    findings.warning("source.version", "source", "PostgreSQL " + server.version_text + " is newer than this tool",
                     "Use a version of pgbaton that knows it.");
}

void check_wal(pg::Control& source, const catalog::Server& server, Findings& findings) {
  if (server.in_recovery)
    findings.blocker("source.in_recovery", "source", "the server is a standby: publications cannot be made there",
                     "Give the primary's connection string.");
  if (server.wal_level != "logical")
    findings.blocker("source.wal_level", "wal_level", "it is " + server.wal_level + ", logical decoding needs logical",
                     "ALTER SYSTEM SET wal_level = logical; then restart the source.");
  pqxx::nontransaction tx(source);
  auto row = tx.exec1("select current_setting('max_slot_wal_keep_size', true)");
  std::string keep = row[0].is_null() ? "" : row[0].as<std::string>();
  if (keep.empty() || keep == "-1")
    findings.note("source.wal_keep", "max_slot_wal_keep_size",
                  "no limit: the slot keeps WAL as long as it is behind; watch `pgbaton status`");
  else
    findings.warning("source.wal_keep", "max_slot_wal_keep_size",
                     "a slot that falls behind by more than " + keep + " is lost and the replica must be built anew",
                     "Make it larger than the WAL written during the copy, or -1 for the time of the clone.");
}

// A run needs one slot for the stream; going on after a crash needs a temporary one beside it for a moment.
void check_headroom(const catalog::Server& server, Findings& findings) {
  int slots = server.max_replication_slots - server.used_slots;
  int senders = server.max_wal_senders - server.used_senders;
  if (slots < 1)
    findings.blocker("source.slots", "max_replication_slots",
                     fmt::format("all {} are in use", server.max_replication_slots),
                     "Raise it and restart the source, or drop slots that nobody uses.");
  else if (slots < 2)
    findings.warning("source.slots", "max_replication_slots",
                     "only 1 is free: an interrupted clone could not take a new boundary",
                     "Have 2 free slots until the copy is complete.");
  if (senders < 1)
    findings.blocker("source.senders", "max_wal_senders", fmt::format("all {} are in use", server.max_wal_senders),
                     "Raise it and restart the source.");
  else if (senders < 2)
    findings.warning("source.senders", "max_wal_senders",
                     "only 1 is free: an interrupted clone could not take a new boundary",
                     "Have 2 free until the copy is complete.");
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

// Objects of our names that no state of ours knows are never adopted.
void check_names(const CheckOptions& options, pg::Control& source, Findings& findings) {
  if (options.resume) return;
  const auto& names = options.clone.names;
  constexpr std::string_view kRemedy =
      "It may belong to another replica: choose another --name. If it is left over, drop it.";
  if (source::load_slot(source, names.base))
    findings.blocker("source.slot_exists", names.base, "a slot of this name exists and the target knows nothing of it",
                     std::string(kRemedy));
  if (!options.clone.publication.empty()) return;
  for (const auto& publication : {names.base, names.publication_inserts})
    if (source::publication_exists(source, publication))
      findings.blocker("source.publication_exists", publication,
                       "a publication of this name exists and the target knows nothing of it", std::string(kRemedy));
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
        prepared ? fmt::format("COMMIT PREPARED or ROLLBACK PREPARED {};", quote_literal(blocker.gid))
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
    check_wal(connection, source.server, findings);
    check_headroom(source.server, findings);
    check_rights(options, source.server, findings);
    check_names(options, connection, findings);
    check_open_transactions(options, connection, findings);
    check_pg_dump(options, source.server, findings);
  });
}

}  // namespace pgbaton::snapshot
