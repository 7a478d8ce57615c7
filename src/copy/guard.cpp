// The guard column: added without touching a row (fast default), dropped without CASCADE.
#include <fmt/format.h>

#include <pgbaton/base/log.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <thread>

#include "ddl.hpp"

namespace pgbaton::copy {
namespace {

// ALTER TABLE waits for readers of the target, in steps (ddl.hpp).
constexpr int kLockTries = 30;
constexpr Milliseconds kLockPause{500};

struct GuardState {
  bool exists = false, inherited = false;
  std::string type, default_value;  // as the catalog prints them
};

GuardState load_guard(pqxx::transaction_base& tx, const QualifiedName& table) {
  const auto rows = tx.exec_params(
      "select format_type(a.atttypid, a.atttypmod) as type, coalesce(pg_get_expr(d.adbin, d.adrelid), '') as value,"
      "       a.attinhcount > 0 as inherited"
      "  from pg_catalog.pg_attribute a"
      "  left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum"
      " where a.attrelid = to_regclass($1) and a.attname = $2 and not a.attisdropped",
      table.quoted(), std::string(kGuardColumn));
  if (rows.empty()) return {};
  return {true, rows[0]["inherited"].as<bool>(), rows[0]["type"].as<std::string>(), rows[0]["value"].as<std::string>()};
}

GuardState ask_guard(pg::Control& target, const QualifiedName& table) {
  return pg::control(Side::target, "reading the guard of " + table.quoted(), [&] {
    pqxx::nontransaction tx(target);
    return load_guard(tx, table);
  });
}

// The tables above, topmost first, whose column of this name is their own.
std::vector<QualifiedName> ancestors(pg::Control& target, const QualifiedName& table) {
  return pg::control(Side::target, "reading the parents of " + table.quoted(), [&] {
    pqxx::nontransaction tx(target);
    std::vector<QualifiedName> result;
    for (auto row : tx.exec_params(
             "with recursive up(oid, depth) as ("
             "  select inhparent, 1 from pg_catalog.pg_inherits where inhrelid = to_regclass($1)"
             "  union select i.inhparent, up.depth + 1 from up join pg_catalog.pg_inherits i on i.inhrelid = up.oid)"
             "select n.nspname, c.relname from (select oid, max(depth) as depth from up group by oid) u"
             "  join pg_catalog.pg_class c on c.oid = u.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
             "  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = $2 and not a.attisdropped"
             " order by u.depth desc, 1, 2",
             table.quoted(), std::string(kGuardColumn)))
      result.push_back({row[0].as<std::string>(), row[1].as<std::string>()});
    return result;
  });
}

void drop_own_guard(pg::Control& target, const QualifiedName& table) try {
  if (!ask_guard(target, table).exists) return;
  alter(target, "dropping the guard of " + table.quoted(),
        fmt::format("ALTER TABLE {} DROP COLUMN {}", table.quoted(), quote_identifier(kGuardColumn)));
} catch (Error& error) {
  if (error.sqlstate() != "2BP01") throw;
  throw Error(ErrorKind::rejected, error.message())
      .side(Side::target)
      .sqlstate(error.sqlstate())
      .table(table.quoted())
      .hint("Drop or redefine what depends on the column, then run the same command again.");
}

}  // namespace

std::string set_lock_timeout(bool local) {
  return fmt::format(
      "SELECT pg_catalog.set_config('lock_timeout', greatest(2000, setting::int + 500)::text, {}) FROM "
      "pg_catalog.pg_settings WHERE name = 'deadlock_timeout'",
      local);
}

void alter(pg::Control& target, const std::string& doing, const std::string& sql) {
  for (int tries = 1;; ++tries) {
    try {
      pg::control(Side::target, doing, [&] {
        pqxx::work tx(target);
        tx.exec1(set_lock_timeout(true));
        tx.exec0(sql);
        tx.commit();
      });
      return;
    } catch (Error& error) {
      if (error.sqlstate() != "55P03") throw;
      if (tries >= kLockTries)
        throw error.hint("End the long transactions on the target's table, then run the same command again.");
      log::info("{}: waiting for a lock ({} of {})", doing, tries, kLockTries);
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

void add_guard(pg::Control& target, const QualifiedName& table, Lsn boundary) {
  const auto doing = "adding the guard to " + table.quoted();
  const auto guard = ask_guard(target, table);
  if (guard.exists) {
    if (guard.type == "pg_lsn" && guard.default_value == fmt::format("'{}'::pg_lsn", to_string(boundary))) return;
    throw Error(ErrorKind::rejected,
                fmt::format("{}: there is a column {} {} already, default {}", doing, quote_identifier(kGuardColumn),
                            guard.type, guard.default_value.empty() ? "none" : guard.default_value))
        .side(Side::target)
        .table(table.quoted())
        .lsn(boundary)
        .hint("Drop the replica that the column belongs to, or the column itself, then run the same command again.");
  }
  alter(target, doing,
        fmt::format("ALTER TABLE {} ADD COLUMN {} pg_lsn NOT NULL DEFAULT '{}'", table.quoted(),
                    quote_identifier(kGuardColumn), to_string(boundary)));
}

void drop_guard(pg::Control& target, const QualifiedName& table) {
  const auto guard = ask_guard(target, table);
  if (!guard.exists || guard.type != "pg_lsn") return;
  if (guard.inherited)
    for (const auto& ancestor : ancestors(target, table)) drop_own_guard(target, ancestor);
  drop_own_guard(target, table);
}

void analyze(pg::Control& target, const QualifiedName& table) {
  pg::control(Side::target, "analyzing " + table.quoted(), [&] {
    pqxx::nontransaction tx(target);
    tx.exec0("ANALYZE " + table.quoted());
  });
}

}  // namespace pgbaton::copy
