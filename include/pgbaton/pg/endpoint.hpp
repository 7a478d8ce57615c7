// Where a server is and how this process talks to it. Every connection of pgbaton is opened from an Endpoint, so that
// each carries a role in application_name (pgbaton/<replica>/<role>), TCP keepalives and the pinned session settings.
#pragma once
#include <pgbaton/base/error.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pgbaton::pg {

struct Endpoint {
  Side side = Side::source;
  std::string conninfo;      // any libpq string or URI, as the user gave it; may hold a password: print redact()
  std::string replica_name;  // for application_name
  std::string client_encoding = "UTF8";
};

// A conninfo string or URI parsed by libpq (PQconninfoParse), environment and service files NOT merged in.
// Throws Error(usage) without the password in the message.
using ConninfoItems = std::vector<std::pair<std::string, std::string>>;
ConninfoItems parse_conninfo(std::string_view conninfo, Side side);
// keyword=value pairs from items, values quoted where they must be.
std::string build_conninfo(const ConninfoItems& items);
// The same without password, sslpassword and the like: for logs, state and `ps`.
std::string redact(std::string_view conninfo);
// As one word of a shell's command line, for lines that a user pastes.
std::string shell_word(std::string_view text);
// For child processes (pg_dump, pg_restore): conninfo without secrets, and the environment that carries them.
struct ChildConnection {
  std::string conninfo;
  std::vector<std::pair<std::string, std::string>> environment;  // PGPASSWORD, PGAPPNAME, PGOPTIONS
};
ChildConnection child_connection(const Endpoint& endpoint, std::string_view role);

// Session settings that make text output the same whatever the role's or database's defaults say (DESIGN 3.4, 3.6):
// ISO dates, hex bytea, full float digits, UTC, empty search_path, no timeouts, row_security off (an error rather than
// a filtered copy), synchronous_commit on, read committed, read-write. Split in two because GUCs newer than the server
// must not be named in the start-up packet.
std::string pinned_startup_options();
std::vector<std::string> pinned_statements(
    int server_version_num);  // also idle_session_timeout (14), transaction_timeout (17)

}  // namespace pgbaton::pg
