#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/pg/plain_password.hpp>
#include <set>
#include <utility>

#include "conninfo.hpp"

namespace pgbaton::pg {
namespace {

using Options = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

bool is_secret(std::string_view keyword) {
  return keyword == "password" || keyword == "sslpassword";
}

// The rule by which PQconnectdb tells a connection string from a bare database name.
bool is_conninfo(std::string_view text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://") || text.find('=') != text.npos;
}
bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == text.npos;
}

ConninfoItems to_items(const PQconninfoOption* options) {
  ConninfoItems items;
  for (; options != nullptr && options->keyword != nullptr; ++options) {
    if (options->val != nullptr && *options->val != '\0') items.emplace_back(options->keyword, options->val);
  }
  return items;
}

// libpq quotes pieces of the string in its complaint; a piece may be a password (or the rest of one after a space), and
// may hold quotes itself: nothing between the first and the last one is shown.
std::string without_quoted_parts(std::string_view message) {
  const auto first = message.find('"'), last = message.rfind('"');
  auto text = std::string(message);
  if (first != message.npos) text.replace(first, last + 1 - first, "\"...\"");
  std::erase(text, '\n');
  return text;
}

// A string that libpq reads, but not as it was meant: of a password with an unescaped '@', ':' or '/', the rest becomes
// host, port or database, and these are shown in errors. "" when nothing looks like that.
std::string_view misread(std::string_view conninfo, const ConninfoItems& items) {
  constexpr std::string_view kEscape =
      "in a URI a '@', ':' or '/' of user, password or database is written %40, %3A or %2F";
  const auto value = [&](std::string_view keyword) { return find_item(items, keyword); };
  if (value("port").find_first_not_of("0123456789,") != std::string::npos) return kEscape;
  for (const auto* keyword : {"host", "hostaddr"}) {
    const auto at = value(keyword).find('@');
    if (at != std::string::npos && at != 0 && value(keyword)[at - 1] != ',') return kEscape;
  }
  const auto dbname = value("dbname");
  if (dbname.find("://") != std::string::npos || dbname.find("password=") != std::string::npos)
    return "its database is a connection string itself";
  const auto scheme = conninfo.find("://");
  if (scheme == conninfo.npos || scheme > conninfo.find('=')) return "";
  auto address = conninfo.substr(scheme + 3);
  address = address.substr(0, address.find('?'));
  const auto path = address.find('/');
  return path != address.npos && address.find('@', path) != address.npos ? kEscape : "";
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t i = 0; i <= b.size(); ++i) row[i] = i;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({diagonal + (a[i] == b[j] ? 0 : 1), row[j] + 1, row[j + 1] + 1}));
  }
  return row.back();
}

// What libpq does not know as a keyword may be a piece of a password with a blank in it. One that is a slip away from a
// keyword may be shown, with that keyword; else "".
std::string misspelt_keyword(std::string_view message) {
  constexpr std::string_view kUnknown = "invalid connection option \"";
  constexpr std::size_t kSlips = 2, kShort = 4;
  const auto begin = message.find(kUnknown);
  if (begin == message.npos) return "";
  auto word = message.substr(begin + kUnknown.size());
  word = word.substr(0, word.find('"'));
  if (word.size() < 3 || word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != word.npos) return "";
  const Options known(PQconndefaults(), &PQconninfoFree);
  for (const auto* option = known.get(); option != nullptr && option->keyword != nullptr; ++option)
    if (edit_distance(word, option->keyword) <= (word.size() <= kShort ? 1 : kSlips))
      return fmt::format("\"{}\"; did you mean {}?", word, option->keyword);
  return "";
}

std::string quoted_value(std::string_view value) {
  if (!value.empty() && value.find_first_of(" \t\n\r'\\") == value.npos) return std::string(value);
  std::string text = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') text += '\\';
    text += c;
  }
  return text + "'";
}

