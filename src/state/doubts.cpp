#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/store.hpp>

#include <algorithm>
#include <array>
#include <optional>

namespace pgbaton::state {
namespace {

// By it a finding is known again: it stands for no change of the catalogs.
constexpr std::string_view kFound = "was found to differ by `verify`";

constexpr std::array kKinds{DoubtKind::unproven, DoubtKind::differs, DoubtKind::outside};

DoubtKind parse_kind(std::string_view text) {
  for (const auto kind : kKinds)
    if (to_string(kind) == text) return kind;
  throw Error(ErrorKind::failed, "pgbaton.doubt has a row of the unknown kind " + std::string(text))
      .side(Side::target)
      .hint("Use the newer version of pgbaton that wrote it.");
}

// Those that are stored and not seen any more, except what only a comparison can settle.
void remove_others(pqxx::work& tx, const std::string& replica, const std::vector<Doubt>& seen) {
  for (const auto& row : tx.exec_params(
           "select id, schema_name, table_name, reason from pgbaton.doubt where replica = $1 and kind <> 'unproven'",
           replica)) {
    const QualifiedName table{row[1].as<std::string>(), row[2].as<std::string>()};
    const bool still = std::ranges::any_of(
        seen, [&](const Doubt& doubt) { return doubt.table == table && doubt.reason == row[3].c_str(); });
    if (!still) tx.exec_params0("delete from pgbaton.doubt where id = $1", row[0].as<std::int64_t>());
  }
}

bool installed(pqxx::transaction_base& tx) {
  return !tx.exec1("select to_regclass('pgbaton.doubt') is null")[0].as<bool>();
}

bool is_current(pqxx::work& tx, const std::string& replica, const std::string& generation) {
  return !tx.exec_params("select from pgbaton.replica where name = $1 and generation = $2 for share", replica,
                         generation)
              .empty();
}

// Its number, or nothing when it is known already.
std::optional<std::int64_t> insert(pqxx::work& tx, const std::string& replica, const Doubt& doubt) {
  const auto added = tx.exec_params(
      "insert into pgbaton.doubt (replica, schema_name, table_name, kind, reason, remedy) "
      "values ($1, $2, $3, $4, $5, $6) on conflict do nothing returning id",
      replica, doubt.table.schema, doubt.table.name, std::string(to_string(doubt.kind)), doubt.reason, doubt.remedy);
  if (added.empty()) return std::nullopt;
  tx.exec(Store::event_statement(replica, "doubt",
                                 {{"table", doubt.table.quoted()},
                                  {"kind", std::string(to_string(doubt.kind))},
                                  {"message", doubt.reason},
                                  {"remedy", doubt.remedy}}));
  return added[0][0].as<std::int64_t>();
}

// Whether something found is to be stored: not beside what is known and stays.
bool makes_room(pqxx::work& tx, const std::string& replica, const QualifiedName& table, bool whole) {
  const std::string known =
      "pgbaton.doubt where replica = $1 and schema_name = $2 and table_name = $3 and starts_with(reason, $4)";
  if (!whole)
    return tx.exec_params("select from " + known, replica, table.schema, table.name, std::string(kFound)).empty();
  tx.exec_params0("delete from " + known, replica, table.schema, table.name, std::string(kFound));
  return true;
}

}  // namespace

std::string_view to_string(DoubtKind kind) {
  switch (kind) {
    case DoubtKind::unproven:
      return "unproven";
    case DoubtKind::differs:
      return "differs";
    case DoubtKind::outside:
      return "outside";
  }
  return "";
}

std::vector<Doubt> load_doubts(pg::Control& target, const std::string& replica) {
  return pg::control(Side::target, "loading what is in doubt", [&] {
    std::vector<Doubt> doubts;
    pqxx::nontransaction tx(target);
    if (!installed(tx)) return doubts;
    for (const auto& row : tx.exec_params(
             "select id, schema_name, table_name, kind, reason, remedy, "
             "to_char(at at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from pgbaton.doubt where replica = $1 "
             "order by schema_name, table_name, id",
             replica))
      doubts.push_back({row[0].as<std::int64_t>(),
                        {row[1].as<std::string>(), row[2].as<std::string>()},
                        parse_kind(row[3].c_str()),
                        row[4].as<std::string>(),
                        row[5].as<std::string>(),
                        row[6].as<std::string>()});
    return doubts;
  });
}

void store_doubts(pg::Control& target, const std::string& replica, const std::string& generation,
                  const std::vector<Doubt>& seen) {
  pg::control(Side::target, "storing what is in doubt", [&] {
    pqxx::work tx(target);
    if (!is_current(tx, replica, generation)) return;
    remove_others(tx, replica, seen);
    for (const auto& doubt : seen) {
      insert(tx, replica, doubt);
      if (doubt.kind == DoubtKind::outside)
        tx.exec_params0(
            "delete from pgbaton.doubt where replica = $1 and schema_name = $2 and table_name = $3 and kind = "
            "'unproven'",
            replica, doubt.table.schema, doubt.table.name);
    }
    tx.commit();
  });
}

void settle_doubts(pg::Control& target, const std::string& replica, const std::vector<QualifiedName>& tables,
                   std::int64_t up_to_id) {
  pg::control(Side::target, "settling what was in doubt", [&] {
    pqxx::work tx(target);
    for (const auto& table : tables)
      tx.exec_params(
          "delete from pgbaton.doubt where replica = $1 and schema_name = $2 and table_name = $3 and id <= $4 and "
          "kind = 'unproven'",
          replica, table.schema, table.name, up_to_id);
    tx.commit();
  });
}

std::set<std::int64_t> store_findings(pg::Control& target, const std::string& replica, const std::string& generation,
                                      const std::vector<Finding>& found, bool whole) {
  std::set<std::int64_t> ids;
  if (found.empty()) return ids;
  pg::control(Side::target, "storing what was found to differ", [&] {
    pqxx::work tx(target);
    if (!installed(tx) || !is_current(tx, replica, generation)) return;
    for (const auto& finding : found) {
      if (!makes_room(tx, replica, finding.table, whole)) continue;
      const auto reason = fmt::format("{}: {} row{} at {}", kFound, finding.rows, finding.rows == 1 ? "" : "s",
                                      to_string(finding.cut_lsn));
      const auto id =
          insert(tx, replica,
                 {0,
                  finding.table,
                  DoubtKind::unproven,
                  reason,
                  "`pgbaton verify --repair` mends it; once the replica is ready, `pgbaton resync` copies it "
                  "again",
                  {}});
      if (id) ids.insert(*id);
    }
    tx.commit();
  });
  return ids;
}

void remove_doubts(pg::Control& target, const std::string& replica, const std::set<std::int64_t>& ids) {
  if (ids.empty()) return;
  pg::control(Side::target, "removing what is in doubt no more", [&] {
    pqxx::work tx(target);
    tx.exec(fmt::format("delete from pgbaton.doubt where replica = {} and id in ({})", quote_literal(replica),
                        fmt::join(ids, ", ")));
    tx.commit();
  });
}

}  // namespace pgbaton::state
