// Requests to the running writer.
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/store.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace pgbaton::state {

namespace {

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      quoted += c;
  }
  return quoted + '"';
}

Fields read_fields(pqxx::transaction_base& tx, const std::string& column, std::int64_t id) {
  Fields fields;
  const auto object = fmt::format("case when json_typeof(q.{0}) = 'object' then q.{0} end", column);
  for (auto row : tx.exec_params(fmt::format("select f.key, f.value from pgbaton.request q, json_each_text({}) f "
                                             "where q.id = $1 and f.value is not null",
                                             object),
                                 id))
    fields[row[0].as<std::string>()] = row[1].as<std::string>();
  return fields;
}

}  // namespace

std::string to_json(const Fields& fields) {
  std::string json = "{";
  for (const auto& [name, value] : fields) {
    if (json.size() > 1) json += ", ";
    json += json_text(name) + ": " + json_text(value);
  }
  return json + "}";
}

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
             "returning q.id, q.kind",
             replica.name, replica.epoch, replica.generation))
      requests.push_back({row[0].as<std::int64_t>(), row[1].as<std::string>(), {}, "taken", {}});
    for (auto& request : requests) request.payload = read_fields(tx, "payload", request.id);
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

bool Store::report_request(std::int64_t id, const Fields& result) {
  return pg::control(Side::target, "answering a request", [&] {
    pqxx::work tx(connection_);
    auto touched = tx.exec_params("update pgbaton.request set result = $2::json where id = $1 and state = 'taken'", id,
                                  to_json(result));
    tx.commit();
    return touched.affected_rows() == 1;
  });
}

void Store::delete_request(std::int64_t id) {
  pg::control(Side::target, "removing a request", [&] {
    pqxx::work tx(connection_);
    tx.exec_params("delete from pgbaton.request where id = $1", id);
    tx.commit();
  });
}

std::optional<Request> Store::load_request(std::int64_t id) {
  return pg::control(Side::target, "reading a request", [&]() -> std::optional<Request> {
    pqxx::read_transaction tx(connection_);
    auto rows = tx.exec_params("select kind, state from pgbaton.request where id = $1", id);
    if (rows.empty()) return std::nullopt;
    return Request{id, rows[0][0].as<std::string>(), read_fields(tx, "payload", id), rows[0][1].as<std::string>(),
                   read_fields(tx, "result", id)};
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

}  // namespace pgbaton::state
