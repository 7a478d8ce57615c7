#include <pgbaton/base/error.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/store.hpp>

#include <algorithm>
#include <array>

namespace pgbaton::state {
namespace {

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
    if (tx.exec1("select to_regclass('pgbaton.doubt') is null")[0].as<bool>()) return doubts;
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
    if (tx.exec_params("select from pgbaton.replica where name = $1 and generation = $2 for share", replica, generation)
            .empty())
      return;
    remove_others(tx, replica, seen);
    for (const auto& doubt : seen) {
      const auto added = tx.exec_params(
          "insert into pgbaton.doubt (replica, schema_name, table_name, kind, reason, remedy) "
          "values ($1, $2, $3, $4, $5, $6) on conflict do nothing",
          replica, doubt.table.schema, doubt.table.name, std::string(to_string(doubt.kind)), doubt.reason,
          doubt.remedy);
      if (added.affected_rows() > 0)
        tx.exec(Store::event_statement(replica, "doubt",
                                       {{"table", doubt.table.quoted()},
                                        {"kind", std::string(to_string(doubt.kind))},
                                        {"message", doubt.reason},
                                        {"remedy", doubt.remedy}}));
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

}  // namespace pgbaton::state
