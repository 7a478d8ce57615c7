#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/copy/database.hpp>
#include <pgbaton/pg/connection.hpp>
#include <string_view>

namespace pgbaton::copy {
namespace {

// GUC_LIST_QUOTE in src/backend/utils/misc/guc.c: kept as a list of quoted identifiers.
constexpr std::array<std::string_view, 7> kLists{"search_path",
                                                 "temp_tablespaces",
                                                 "createrole_self_grant",
                                                 "local_preload_libraries",
                                                 "session_preload_libraries",
                                                 "shared_preload_libraries",
                                                 "unix_socket_directories"};

constexpr const char* kSettings =
    "SELECT r.rolname, c FROM pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) c "
    "LEFT JOIN pg_roles r ON r.oid = s.setrole "
    "WHERE s.setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1 NULLS FIRST, 2";

// Without an ACL of its own a database has the server's defaults, which need no GRANT.
constexpr const char* kRights =
    "SELECT CASE x.grantee WHEN 0 THEN '' ELSE pg_get_userbyid(x.grantee) END, x.privilege_type, x.is_grantable "
    "FROM pg_database d CROSS JOIN LATERAL aclexplode(d.datacl) x "
    "WHERE d.datname = current_database() AND x.grantee <> d.datdba ORDER BY 1, 2";
constexpr const char* kRevokedFromPublic =
    "SELECT p FROM pg_database d CROSS JOIN unnest('{CONNECT,TEMPORARY}'::text[]) p WHERE d.datname = "
    "current_database() AND d.datacl IS NOT NULL AND NOT EXISTS (SELECT FROM aclexplode(d.datacl) x WHERE x.grantee = "
    "0 "
    "AND x.privilege_type = p)";

bool loads_libraries(std::string_view setting) {
  return setting.substr(0, setting.find('=')).ends_with("_preload_libraries");
}

// `"a b", c` → 'a b', 'c'
std::string literals_of_list(std::string_view list) {
  std::vector<std::string> items;
  std::string item;
  bool quoted = false, any = false;
  const auto end_item = [&] {
    if (any) items.push_back(quote_literal(item));
    item.clear();
    any = false;
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '"') {
      if (quoted && i + 1 < list.size() && list[i + 1] == '"') {
        item += list[++i];
      } else {
        quoted = !quoted;
        any = true;
      }
    } else if (!quoted && c == ',') {
      end_item();
    } else if (quoted || c != ' ') {
      item += c;
      any = true;
    }
  }
  end_item();
  return items.empty() ? "''" : fmt::format("{}", fmt::join(items, ", "));
}

class Properties {
 public:
  Properties(const pg::Endpoint& source, const pg::Endpoint& target)
      : source_(pg::Connection::open(source, "database")),
        target_(pg::Connection::open(target, "database")),
        name_(quote_identifier(target_.exec("SELECT current_database()").text(0, 0))) {}

  void comment() {
    const auto row = source_.exec(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()");
    if (!row.is_null(0, 0)) run(fmt::format("COMMENT ON DATABASE {} IS {}", name_, quote_literal(row.value(0, 0))));
  }

  void privileges() {
    const auto rights = source_.exec(kRights);
    for (int i = 0; i < rights.rows(); ++i)
      run(fmt::format("GRANT {} ON DATABASE {} TO {}{}", rights.text(i, 1), name_,
                      rights.value(i, 0).empty() ? "PUBLIC" : quote_identifier(rights.value(i, 0)),
                      rights.value(i, 2) == "t" ? " WITH GRANT OPTION" : ""));
    const auto revoked = source_.exec(kRevokedFromPublic);
    for (int i = 0; i < revoked.rows(); ++i)
      run(fmt::format("REVOKE {} ON DATABASE {} FROM PUBLIC", revoked.text(i, 0), name_));
  }

  void settings() {
    const auto rows = source_.exec(kSettings);
    for (int i = 0; i < rows.rows(); ++i) {
      const auto setting = rows.text(i, 1);
      const auto statement = rows.is_null(i, 0)
                                 ? fmt::format("ALTER DATABASE {} SET {}", name_, setting_assignment(setting))
                                 : fmt::format("ALTER ROLE {} IN DATABASE {} SET {}",
                                               quote_identifier(rows.value(i, 0)), name_, setting_assignment(setting));
      if (loads_libraries(setting))
        warn(fmt::format("left out, because it loads libraries: {}", statement));
      else
        run(statement);
    }
  }

  std::vector<std::string> take_warnings() { return std::move(warnings_); }

 private:
  void run(const std::string& statement) {
    try {
      target_.exec(statement);
    } catch (const Error& error) {
      if (error.sqlstate().empty() || error.action() == Action::retry) throw;
      warn(fmt::format("the target refused: {} ({})", statement, error.message()));
    }
  }
  void warn(std::string text) {
    log::warning("{}", text);
    warnings_.push_back(std::move(text));
  }

  pg::Connection source_, target_;
  const std::string name_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::string setting_assignment(const std::string& setting) {
  const auto at = setting.find('=');
  const auto name = setting.substr(0, at), value = setting.substr(at + 1);
  std::string quoted;  // of an extension: prefix.name
  for (std::size_t begin = 0, dot = 0; dot != std::string::npos; begin = dot + 1) {
    dot = name.find('.', begin);
    quoted += (begin == 0 ? "" : ".") + quote_identifier(name.substr(begin, dot - begin));
  }
  const bool is_list = std::ranges::find(kLists, name) != kLists.end();
  return quoted + " TO " + (is_list ? literals_of_list(value) : quote_literal(value));
}

std::vector<std::string> copy_database_properties(const pg::Endpoint& source, const pg::Endpoint& target,
                                                  const DatabaseOptions& options) {
  Properties properties(source, target);
  if (options.comment) properties.comment();
  if (options.privileges) properties.privileges();
  if (options.settings) properties.settings();
  return properties.take_warnings();
}

}  // namespace pgbaton::copy
