#include "empty_tables.hpp"

#include <pgbaton/base/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "preflight.hpp"

namespace pgbaton::snapshot {

namespace {

struct Found {
  std::uint32_t oid = 0;
  QualifiedName name;
  char kind = 'r';
};

std::optional<Found> find(pqxx::work& tx, const std::string& condition, const std::string& value) {
  const auto rows = tx.exec_params(
      "select c.oid, n.nspname, c.relname, c.relkind from pg_catalog.pg_class c join pg_catalog.pg_namespace n on "
      "n.oid = c.relnamespace where c.relkind in ('r', 'p') and c.oid = " +
          condition,
      value);
  if (rows.empty()) return std::nullopt;
  return Found{rows[0][0].as<std::uint32_t>(),
               {rows[0][1].as<std::string>(), rows[0][2].as<std::string>()},
               *rows[0][3].c_str()};
}

// The replica's own table. Whoever renamed it on the target may have put another one under its name: that one has rows
// which no source brings back.
std::optional<Found> find_own(pqxx::work& tx, const state::TableState& table) {
  const auto by_name = find(tx, "pg_catalog.to_regclass($1)", table.name.quoted());
  if (table.target_oid == 0 || (by_name && by_name->oid == table.target_oid)) return by_name;
  const auto own = find(tx, "$1::oid", std::to_string(table.target_oid));
  if (by_name &&
      tx.exec1(fmt::format("select exists (select from {})", own_rows(by_name->name, by_name->kind)))[0].as<bool>()) {
    throw Error(ErrorKind::preflight, "another table stands where the replica's was, and has rows; nothing was emptied")
        .side(Side::target)
        .table(table.name.quoted())
        .hint(own ? fmt::format("The replica's is {} now: exchange the names again, or rename the other one.",
                                own->name.quoted())
                  : "Rename it, or empty it yourself if its rows are not needed.");
  }
  return own;
}

std::vector<Found> find_all(pqxx::work& tx, const std::vector<state::TableState>& tables) {
  std::vector<Found> all;
  for (const auto& table : tables) {
    if (table.phase == state::TablePhase::skipped) continue;
    if (auto own = find_own(tx, table)) all.push_back(std::move(*own));
  }
  return all;
}

// Foreign keys between these tables; they would keep them from being emptied and come back with the next build.
void drop_foreign_keys(pqxx::work& tx, const std::vector<std::uint32_t>& oids) {
  const auto keys = tx.exec_params(
      "select format('alter table %I.%I drop constraint %I', n.nspname, c.relname, k.conname) from "
      "pg_catalog.pg_constraint k join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on "
      "n.oid = c.relnamespace where k.contype = 'f' and k.conparentid = 0 and k.conrelid = any ($1::oid[]) and "
      "k.confrelid = any ($1::oid[])",
      fmt::format("{{{}}}", fmt::join(oids, ",")));
  for (auto row : keys) tx.exec(row[0].as<std::string>());
}

}  // namespace

void require_own_tables(pg::Control& target, const std::vector<state::TableState>& tables) {
  pg::control(Side::target, "looking for the tables of the replica", [&] {
    pqxx::work tx(target);
    find_all(tx, tables);
  });
}

void empty_tables(pg::Control& target, const state::Replica& replica, const std::vector<state::TableState>& tables) {
  pg::control(Side::target, "emptying the tables of the replica", [&] {
    pqxx::work tx(target);
    std::string list;
    std::vector<std::uint32_t> oids;
    for (const auto& table : find_all(tx, tables)) {
      list += (list.empty() ? "" : ", ") + own_rows(table.name, table.kind);
      oids.push_back(table.oid);
    }
    if (replica.schema_restored) drop_foreign_keys(tx, oids);
    if (!list.empty()) tx.exec("truncate " + list);
    tx.commit();
  });
}

}  // namespace pgbaton::snapshot
