// Requests to the running writer, and events for people.
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/store.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace pgbaton::state {

std::int64_t Store::insert_request(const std::string& name, std::string_view kind, std::string_view payload) {
  return pg::control(Side::target, "asking the writer", [&] {
    pqxx::work tx(connection_);
    auto row = tx.exec_params1(
        "insert into pgbaton.request (replica, kind, payload) values ($1, $2, nullif($3, '')::json) returning id", name,
        std::string(kind), std::string(payload));
    tx.exec_params("select pg_notify($1, $2)", std::string(kRequestChannel), name);
    tx.commit();
    return row[0].as<std::int64_t>();
  });
}

std::vector<Request> Store::take_requests(const Replica& replica) {
  return pg::control(Side::target, "taking requests", [&] {
    std::vector<Request> requests;
    pqxx::work tx(connection_);
    // A stale writer finds no row of its epoch and takes nothing.
    for (auto row : tx.exec_params(
             "update pgbaton.request q set state = 'taken', taken_at = now() from pgbaton.replica r "
             "where q.replica = $1 and q.state = 'open' and r.name = q.replica and r.epoch = $2 and r.generation = $3 "
             "returning q.id, q.kind, coalesce(q.payload::text, '')",
             replica.name, replica.epoch, replica.generation))
      requests.push_back({row[0].as<std::int64_t>(), row[1].as<std::string>(), row[2].as<std::string>()});
    tx.commit();
    std::sort(requests.begin(), requests.end(), [](const Request& a, const Request& b) { return a.id < b.id; });
    return requests;
  });
}

void Store::complete_request(std::int64_t id, std::string_view result) {
  pg::control(Side::target, "completing a request", [&] {
    pqxx::work tx(connection_);
    auto touched = tx.exec_params(
        "update pgbaton.request set state = 'done', done_at = now(), result = nullif($2, '')::json "
        "where id = $1 and state = 'taken'",
        id, std::string(result));
    if (touched.affected_rows() != 1)
      throw Error(ErrorKind::failed, fmt::format("request {} is not one that was taken", id))
          .side(Side::target)
          .hint("Look at pgbaton.request: the replica may have been dropped meanwhile.");
    tx.commit();
  });
}

std::optional<std::string> Store::request_state(std::int64_t id) {
  return pg::control(Side::target, "reading a request", [&]() -> std::optional<std::string> {
    pqxx::nontransaction tx(connection_);
    auto rows = tx.exec_params("select state from pgbaton.request where id = $1", id);
    if (rows.empty()) return std::nullopt;
    return rows[0][0].as<std::string>();
  });
}

void Store::add_event(const std::string& name, std::string_view kind, std::string_view json) {
  pg::control(Side::target, "adding an event", [&] {
    pqxx::work tx(connection_);
    auto row = tx.exec_params1(
        "insert into pgbaton.event (replica, kind, detail) values ($1, $2, nullif($3, '')::json) returning id", name,
        std::string(kind), std::string(json));
    // Ids are shared by all replicas, so this keeps at most a thousand of each.
    constexpr std::int64_t kKeptEvents = 1000;
    tx.exec_params("delete from pgbaton.event where replica = $1 and id <= $2", name,
                   row[0].as<std::int64_t>() - kKeptEvents);
    tx.commit();
  });
}

}  // namespace pgbaton::state
