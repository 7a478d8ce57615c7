#include "compare.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "session.hpp"

namespace pgbaton::testing {
namespace {

// ROW(a::text, b::text)::text tells NULL from '' and needs no key or operator of any type; both sides sort by its md5,
// whose hex digits order the same in every collation and are never escaped by COPY.
struct Table {
  std::string columns;  // "a integer, b text", sorted by name
  std::string copy;     // statement that yields "md5<TAB>row text", sorted
};

constexpr const char* kPinned = R"(
set datestyle = 'ISO, YMD'; set intervalstyle = postgres; set timezone = 'UTC'; set bytea_output = hex;
set extra_float_digits = 3; set search_path = ''; set client_encoding = 'UTF8'; set statement_timeout = 0;
set lock_timeout = 0; set row_security = off; set lc_monetary = 'C'; set work_mem = '256MB'; set xmloption = content; set jit = off)";

constexpr const char* kTables = R"(
select n.nspname, c.relname, c.relkind,
       coalesce(string_agg(quote_ident(a.attname), chr(1) order by a.attname collate "C"), ''),
       coalesce(string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', '
                           order by a.attname collate "C"), '')
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  left join pg_catalog.pg_attribute a
    on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attname <> '_pgbaton_lsn'
 where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
   and n.nspname not in ('pg_catalog', 'information_schema', 'pgbaton') and n.nspname !~ '^pg_(toast|temp)'
 group by 1, 2, 3)";

std::string build_copy(const Row& row) {
  std::string columns;
  for (std::size_t at = 0; at < row[3]->size();) {
    const auto end = std::min(row[3]->find('\1', at), row[3]->size());
    columns += (columns.empty() ? "" : ", ") + row[3]->substr(at, end - at) + "::text";
    at = end + 1;
  }
  const auto from =
      std::string(row[2] == "r" ? "only " : "") + quote_identifier(*row[0]) + "." + quote_identifier(*row[1]);
  return "copy (select md5(t), t from (select row(" + columns + ")::text t from " + from + ") s order by 1) to stdout";
}

std::map<std::string, Table> load_tables(Session& session, const CompareOptions& options) {
  const auto& exclude = options.exclude;
  session.exec(kPinned);
  std::map<std::string, Table> result;
  for (const auto& row : session.query(kTables)) {
    const auto name = *row[0] + "." + *row[1];
    if (std::find(exclude.begin(), exclude.end(), name) == exclude.end()) {
      result[name] = {options.types ? *row[4] : *row[3], build_copy(row)};
    }
  }
  return result;
}

class RowStream {
 public:
  RowStream(Session& session, const std::string& copy) : session_(session) {
    PGresult* result = PQexec(session_.get(), copy.c_str());
    const bool ok = PQresultStatus(result) == PGRES_COPY_OUT;
    const std::string message = PQresultErrorMessage(result);
    PQclear(result);
    if (!ok) throw SqlError(message + " in: " + copy, "");
    advance();
  }
  const std::optional<std::string>& current() const { return current_; }
  std::string key() const { return current_->substr(0, 32); }
  std::string row() const { return current_->substr(33, 300); }
  void advance() {
    char* buffer = nullptr;
    const int length = PQgetCopyData(session_.get(), &buffer, 0);
    if (length > 0) {
      current_.emplace(buffer, static_cast<std::size_t>(length - 1));  // without the line feed
      PQfreemem(buffer);
      ++rows;
      return;
    }
    current_.reset();
    if (length == -2) throw SqlError(PQerrorMessage(session_.get()), "");
    session_.finish();
  }
  long long rows = 0;

 private:
  Session& session_;
  std::optional<std::string> current_;
};

// Keeps the first lines of a table and counts the rest.
struct Report {
  std::vector<std::string>& lines;
  std::size_t max_lines;
  void add(std::string line) {
    if (lines.size() < max_lines) lines.push_back(std::move(line));
  }
};

