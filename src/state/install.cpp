// Creating, migrating and removing schema pgbaton.
//
// A schema version is a number; step N brings version N-1 to N, step 1 is sql/target_schema.sql as a whole. All steps
// that are due run in one transaction, under an advisory lock, so that two processes that start together do it once.
#include <pgbaton/base/error.hpp>
#include <pgbaton/embedded_sql.hpp>
#include <pgbaton/state/store.hpp>

#include <fmt/format.h>

#include <array>

#include "lock_key.hpp"

namespace pgbaton::state {

namespace {

constexpr std::array<std::string_view, 10> kSteps{
    sql::target_schema,   sql::target_schema_2, sql::target_schema_3, sql::target_schema_4, sql::target_schema_5,
    sql::target_schema_6, sql::target_schema_7, sql::target_schema_8, sql::target_schema_9, sql::target_schema_10};
constexpr int kVersion = static_cast<int>(kSteps.size());
constexpr std::int64_t kInstallLock = lock_key("pgbaton:schema");

// Most dependent first; nothing of anybody else is in this list.
constexpr std::array kOwnTables{"doubt",    "generation", "event",       "tombstone_hold", "tombstone", "request",
                                "progress", "copy_part",  "table_state", "replica",        "meta"};

struct Found {
  bool schema = false;
  int version = 0;  // 0: no meta table
};

// A schema that somebody else can write is no state of ours: a trigger or a view in it would run as our role.
void refuse_foreign(pqxx::transaction_base& tx) {
  const auto row = tx.exec1(std::string(sql::target_schema_foreign));
  if (row[0].is_null()) return;
  throw Error(
      ErrorKind::preflight,
      fmt::format(
          "schema pgbaton in database {} of the target can be changed by {}, who would run code with the rights "
          "of this role",
          quote_identifier(tx.exec1("select current_database()")[0].as<std::string>()), row[0].as<std::string>()))
      .side(Side::target)
      .hint(
          "If pgbaton made it under that role: ALTER SCHEMA pgbaton and its tables OWNER TO this one, and REVOKE "
          "CREATE ON SCHEMA, TRIGGER ON its tables. If not, drop the schema.");
}

Found find_schema(pqxx::transaction_base& tx) {
  auto row = tx.exec1(
      "select exists (select from pg_catalog.pg_namespace where nspname = 'pgbaton'), "
      "exists (select from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace "
      "where n.nspname = 'pgbaton' and c.relname = 'meta' and c.relkind = 'r')");
  Found found;
  found.schema = row[0].as<bool>();
  if (found.schema) refuse_foreign(tx);
  if (row[1].as<bool>()) found.version = tx.exec1("select schema_version from pgbaton.meta")[0].as<int>();
  return found;
}

void refuse_newer(const Found& found) {
  if (found.version <= kVersion) return;
  throw Error(ErrorKind::usage,
              fmt::format("schema pgbaton has version {}, this program knows up to {}", found.version, kVersion))
      .side(Side::target)
      .hint("Use the newer version of pgbaton that migrated it.");
}

// The registry of `pgbaton rebuild`; an older version of the schema does not have it.
bool holds_generations(pqxx::work& tx) {
  if (tx.exec1("select to_regclass('pgbaton.generation') is null")[0].as<bool>()) return false;
  tx.exec("lock table pgbaton.generation in access exclusive mode");
  return tx.exec1("select exists (select from pgbaton.generation)")[0].as<bool>();
}

void lock_install(pqxx::work& tx) {
  tx.exec(fmt::format("select pg_advisory_xact_lock({})", kInstallLock));
}

}  // namespace

void Store::install() {
  pg::control(Side::target, "installing schema pgbaton", [&] {
    pqxx::work tx(connection_);
    lock_install(tx);
    Found found = find_schema(tx);
    refuse_newer(found);
    if (found.version == kVersion) return;
    if (found.schema && found.version == 0)
      throw Error(ErrorKind::preflight, "the target has a schema pgbaton that this program did not make")
          .side(Side::target)
          .hint("Rename or drop that schema; pgbaton keeps its state under this name.");
    for (int version = found.version + 1; version <= kVersion; ++version) {
      tx.exec(std::string(kSteps.at(static_cast<std::size_t>(version - 1))));
      auto touched = tx.exec_params("update pgbaton.meta set schema_version = $1", version).affected_rows();
      if (touched != 1) throw Error(ErrorKind::failed, "pgbaton.meta does not hold one row").side(Side::target);
    }
    tx.exec(std::string(sql::target_schema_close));
    tx.commit();
  });
}

bool Store::installed() {
  return pg::control(Side::target, "looking for schema pgbaton", [&] {
    pqxx::nontransaction tx(connection_);
    const auto look = [&]() -> Found {
      try {
        return find_schema(tx);
      } catch (const pqxx::undefined_table&) {  // it went between two statements, with the last replica
        return {};
      }
    };
    Found found = look();
    refuse_newer(found);
    return found.version > 0;
  });
}

void Store::drop_schema_if_unused() {
  try {
    pqxx::work tx(connection_);
    lock_install(tx);
    Found found = find_schema(tx);
    refuse_newer(found);
    if (found.version == 0) return;
    tx.exec("lock table pgbaton.replica in access exclusive mode");
    if (tx.exec1("select count(*) from pgbaton.replica")[0].as<int>() > 0) return;
    if (holds_generations(tx)) return;
    for (const char* table : kOwnTables) tx.exec(fmt::format("drop table if exists pgbaton.{}", table));
    // Of tables that went while their replica lived: nobody else knows them.
    for (auto ledger : tx.exec("select quote_ident(relname) from pg_catalog.pg_class where relkind = 'r' and relname ~ "
                               "'^ledger_[0-9]+$' and relnamespace = 'pgbaton'::regnamespace"))
      tx.exec(fmt::format("drop table pgbaton.{}", ledger[0].as<std::string>()));
    tx.exec("drop function pgbaton.refuse_early_expiry()");
    tx.exec("drop schema pgbaton");
    tx.commit();
  } catch (const pqxx::sql_error& error) {
    constexpr std::string_view kDependentObjects = "2BP01";
    if (error.sqlstate() != kDependentObjects) pg::rethrow(Side::target, "dropping schema pgbaton");
    throw Error(ErrorKind::rejected, std::string("schema pgbaton stays, something else uses it: ") + error.what())
        .side(Side::target)
        .sqlstate(error.sqlstate())
        .hint("Drop or move what depends on it, then DROP SCHEMA pgbaton CASCADE by hand.");
  } catch (...) {
    pg::rethrow(Side::target, "dropping schema pgbaton");
  }
}

}  // namespace pgbaton::state
