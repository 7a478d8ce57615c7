// Poolers, balancers and readers between us and the servers. Asked before anything else: behind one of them nothing
// that a later question finds need be true a moment later.
#include <fmt/format.h>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/route.hpp>

#include <optional>
#include <thread>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

constexpr int kAttempts = 5;
constexpr Milliseconds kPause{200};
constexpr std::string_view kDirect = "Give host and port of the server itself, not of the pooler or balancer.";

std::string id_of(Side side, std::string_view what) {
  return fmt::format("{}.{}", to_string(side), what);
}

// What went wrong when a connection of that kind was tried; nullopt: nothing.
std::optional<Error> try_connection(const pg::Endpoint& endpoint, pg::Session session) {
  try {
    pg::Connection::open(endpoint, "route", session);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

void check_pooler(const pg::Endpoint& endpoint, const pg::Route& route, Findings& findings) {
  const std::string object(to_string(endpoint.side));
  if (route.per_transaction) {
    findings.blocker(
        id_of(endpoint.side, "pooler"), object,
        "a pooler hands each transaction to another session: locks, settings and snapshots are lost between "
        "them",
        std::string(kDirect));
  } else if (route.pooled) {
    if (const auto problem = try_connection(endpoint, pg::Session::plain))
      findings.blocker(
          id_of(endpoint.side, "pooler"), object,
          "a pooler stands in front of the server and does not let our settings through: " + problem->message(),
          std::string(kDirect));
    else
      findings.warning(id_of(endpoint.side, "pooler"), object,
                       "a pooler stands in front of the server; its limits and time-outs apply to a copy of hours, too",
                       std::string(kDirect));
  }
}

void check_instances(const pg::Endpoint& endpoint, const pg::Route& route, Findings& findings) {
  if (route.instances.size() < 2) return;
  std::string text;
  for (const auto& instance : route.instances) text += (text.empty() ? "" : "; ") + instance;
  findings.blocker(id_of(endpoint.side, "instances"), std::string(to_string(endpoint.side)),
                   "connections of one moment land on different servers: " + text,
                   "Give host and port of one server, the primary.");
}

// A role without the right, and a server without a free walsender, have findings of their own.
void check_replication_connection(const pg::Endpoint& source, Findings& findings) {
  auto problem = try_connection(source, pg::Session::replication);
  // A server that restarts just now, or a network that breaks, is no rule of pg_hba.conf.
  for (int i = 1; i < kAttempts && problem && problem->action() == Action::retry; ++i) {
    std::this_thread::sleep_for(kPause);
    problem = try_connection(source, pg::Session::replication);
  }
  if (!problem || problem->sqlstate() == "42501" || problem->sqlstate() == "53300") return;
  findings.blocker("source.replication_connection", "source",
                   "a replication connection cannot be made: " + problem->message(),
                   "Allow it in pg_hba.conf (the line of this database and role), and connect to the server itself.");
}

}  // namespace

std::vector<Finding> check_routes(const CheckOptions& options) {
  Findings findings;
  const auto check = [&](const pg::Endpoint& endpoint) {
    const auto route = pg::probe_route(endpoint);
    check_instances(endpoint, route, findings);
    check_pooler(endpoint, route, findings);
    if (endpoint.side == Side::source && !route.per_transaction) check_replication_connection(endpoint, findings);
  };
  check(options.clone.source);
  if (options.with_target) check(options.clone.target);
  return std::move(findings).sorted();
}

}  // namespace pgbaton::snapshot