void compare_rows(Session& source, Session& target, const std::string& name, const Table& s, const Table& t,
                  Report report) {
  RowStream left(source, s.copy), right(target, t.copy);
  long long only_left = 0, only_right = 0;
  while (left.current() || right.current()) {
    const int order = !left.current() ? 1 : !right.current() ? -1 : left.key().compare(right.key());
    if (order < 0) {
      if (++only_left <= 5) report.add(name + ": only on the source: " + left.row());
      left.advance();
    } else if (order > 0) {
      if (++only_right <= 5) report.add(name + ": only on the target: " + right.row());
      right.advance();
    } else {
      left.advance();
      right.advance();
    }
  }
  if (only_left + only_right == 0) return;
  report.lines.push_back(name + ": " + std::to_string(only_left) + " rows only on the source, " +
                         std::to_string(only_right) + " only on the target, of " + std::to_string(left.rows) + " and " +
                         std::to_string(right.rows));
}

std::map<std::string, std::string> load_sequences(Session& session) {
  std::map<std::string, std::string> result;
  for (const auto& row : session.query("select schemaname, sequencename from pg_catalog.pg_sequences "
                                       "where schemaname <> 'pgbaton'")) {
    const auto name = quote_identifier(*row[0]) + "." + quote_identifier(*row[1]);
    result[name] = session.scalar("select (last_value, is_called)::text from " + name);
  }
  return result;
}

void compare_sequences(Session& source, Session& target, Report report) {
  const auto left = load_sequences(source);
  auto right = load_sequences(target);
  for (const auto& [name, state] : left) {
    const auto other = right.count(name) != 0 ? right[name] : "missing";
    if (state != other) report.add("sequence " + name + ": source " + state + ", target " + other);
    right.erase(name);
  }
  for (const auto& [name, state] : right) report.add("sequence " + name + ": only on the target");
}

std::vector<std::string> column(const std::string& conninfo, const std::string& sql) {
  std::vector<std::string> result;
  for (const auto& row : Session(conninfo).query(sql)) result.push_back(row[0].value_or(""));
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

std::vector<std::string> differences(const std::string& source_conninfo, const std::string& target_conninfo,
                                     const CompareOptions& options) {
  std::vector<std::string> lines;
  const Report report{lines, options.max_lines};
  Session source(source_conninfo), target(target_conninfo);
  const auto left = load_tables(source, options);
  auto right = load_tables(target, options);
  for (const auto& [name, table] : left) {
    const auto found = right.find(name);
    if (found == right.end()) {
      lines.push_back("table " + name + ": missing on the target");
      continue;
    }
    if (table.columns != found->second.columns) {
      lines.push_back("table " + name + ": columns (" + table.columns + ") and (" + found->second.columns + ")");
    } else {
      compare_rows(source, target, name, table, found->second, report);
    }
    right.erase(found);
  }
  for (const auto& [name, table] : right) lines.push_back("table " + name + ": only on the target");
  if (options.sequences) compare_sequences(source, target, report);
  return lines;
}

std::vector<std::string> leftovers(const std::string& source_conninfo) {
  return column(source_conninfo, R"(
select 'slot ' || slot_name from pg_replication_slots where slot_name like 'pgbaton%'
union all select 'publication ' || pubname from pg_publication where pubname like 'pgbaton%'
union all select 'walsender ' || application_name from pg_stat_activity
           where backend_type = 'walsender' and application_name like 'pgbaton%'
union all select 'prepared ' || gid from pg_prepared_xacts where gid like 'pgbaton%')");
}

std::vector<std::string> target_leftovers(const std::string& target_conninfo) {
  // A backend needs a moment to notice that its client has gone.
  Session target(target_conninfo);
  const std::string ours = "application_name like 'pgbaton%' and datname = current_database()";
  for (int i = 0; i < 100 && target.number("select count(*) from pg_stat_activity where " + ours) > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return column(target_conninfo, R"(
select 'schema ' || nspname from pg_namespace where nspname = 'pgbaton' or nspname like 'pgbaton\_\_%'
union all select 'column ' || attrelid::regclass || '.' || attname from pg_attribute
           where attname = '_pgbaton_lsn' and not attisdropped
             and attrelid in (select oid from pg_class where relkind in ('r', 'p'))
union all select 'session ' || application_name from pg_stat_activity
           where application_name like 'pgbaton%' and datname = current_database())");
}

}  // namespace pgbaton::testing
