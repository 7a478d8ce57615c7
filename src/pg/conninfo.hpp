// What open(), open_control() and child_connection() share: the options that a connection string really means, and
// ours on top of them.
#pragma once
#include <pgbaton/pg/endpoint.hpp>

namespace pgbaton::pg {

// The value of `keyword`; empty when it is not there.
std::string find_item(const ConninfoItems& items, std::string_view keyword);

// What libpq would use: the string with service file, environment and compiled defaults merged in. Nothing connects.
// When the string or its service cannot be read, only what the string says itself.
ConninfoItems effective_items(const std::string& conninfo);

// The items that pgbaton sets over the user's: application_name, client_encoding, the pinned options behind the user's
// own, keepalives and time-outs where the user gave none, and the sslmode that a password needs.
ConninfoItems session_items(const Endpoint& endpoint, std::string_view role, const ConninfoItems& effective);

std::string application_name(const Endpoint& endpoint, std::string_view role);

}  // namespace pgbaton::pg
