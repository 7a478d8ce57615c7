#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <charconv>
#include <pgbaton/base/log.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/plain_password.hpp>
#include <pgbaton/pg/route.hpp>
#include <thread>

#include "conninfo.hpp"
#include "server_error.hpp"

namespace pgbaton::pg {
namespace {

// A balancer that picks one of two at random hides from so many with a chance of 1 in 16.
constexpr int kConnections = 5;
// A server that restarts, or a network that breaks, in each of so many probes is not there.
constexpr int kAttempts = 5;
constexpr Milliseconds kPause{100};

using Handle = std::unique_ptr<PGconn, FinishConnection>;

Handle connect_plainly(const Endpoint& endpoint) {
  const auto name = application_name(endpoint, "route");
  const bool patient = !find_item(effective_items(endpoint.conninfo), "connect_timeout").empty();
  const auto sslmode = forced_sslmode(endpoint.conninfo, endpoint.side);
  std::vector<const char*> keywords{"dbname", "application_name"}, values{endpoint.conninfo.c_str(), name.c_str()};
  const auto add = [&](const char* keyword, const char* value) {
    keywords.push_back(keyword);
    values.push_back(value);
  };
  if (!patient) add("connect_timeout", "10");
  if (!sslmode.empty()) add("sslmode", sslmode.c_str());
  add(nullptr, nullptr);
  return Handle(PQconnectdbParams(keywords.data(), values.data(), 1));
}

// One row, or nothing on any error: whoever refuses a plain query is told apart by the caller.
std::optional<Result> ask(PGconn* c, const char* sql) {
  Result result(PQexec(c, sql));
  if (result.status() != PGRES_TUPLES_OK || result.rows() != 1) return std::nullopt;
  return result;
}

constexpr const char* kBackend = "select pg_catalog.pg_backend_pid()::text";

std::string backend_of(PGconn* c) {
  const auto result = ask(c, kBackend);
  return result ? result->text(0, 0) : "";
}

// A standby shares everything with its primary but the moment of its start and its role.
std::string instance_of(PGconn* c) {
  const auto result = ask(c,
                          "select pg_catalog.pg_postmaster_start_time()::text, pg_catalog.pg_is_in_recovery(),"
                          " coalesce(pg_catalog.inet_server_port()::text, 'socket')");
  if (!result) return "";
  return fmt::format("{} (port {}) started {}", result->value(0, 1) == "t" ? "standby" : "primary", result->value(0, 2),
                     result->value(0, 0));
}

// While the second connection holds its transaction, a transaction pooler must give the first another server process,
// if it gave the second the one that the first had used.
bool changes_process(PGconn* first, PGconn* second) {
  const auto before = backend_of(first);
  const Result begun(PQexec(second, "begin"));
  const auto held = backend_of(second);
  const auto after = backend_of(first);
  const Result ended(PQexec(second, "rollback"));
  const bool refused = begun.status() != PGRES_COMMAND_OK || ended.status() != PGRES_COMMAND_OK;  // statement pooling
  return refused || before.empty() || before != after || before == held;
}

// What the connections of a probe said tells nothing when one was lost meanwhile. Only a pooler that allows no
// transactions may end those who begin one: it does so every time.
enum class Lost { none, at_begin, before };
struct Probe {
  Route route;
  Lost lost = Lost::none;
};

Probe probe_once(const Endpoint& endpoint) {
  std::vector<Handle> connections;
  while (connections.size() < kConnections) {
    auto connection = connect_plainly(endpoint);
    if (PQstatus(connection.get()) != CONNECTION_OK) {
      // Connection::open says it better, and with a SQLSTATE; when it passes, so would have the next attempt.
      if (connections.empty()) Connection::open(endpoint, "route");
      break;
    }
    connections.push_back(std::move(connection));
  }
  Probe probe;
  auto& route = probe.route;
  for (const auto& connection : connections) {
    PQsetNoticeProcessor(
        connection.get(), [](void*, const char*) {}, nullptr);
    if (backend_of(connection.get()) != std::to_string(PQbackendPID(connection.get()))) route.pooled = true;
    route.instances.push_back(instance_of(connection.get()));
  }
  std::ranges::sort(route.instances);
  route.instances.erase(std::ranges::unique(route.instances).begin(), route.instances.end());
  const auto lost = [&] {
    return std::ranges::any_of(connections,
                               [](const Handle& connection) { return PQstatus(connection.get()) != CONNECTION_OK; });
  };
  if (lost()) probe.lost = Lost::before;
  if (connections.size() > 1) route.per_transaction = changes_process(connections[0].get(), connections[1].get());
  if (probe.lost == Lost::none && lost()) probe.lost = Lost::at_begin;
  return probe;
}

}  // namespace

Route probe_route(const Endpoint& endpoint) {
  parse_conninfo(endpoint.conninfo, endpoint.side);  // refuses a wrong one without showing it
  bool always_at_begin = true;
  for (int attempt = 1;; ++attempt) {
    auto probe = probe_once(endpoint);
    always_at_begin = always_at_begin && probe.lost == Lost::at_begin;
    if (probe.lost == Lost::none || (attempt >= kAttempts && always_at_begin)) return probe.route;
    if (attempt >= kAttempts)
      throw Error(ErrorKind::failed, "connections are lost as soon as they are made")
          .side(endpoint.side)
          .action(Action::retry)
          .hint("Is the server restarting? Nothing was changed: run the same command again.");
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace pgbaton::pg
