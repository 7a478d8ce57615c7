// What stands between us and a server: nothing, a pooler, or a balancer in front of several servers. Found out with
// plain connections, before any that needs our start-up options (a pooler may refuse those with a message that says
// nothing of poolers).
#pragma once
#include <pgbaton/pg/endpoint.hpp>

#include <string>
#include <vector>

namespace pgbaton::pg {

struct Route {
  // The server process is not the one that the connection was told of: someone in the middle keeps the connections.
  bool pooled = false;
  // Even from one statement to the next the server process changes (transaction pooling).
  bool per_transaction = false;
  // One text for each instance that connections of one moment landed on, for people; more than one is a balancer.
  std::vector<std::string> instances;
};

// Opens a few connections at a time, reads with them, closes them. Throws as Connection::open does when not even the
// first can be made.
Route probe_route(const Endpoint& endpoint);

}  // namespace pgbaton::pg
