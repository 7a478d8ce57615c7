#include "tombstone.hpp"

#include "guard.hpp"

#include <fmt/format.h>

#include <vector>

namespace pgbaton::apply {

namespace {

struct Place {
  std::string replica, schema, name;
};

Place bind_place(Statement& statement, const RowSession& session, const TargetTable& table) {
  return {statement.bind_view(session.replica, "text"), statement.bind_view(table.name.schema, "text"),
          statement.bind_view(table.name.name, "text")};
}

std::vector<std::string> bind_key(Statement& statement, const TargetTable& table, wire::Tuple row) {
  std::vector<std::string> values;
  for (std::size_t i : table.key) values.push_back(statement.bind(row[i], table.columns[i].cast_type));
  return values;
}

constexpr std::string_view kUnlessNewer =
    " ON CONFLICT (replica, schema_name, table_name, key) DO UPDATE SET commit_lsn = EXCLUDED.commit_lsn "
    "WHERE s.commit_lsn < EXCLUDED.commit_lsn";

}  // namespace

std::string tombstone_key(const TargetTable& table, wire::Tuple row) {
  std::string text = "[";
  for (std::size_t i : table.key) {
    if (text.size() > 1) text += ',';
    text += '"';
    for (char c : row[i].data) {
      if (c == '"' || c == '\\') text += '\\';
      if (static_cast<unsigned char>(c) < 0x20)
        text += fmt::format("\\u{:04x}", static_cast<int>(c));
      else
        text += c;
    }
    text += '"';
  }
  return text + "]";
}

bool leaves_tombstones(const RowSession& session, const TargetTable& table) {
  if (table.key.empty()) return false;
  return table.guard == GuardMode::ledger || table.delivery == Delivery::any_order ||
         session.tombstones.wanted(table.name);
}

void bury(RowSession& session, const Change& change, wire::Tuple key_row) {
  const TargetTable& table = *change.table;
  Statement statement;
  if (table.guard == GuardMode::ledger) {
    const auto key = bind_key(statement, table, key_row);
    statement.sql = guard::enter(table, key, statement.bind_lsn(change.commit_lsn), true, "");
  } else {
    const Place place = bind_place(statement, session, table);
    const std::string key = statement.bind_own(tombstone_key(table, key_row), "text");
    const std::string lsn = statement.bind_lsn(change.commit_lsn);
    statement.sql = fmt::format(
        "INSERT INTO pgbaton.tombstone AS s (replica, schema_name, table_name, key, commit_lsn) VALUES ({}, {}, {}, "
        "{}, {}){}",
        place.replica, place.schema, place.name, key, lsn, kUnlessNewer);
  }
  session.run(change, statement);
}

bool is_buried(RowSession& session, const Change& change, wire::Tuple key_row, bool also_at_same_lsn) {
  const TargetTable& table = *change.table;
  const std::string_view above = also_at_same_lsn ? ">=" : ">";
  Statement look;
  const Place place = bind_place(look, session, table);
  const std::string lsn = look.bind_lsn(change.commit_lsn);
  std::string stone;
  if (table.guard == GuardMode::ledger)
    stone = fmt::format("FROM {} AS l WHERE {} AND l.deleted AND l.commit_lsn", table.ledger,
                        guard::ledger_match(table, bind_key(look, table, key_row)));
  else
    stone = fmt::format(
        "FROM pgbaton.tombstone WHERE replica = {} AND schema_name = {} AND table_name = {} AND key = {} AND "
        "commit_lsn",
        place.replica, place.schema, place.name, look.bind_own(tombstone_key(table, key_row), "text"));
  look.sql = fmt::format(
      "SELECT EXISTS (SELECT {0} {1} {2}) OR EXISTS (SELECT FROM pgbaton.table_state WHERE replica = {3} AND "
      "schema_name = {4} AND table_name = {5} AND floor_lsn {1} {2})",
      stone, above, lsn, place.replica, place.schema, place.name);
  return session.run(change, look).value(0, 0) == "t";
}

void require_remembered(RowSession& session, const Change& change) {
  if (!session.expired_lsn) {
    Statement look;
    look.sql = "SELECT expired_lsn FROM pgbaton.replica WHERE name = " + look.bind_view(session.replica, "text");
    const pg::Result found = session.run(change, look);
    session.expired_lsn = found.rows() == 1 ? require_lsn(found.value(0, 0), "pgbaton.replica.expired_lsn") : Lsn{};
  }
  if (change.commit_lsn >= *session.expired_lsn) return;
  throw Error(ErrorKind::boundary_lost,
              fmt::format("a change at {} came out of order, but tombstones below {} have expired: whether it is older "
                          "than a delete cannot be said any more",
                          to_string(change.commit_lsn), to_string(*session.expired_lsn)))
      .side(Side::target)
      .table(change.table->quoted)
      .lsn(change.commit_lsn)
      .hint(
          "Nothing was written. Copy the table again at a new boundary, or start anew with `pgbaton clone --restart`.");
}

std::string bury_many_statement() {
  return fmt::format(
      "INSERT INTO pgbaton.tombstone AS s (replica, schema_name, table_name, key, commit_lsn) "
      "SELECT $1::text, $2::text, $3::text, u.key, u.lsn FROM unnest($4::text[], $5::pg_lsn[]) AS u(key, lsn){}",
      kUnlessNewer);
}

}  // namespace pgbaton::apply