// Everything that pgbaton relies on, whatever the defaults of role, database or postgresql.conf are. All of them may be
// set by any role on every major from 12 to 18.
constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kPinned{{
    // One text form of each value on both sides.
    {"datestyle", "ISO,MDY"},
    {"intervalstyle", "postgres"},
    {"extra_float_digits", "3"},
    {"bytea_output", "hex"},
    {"timezone", "UTC"},
    {"lc_monetary", "C"},
    {"xmloption", "content"},
    {"array_nulls", "on"},
    {"standard_conforming_strings", "on"},
    // Names as format_type() and regclass print them are compared with what is expected.
    {"quote_all_identifiers", "off"},
    {"transform_null_equals", "off"},
    // No object is found by accident, and no user's function in place of a system's.
    {"search_path", ""},
    // A long copy or a long wait is not an error.
    {"statement_timeout", "0"},
    {"lock_timeout", "0"},
    {"idle_in_transaction_session_timeout", "0"},
    // What is tried, and refused, is no reason to lose the session.
    {"exit_on_error", "off"},
    // An error rather than a silently filtered copy.
    {"row_security", "off"},
    // What is acknowledged must be durable (G3).
    {"synchronous_commit", "on"},
    {"default_transaction_isolation", "read committed"},
    {"default_transaction_read_only", "off"},
    {"default_transaction_deferrable", "off"},
    // Compilation costs more than our short statements take.
    {"jit", "off"},
}};

}  // namespace

ConninfoItems parse_conninfo(std::string_view conninfo, Side side) {
  if (is_blank(conninfo)) return {};
  const auto refuse = [&](std::string_view why) -> Error {
    return Error(ErrorKind::usage,
                 fmt::format("the connection string of the {} cannot be read: {}", to_string(side), why))
        .side(side)
        .hint("Give keyword=value pairs, with values that hold spaces in single quotes, or a postgresql:// URI.");
  };
  if (!is_conninfo(conninfo)) {
    if (conninfo.find_first_of(":@") != conninfo.npos) throw refuse("it is neither a URI nor the name of a database");
    return {{"dbname", std::string(conninfo)}};
  }
  char* message = nullptr;
  const Options options(PQconninfoParse(std::string(conninfo).c_str(), &message), &PQconninfoFree);
  const std::unique_ptr<char, decltype(&PQfreemem)> owned(message, &PQfreemem);
  if (!options) {
    const std::string_view text = message == nullptr ? "out of memory" : message;
    if (const auto keyword = misspelt_keyword(text); !keyword.empty())
      throw refuse(fmt::format("there is no keyword {}", keyword));
    throw refuse(without_quoted_parts(text));
  }
  auto items = to_items(options.get());
  if (const auto why = misread(conninfo, items); !why.empty()) throw refuse(why);
  return items;
}

std::string build_conninfo(const ConninfoItems& items) {
  std::string text;
  for (const auto& [keyword, value] : items) {
    if (!text.empty()) text += ' ';
    text += keyword + "=" + quoted_value(value);
  }
  return text;
}

std::string redact(std::string_view conninfo) try {
  auto items = parse_conninfo(conninfo, Side::local);
  std::erase_if(items, [](const auto& item) { return is_secret(item.first); });
  return build_conninfo(items);
} catch (const Error&) {
  return "(a connection string that cannot be read)";
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) c == '\'' ? word += R"('\'')" : word += c;
  return word + "'";
}

std::string find_item(const ConninfoItems& items, std::string_view keyword) {
  const auto found = std::ranges::find_if(items, [&](const auto& item) { return item.first == keyword; });
  return found == items.end() ? std::string() : found->second;
}

// libpq merges services and environment only while it makes a connection object. An sslmode that does not exist ends
// that attempt after the merge and before any network is touched.
ConninfoItems effective_items(const std::string& conninfo) {
  const std::array<const char*, 3> keywords{"dbname", "sslmode", nullptr};
  const std::array<const char*, 3> values{conninfo.c_str(), "none-merge-only", nullptr};
  const std::unique_ptr<PGconn, FinishConnection> probe(PQconnectStartParams(keywords.data(), values.data(), 1));
  if (!probe) throw Error(ErrorKind::failed, "out of memory");
  const Options options(PQconninfo(probe.get()), &PQconninfoFree);
  auto items = to_items(options.get());
  std::erase_if(items, [](const auto& item) { return item.first == "sslmode"; });
  return items.empty() ? parse_conninfo(conninfo, Side::local) : items;
}

