// Names of PostgreSQL objects, and the names that pgbaton gives to its own.
#pragma once
#include <compare>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pgbaton {

// Always quoted ("a""b"), so that no keyword list of any server version matters.
std::string quote_identifier(std::string_view name);
// 'it''s', with E'' when a backslash is in it; never depends on standard_conforming_strings.
std::string quote_literal(std::string_view text);
// SQL: the text that the output function of its type writes for `expression`, NULL for NULL. With
// `has_own_text_cast` somebody has made a cast from that type to text, which ::text would call.
std::string as_text(std::string_view expression, bool has_own_text_cast);

struct QualifiedName {
  std::string schema, name;
  auto operator<=>(const QualifiedName&) const = default;
  std::string quoted() const { return quote_identifier(schema) + "." + quote_identifier(name); }
};

// "schema.table" or "table" (schema public) by SQL identifier rules: unquoted parts fold to lower case. Throws
// Error(usage).
QualifiedName parse_qualified_name(std::string_view text);

// The schema that holds pgbaton's state on the target; never dumped, published or copied.
inline constexpr std::string_view kStateSchema = "pgbaton";
// The guard column.
inline constexpr std::string_view kGuardColumn = "_pgbaton_lsn";

// Names derived from a replica's --name ([a-z0-9_]{1,30}, without "__"). No name and "default" are the same replica.
struct ReplicaNames {
  explicit ReplicaNames(std::string_view name);  // throws Error(usage)
  std::string name;                              // as given, or "default" when none was
  std::string base;  // "pgbaton" for the default replica, else "pgbaton_<name>": slot and first publication
  std::string publication_inserts;  // <base>__ins: tables without usable identity
  std::string temporary_slot(int n) const { return base + "__tmp_" + std::to_string(n); }
};

}  // namespace pgbaton
