// The admin console of a PgBouncer: commands and their answers, no sessions of ours.
#include <fmt/format.h>
#include <poll.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/connection.hpp>
#include <pgbaton/pg/plain_password.hpp>

#include <array>
#include <set>

#include "watchdog.hpp"

namespace pgbaton::switchover {

namespace {

constexpr Milliseconds kPatience{5'000};

std::string one_line(std::string text) {
  for (auto& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

pg::Result ask(const std::string& admin_conninfo, const std::string& command, Milliseconds patience) {
  pg::parse_conninfo(admin_conninfo, Side::local);  // refuses a wrong one without showing it
  const auto sslmode = pg::forced_sslmode(admin_conninfo, Side::local);
  const std::array<const char*, 4> names{"dbname", "connect_timeout", sslmode.empty() ? nullptr : "sslmode", nullptr};
  const std::array<const char*, 4> values{admin_conninfo.c_str(), "5", sslmode.empty() ? nullptr : sslmode.c_str(),
                                          nullptr};
  const std::unique_ptr<PGconn, pg::FinishConnection> console(PQconnectdbParams(names.data(), values.data(), 1));
  const auto fail = [&](const std::string& what) {
    return Error(ErrorKind::failed, fmt::format("PgBouncer, {}: {}", command, one_line(what)))
        .hint(what.find("SSL was required") != what.npos
                  ? "A password goes to another host without TLS only when that is allowed by name: "
                    "allow_plain_password: [HOST] in the --config file; or set client_tls_sslmode in PgBouncer."
                  : "Look at its admin console: the conninfo is `pgbouncer` in section switchover.");
  };
  if (PQstatus(console.get()) != CONNECTION_OK || PQsendQuery(console.get(), command.c_str()) == 0)
    throw fail(PQerrorMessage(console.get()));
  const auto deadline = Deadline::after(patience);
  while (PQisBusy(console.get()) != 0) {
    pollfd answer{PQsocket(console.get()), POLLIN, 0};
    const auto left = deadline.left(patience);
    if (left == Milliseconds(0)) throw fail("no answer within " + format_duration(patience));
    ::poll(&answer, 1, static_cast<int>(left.count()));
    if (PQconsumeInput(console.get()) == 0) throw fail(PQerrorMessage(console.get()));
  }
  pg::Result result(PQgetResult(console.get()));
  if (result.status() != PGRES_COMMAND_OK && result.status() != PGRES_TUPLES_OK)
    throw fail(PQerrorMessage(console.get()));
  return result;
}

// "name host port database" of each, as SHOW DATABASES lists them.
std::set<std::string> routes(const std::string& admin_conninfo) {
  const auto rows = ask(admin_conninfo, "SHOW DATABASES", kPatience);
  std::set<std::string> found;
  for (int i = 0; i < rows.rows(); ++i)
    found.insert(fmt::format("{} {} {} {}", rows.text(i, 0), rows.text(i, 1), rows.text(i, 2), rows.text(i, 3)));
  return found;
}

bool has_conffile(const std::string& admin_conninfo, const std::string& conffile) {
  const auto rows = ask(admin_conninfo, "SHOW CONFIG", kPatience);
  for (int i = 0; i < rows.rows(); ++i)
    if (rows.text(i, 0) == "conffile") return rows.text(i, 1) == conffile;
  return false;
}

}  // namespace

void pgbouncer_route(const std::string& admin_conninfo, const std::string& conffile) {
  if (conffile.empty()) return pgbouncer_command(admin_conninfo, "RELOAD");
  const auto before = routes(admin_conninfo);
  const bool again = has_conffile(admin_conninfo, conffile);
  pgbouncer_command(admin_conninfo, "SET conffile = " + quote_literal(conffile));
  pgbouncer_command(admin_conninfo, "RELOAD");
  if (routes(admin_conninfo) != before) return;
  const auto same = fmt::format("PgBouncer's databases lead where they led before its file {} was loaded", conffile);
  // A run that is repeated has loaded it before.
  if (again) return log::warning("{}: see SHOW DATABASES in its admin console", same);
  throw Error(ErrorKind::failed, same)
      .hint(
          "Its log says whether it could read the file. Mend that and run the same command again; where host names "
          "lead to the other server by themselves, leave the setting out.");
}

void pgbouncer_command(const std::string& admin_conninfo, const std::string& command, Milliseconds patience) {
  ask(admin_conninfo, command, patience);
}

std::vector<std::string> pgbouncer_databases(const std::string& admin_conninfo) {
  const auto rows = ask(admin_conninfo, "SHOW DATABASES", kPatience);
  std::vector<std::string> names;
  for (int i = 0; i < rows.rows(); ++i) names.push_back(rows.text(i, 0));
  return names;
}

}  // namespace pgbaton::switchover
