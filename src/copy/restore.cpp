#include "restore.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>

#include "ddl.hpp"
#include "sql_script.hpp"

namespace pgbaton::copy {
namespace {

constexpr Milliseconds kLockPause{200};

// A table takes locks on itself, its row types, TOAST table and TOAST index until the transaction ends.
constexpr long kLocksPerEntry = 4;

bool exists_already(std::string_view sqlstate) {
  constexpr std::array<std::string_view, 8> kDuplicates{"42P07", "42P06", "42710", "42723",
                                                        "42701", "42712", "42P04", "42P03"};
  return std::ranges::find(kDuplicates, sqlstate) != kDuplicates.end();
}

// What a person does about a statement of the dump that the target refuses.
void advise(Error& error, const TocEntry& entry) {
  const auto& sqlstate = error.sqlstate();
  if (sqlstate == "42704" || sqlstate == "42501")
    error.hint("Create the missing role or give the right on the target; --no-owner and --no-privileges do without.");
  else if (sqlstate == "53200")
    error.hint("Raise max_locks_per_transaction or the memory of the target.");
  else if (entry.description == "EXTENSION")
    error.hint("Install the extension's files on the target's machine, or create it there as a superuser.");
  else if (!error.has_hint())
    error.hint("Make the target accept this object, or exclude it, then run the same command again.");
}

std::string guard_columns_query(const std::vector<TocEntry>& entries) {
  std::string names;
  for (const auto& entry : entries)
    if (entry.description == "TABLE" && !entry.left_out)
      names += fmt::format("{}({},{})", names.empty() ? "" : ",", quote_literal(entry.table.schema),
                           quote_literal(entry.table.name));
  if (names.empty()) return {};
  return fmt::format(
      "select n.nspname, c.relname from (values {}) as x(s, t)"
      " join pg_catalog.pg_namespace n on n.nspname = x.s"
      " join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = x.t"
      " join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = {} and a.atttypid = 'pg_lsn'::regtype"
      " where not a.attisdropped and a.attinhcount = 0",
      names, quote_literal(kGuardColumn));
}

// A source that is a target itself carries guard columns; they mean nothing here (cascade).
void drop_copied_guards(pg::Connection& target, const std::vector<TocEntry>& entries) {
  const auto query = guard_columns_query(entries);
  if (query.empty()) return;
  const auto rows = target.exec(query);
  for (int i = 0; i < rows.rows(); ++i)
    target.exec(fmt::format("ALTER TABLE {} DROP COLUMN {}", QualifiedName{rows.text(i, 0), rows.text(i, 1)}.quoted(),
                            quote_identifier(kGuardColumn)));
}

// How many entries one transaction may create without filling the lock table that all sessions share.
long entries_per_transaction(pg::Connection& target) {
  const auto row = target.exec(
      "select current_setting('max_locks_per_transaction')::bigint"
      " * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)");
  return std::max(50L, std::atol(row.text(0, 0).c_str()) / 2 / kLocksPerEntry);
}

// What only a superuser may say of things that every database has is not worth a failed clone. Before 15 schema public
// was a superuser's and everybody's, so between majors pg_dump names its owner and its rights.
bool may_be_refused(const TocEntry& entry) {
  return (entry.description == "SCHEMA" && entry.tag == "public") ||
         (entry.description == "COMMENT" && (entry.tag.starts_with("EXTENSION ") || entry.tag == "SCHEMA public")) ||
         (entry.description == "ACL" && entry.tag == "SCHEMA public");
}

// A schema that an administrator has made for us holds nothing of ours yet: what stands in it in our way says so
// itself.
bool may_be_there(const TocEntry& entry, const Error& error) {
  return entry.description == "SCHEMA" && error.sqlstate() == "42P06";
}

std::string left_out(const TocEntry& entry) {
  if (entry.description == "SCHEMA") return "the owner of SCHEMA " + entry.tag;
  return (entry.description == "ACL" ? "the rights of " : "the comment on ") + entry.tag;
}

void run_refusable(pg::Connection& target, const TocEntry& entry, const std::stop_token& stop) {
  target.exec("SAVEPOINT entry");
  try {
    run_entry(target, entry, stop);
    target.exec("RELEASE SAVEPOINT entry");
  } catch (const Error& error) {
    const bool there = may_be_there(entry, error);
    if (!there && (error.sqlstate() != "42501" || !may_be_refused(entry))) throw;
    target.exec("ROLLBACK TO SAVEPOINT entry");
    if (there)
      log::warning("schema {} is on the target already: it keeps its owner", quote_identifier(entry.tag));
    else
      log::warning("{} was left out: {}", left_out(entry), error.message());
  }
}

std::string lock_holders(pg::Connection& target, const QualifiedName& table) {
  const auto rows = target.exec(fmt::format(
      "select coalesce(string_agg(format('pid %s (%s)', pid, query), ', '), 'its holder has just ended') from (select "
      "distinct a.pid, left(a.query, 60) as query from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a using "
      "(pid) where l.relation = pg_catalog.to_regclass({}) and l.granted and a.pid <> pg_catalog.pg_backend_pid()) x",
      quote_literal(table.quoted())));
  return rows.text(0, 0);
}

}  // namespace

std::string describe(const TocEntry& entry) {
  return entry.schema == "-" ? fmt::format("{} {}", entry.description, entry.tag)
                             : fmt::format("{} {}.{}", entry.description, entry.schema, entry.tag);
}

pg::Connection open_restore(const pg::Endpoint& target, std::string_view role) {
  auto connection = pg::Connection::open(target, role);
  connection.exec("SET check_function_bodies = off; SET client_min_messages = warning");
  connection.exec(set_lock_timeout(false));
  return connection;
}

void exec_waiting(pg::Connection& target, const std::string& sql, const std::string& doing, const QualifiedName& table,
                  const std::stop_token& stop) {
  for (unsigned tries = 1;; ++tries) {
    try {
      target.exec_until(sql, Deadline::never(), stop);
      return;
    } catch (const Error& error) {
      if (error.sqlstate() != "55P03" || target.in_transaction() || stop.stop_requested()) throw;
    }
    // The first time, and then more and more rarely.
    if (std::has_single_bit(tries))
      log::warning("{} waits for a lock on the target: {}", doing, lock_holders(target, table));
    sleep_for(kLockPause, stop);
  }
}

void run_entry(pg::Connection& target, const TocEntry& entry, const std::stop_token& stop) {
  if (first_statement(entry.sql).empty()) return;
  try {
    exec_waiting(target, entry.sql, "creating " + describe(entry), entry.table, stop);
  } catch (Error& error) {
    error.context("creating " + describe(entry));
    if (!entry.table.name.empty()) error.table(entry.table.quoted());
    if (exists_already(error.sqlstate()))
      throw Error(ErrorKind::rejected, error.message())
          .side(Side::target)
          .sqlstate(error.sqlstate())
          .table(error.table())
          .hint(
              "Drop it on the target, exclude it, or use --schema none if the target's tables are meant to be filled.");
    if (error.action() != Action::retry) advise(error, entry);
    throw;
  }
}

namespace {

// An object of an earlier run whose definition changed on the source since: a table is compared and made anew later.
void run_unless_there(pg::Connection& target, const TocEntry& entry, const std::stop_token& stop) {
  target.exec("SAVEPOINT entry");
  try {
    run_entry(target, entry, stop);
    target.exec("RELEASE SAVEPOINT entry");
  } catch (const Error& error) {
    const bool refused = may_be_refused(entry) && error.sqlstate() == "42501";
    if (!refused && !exists_already(error.sqlstate())) throw;
    target.exec("ROLLBACK TO SAVEPOINT entry");
    log::warning("{} stays as an earlier run restored it: {}", describe(entry), error.message());
  }
}

// FNV-1a, 64 bits: the same in every build, unlike std::hash.
std::string fingerprint(const TocEntry& entry) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::string* part : {&entry.description, &entry.schema, &entry.tag, &entry.sql}) {
    for (const char c : *part) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    hash *= 1099511628211u;  // "a" and "bc" are not "ab" and "c"
  }
  return fmt::format("{:016x}", hash);
}

