// Events: writing them, and reading them back for --events FILE and `status`.
#include <fmt/format.h>
#include <pgbaton/base/log.hpp>

#include "event_row.hpp"

namespace pgbaton::state {

namespace {

// Ids are shared by all replicas, so this keeps at most a thousand of each.
constexpr std::int64_t kKeptEvents = 1000;

constexpr std::string_view kColumns =
    "id, to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as at, kind, "
    "coalesce(detail::text, '') as detail, coalesce(case when json_typeof(detail) = 'object' then detail ->> 'message' "
    "end, '') as message";

std::vector<Event> read_events(const pqxx::result& rows) {
  std::vector<Event> events;
  for (auto row : rows)
    events.push_back({row["id"].as<std::int64_t>(), row["at"].as<std::string>(), row["kind"].as<std::string>(),
                      row["detail"].as<std::string>(), row["message"].as<std::string>()});
  return events;
}

}  // namespace

void insert_event(pqxx::transaction_base& tx, const std::string& name, std::string_view kind, std::string_view json) {
  auto row = tx.exec_params1(
      "insert into pgbaton.event (replica, kind, detail) values ($1, $2, nullif($3, '')::json) returning id", name,
      std::string(kind), std::string(json));
  tx.exec_params("delete from pgbaton.event where replica = $1 and id <= $2", name,
                 row[0].as<std::int64_t>() - kKeptEvents);
}

void Store::add_event(const std::string& name, std::string_view kind, std::string_view json) {
  pg::control(Side::target, "adding an event", [&] {
    pqxx::work tx(connection_);
    insert_event(tx, name, kind, json);
    tx.commit();
  });
}

bool Store::tell_event(const std::string& name, std::string_view kind, const Fields& detail) noexcept {
  try {
    add_event(name, kind, to_json(detail));
    return true;
  } catch (const std::exception& error) {
    log::debug("event {}: {}", kind, error.what());
    return false;
  }
}

std::string Store::event_statement(const std::string& name, std::string_view kind, const Fields& detail) {
  return fmt::format("insert into pgbaton.event (replica, kind, detail) values ({}, {}, {}::json)", quote_literal(name),
                     quote_literal(kind), quote_literal(to_json(detail)));
}

Events Store::load_events(const std::string& name, std::int64_t after_id) {
  if (!installed()) return {};
  return pg::control(Side::target, "reading events", [&] {
    Events events;
    // One snapshot, so that the rows are those of the transactions it names.
    pqxx::transaction<pqxx::repeatable_read, pqxx::read_only> tx(connection_);
    const auto seen = tx.exec1("select txid_snapshot_xmin(s), txid_snapshot_xmax(s) from txid_current_snapshot() s");
    events.oldest_running = seen[0].as<std::int64_t>();
    events.next_transaction = seen[1].as<std::int64_t>();
    events.rows = read_events(tx.exec_params(
        fmt::format("select {} from pgbaton.event where replica = $1 and id > $2 and kind <> $3 order by id", kColumns),
        name, after_id, std::string(kSchemaPart)));
    return events;
  });
}

std::vector<Event> Store::load_last_events(const std::string& name, const std::vector<std::string>& kinds,
                                           int at_most) {
  return pg::control(Side::target, "reading events", [&] {
    std::string list;
    for (const auto& kind : kinds) list += (list.empty() ? "" : ", ") + quote_literal(kind);
    pqxx::nontransaction tx(connection_);
    return read_events(tx.exec_params(
        fmt::format("select {} from pgbaton.event where replica = $1 and kind in ({}) order by id desc limit {}",
                    kColumns, list, at_most),
        name));
  });
}

}  // namespace pgbaton::state