std::string application_name(const Endpoint& endpoint, std::string_view role) {
  return fmt::format("pgbaton/{}/{}", endpoint.replica_name, role);
}

ConninfoItems session_items(const Endpoint& endpoint, std::string_view role, const ConninfoItems& effective) {
  ConninfoItems items{{"application_name", application_name(endpoint, role)},
                      {"client_encoding", endpoint.client_encoding}};
  const auto users_options = find_item(effective, "options");
  // A later -c wins over an earlier one: the user's options stay, ours are in force.
  items.emplace_back("options", users_options + (users_options.empty() ? "" : " ") + pinned_startup_options());
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kUnlessGiven{{
      {"connect_timeout", "10"},
      // A dead peer is noticed after 30 + 3 * 10 s, and unacknowledged data after 60 s, instead of hours.
      {"keepalives", "1"},
      {"keepalives_idle", "30"},
      {"keepalives_interval", "10"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", "60000"},
  }};
  for (const auto& [keyword, value] : kUnlessGiven) {
    if (find_item(effective, keyword).empty()) items.emplace_back(keyword, value);
  }
  if (auto mode = forced_sslmode(endpoint.conninfo, endpoint.side); !mode.empty())
    items.emplace_back("sslmode", std::move(mode));
  return items;
}

ChildConnection child_connection(const Endpoint& endpoint, std::string_view role) {
  auto items = parse_conninfo(endpoint.conninfo, endpoint.side);
  const auto effective = effective_items(endpoint.conninfo);
  ChildConnection child;
  if (const auto password = find_item(items, "password"); !password.empty()) {
    child.environment.emplace_back("PGPASSWORD", password);
    std::erase_if(items, [](const auto& item) { return item.first == "passfile"; });  // ours would not be looked at
  }
  child.environment.emplace_back("PGAPPNAME", application_name(endpoint, role));
  // An options item, also one that a service file brings, would win over PGOPTIONS.
  const bool options_given = !find_item(items, "options").empty() || !find_item(items, "service").empty() ||
                             std::getenv("PGSERVICE") != nullptr;
  std::erase_if(items, [](const auto& item) {
    return is_secret(item.first) || item.first == "application_name" || item.first == "options" ||
           item.first == "client_encoding";
  });
  for (auto& [keyword, value] : session_items(endpoint, role, effective)) {
    if (keyword == "application_name" || keyword == "client_encoding") continue;
    if (keyword == "sslmode") std::erase_if(items, [](const auto& item) { return item.first == "sslmode"; });
    if (keyword == "options" && !options_given) {
      child.environment.emplace_back("PGOPTIONS", value);
    } else {
      items.emplace_back(keyword, value);
    }
  }
  child.conninfo = build_conninfo(items);
  return child;
}

std::string pinned_startup_options() {
  std::string options;
  for (const auto& [name, value] : kPinned) {
    if (!options.empty()) options += ' ';
    options += fmt::format("-c {}=", name);
    for (const char c : value) {
      if (c == ' ' || c == '\\') options += '\\';  // the server splits at blanks
      options += c;
    }
  }
  return options;
}

std::vector<std::string> pinned_statements(int server_version_num) {
  // PGDATESTYLE and PGTZ travel as start-up parameters of their own and win over the options.
  std::vector<std::string> statements{"SET datestyle = 'ISO, MDY'", "SET timezone = 'UTC'"};
  if (server_version_num >= 140000) statements.emplace_back("SET idle_session_timeout = 0");
  if (server_version_num >= 170000) statements.emplace_back("SET transaction_timeout = 0");
  return statements;
}

}  // namespace pgbaton::pg