// One restore of section pre-data. What is committed and the record of it are one transaction.
class Definitions {
 public:
  Definitions(const pg::Endpoint& target, const std::vector<TocEntry>& entries, const std::stop_token& stop,
              const RestoreRecord& record)
      : entries_(entries), stop_(stop), record_(record), connection_(open_restore(target, "schema")) {
    connection_.exec("SET lock_timeout = 0");  // a step that fails would take its whole transaction with it
  }

  void run() {
    const long limit = entries_per_transaction(connection_);
    const auto tables =
        std::ranges::count_if(entries_, [](const TocEntry& entry) { return entry.description == "TABLE"; });
    const bool one_transaction = tables <= limit;
    if (!one_transaction)
      log::info("{} tables: their definitions are restored in several transactions of {} objects", tables, limit);
    connection_.exec("BEGIN");
    for (const auto& entry : entries_) {
      if (!restore(entry)) continue;
      if (!one_transaction && static_cast<long>(made_.size()) >= limit) {
        commit(false);
        PGBATON_FAILPOINT("schema_part_restored");
        connection_.exec("BEGIN");
      }
    }
    drop_copied_guards(connection_, entries_);
    PGBATON_FAILPOINT("schema_before_commit");
    commit(true);
  }

 private:
  // False when there was nothing to do.
  bool restore(const TocEntry& entry) {
    if (entry.section != Section::pre_data) return false;
    if (entry.left_out) {
      log::info("left out with the excluded tables: {}", describe(entry));
      return false;
    }
    auto print = fingerprint(entry);
    if (record_.done.contains(print)) return false;
    if (!record_.done.empty())
      run_unless_there(connection_, entry, stop_);
    else if (may_be_refused(entry) || entry.description == "SCHEMA")
      run_refusable(connection_, entry, stop_);
    else
      run_entry(connection_, entry, stop_);
    made_.push_back(std::move(print));
    return true;
  }

  void commit(bool last) {
    if (record_.statement && connection_.exec(record_.statement(made_, last)).affected() != 1)
      throw Error(ErrorKind::held_elsewhere, "fenced: another process has taken this replica over")
          .side(Side::target)
          .hint("Look at `pgbaton status`; only one process may write a replica.");
    connection_.exec("COMMIT");
    made_.clear();
  }

  const std::vector<TocEntry>& entries_;
  const std::stop_token& stop_;
  const RestoreRecord& record_;
  pg::Connection connection_;
  std::vector<std::string> made_;  // in the open transaction
};

}  // namespace

void restore_definitions(const pg::Endpoint& target, const std::vector<TocEntry>& entries, const std::stop_token& stop,
                         const RestoreRecord& record) {
  Definitions(target, entries, stop, record).run();
}

}  // namespace pgbaton::copy
