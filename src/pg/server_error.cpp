#include "server_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <pgbaton/pg/sqlstate.hpp>
#include <vector>

namespace pgbaton::pg {
namespace {

// "FATAL:  " and its translations: a word, a colon, two blanks.
std::string_view without_severity(std::string_view line) {
  const auto colon = line.find(":  ");
  const bool word = colon != line.npos && line.substr(0, colon).find(' ') == line.npos;
  return word ? line.substr(colon + 3) : line;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_sqlstate(std::string_view text) {
  return text.size() == 5 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); });
}

// Where ":  28P01: " stands in a line, or npos.
std::size_t find_sqlstate(std::string_view line) {
  for (auto at = line.find(":  "); at != line.npos; at = line.find(":  ", at + 1)) {
    if (line.substr(at + 8).starts_with(": ") && is_sqlstate(line.substr(at + 3, 5))) return at + 3;
  }
  return line.npos;
}

// Complaints of libpq itself that another attempt cannot change. libpq's own text is English: pgbaton sets no locale.
bool is_final(std::string_view line) {
  constexpr std::array<std::string_view, 17> kFinal{"no password supplied",
                                                    "SSL was required",
                                                    "does not support SSL",
                                                    "certificate",
                                                    "private key",
                                                    "invalid sslmode",
                                                    "invalid port",
                                                    "invalid integer value",
                                                    "definition of service",
                                                    "service file",
                                                    "GSSAPI",
                                                    "authentication method",
                                                    "SCRAM",
                                                    "channel binding",
                                                    "could not match",
                                                    "root.crt",
                                                    "invalid connection option"};
  return std::ranges::any_of(kFinal, [&](auto part) { return line.find(part) != line.npos; });
}

struct Attempt {
  std::string sqlstate, text;
  Action action = Action::retry;
};

Attempt parse_attempt(std::string_view line) {
  const auto at = find_sqlstate(line);
  if (at == line.npos) return {"", std::string(line), is_final(line) ? Action::stop : Action::retry};
  const auto code = line.substr(at, 5);
  std::string text(line.substr(0, at));
  text += line.substr(at + 7);
  return {std::string(code), std::move(text), classify(code)};
}

// libpq's own complaints come without a SQLSTATE: the first row of which a part stands in the text.
struct Advice {
  std::array<std::string_view, 3> parts;
  std::string_view hint;
};
constexpr std::array kAdvice{
    Advice{
        {"no password supplied"},
        "The server wants a password: give it in .pgpass (host, port, database and user must match), in a file named "
        "by passfile=, or in PGPASSWORD."},
    Advice{{"SSL was required", "does not support SSL"},
           "The server has no TLS: set ssl = on there. A password goes to another host without TLS only when it is "
           "allowed by name, allow_plain_password: [HOST] in the --config file."},
    Advice{
        {"private key"},
        "Check sslkey: the file must belong to the user that runs pgbaton, be readable by nobody else (0600), and fit "
        "sslcert."},
    Advice{
        {"certificate", "root.crt"},
        "Check sslrootcert (the CA's certificate), sslcert and sslkey, and that the server's certificate is made out "
        "for this host."},
    Advice{{"definition of service", "service file"},
           "Check the name after service=, and the file (PGSERVICEFILE, ~/.pg_service.conf) that should define it."},
    Advice{{"invalid port", "invalid integer value", "invalid sslmode"},
           "Correct this value in the connection string, or in the PG* variable that gives it."},
    Advice{{"could not match"}, "Give as many ports (hostaddr) as hosts, or one for all, in the connection string."},
    Advice{{"invalid connection option"},
           "Correct the keyword in the connection string; PostgreSQL's manual lists them under libpq, Connection "
           "Strings."},
    Advice{{"GSSAPI", "SCRAM", "channel binding"},
           "The server and the connection string do not agree on how to authenticate: see its pg_hba.conf, and "
           "channel_binding, gssencmode and require_auth here."},
    Advice{{"authentication method"},
           "The server and the connection string do not agree on how to authenticate: see its pg_hba.conf, and "
           "channel_binding, gssencmode and require_auth here."},
    Advice{{"could not translate host name"}, "Check the host's name: this machine cannot resolve it."},
    Advice{{"session is read-only", "session is not read-only", "server is in hot standby mode"},
           "No host of the connection string is what target_session_attrs asks for: check both."},
    Advice{{"server is not in hot standby mode"},
           "No host of the connection string is what target_session_attrs asks for: check both."},
    Advice{{"timeout expired", "timed out"},
           "The server does not answer: check host and port, firewalls between, and connect_timeout."},
    Advice{{"unsupported startup parameter"}, "This is a pooler: connect to the server itself."},
};

std::string_view connect_hint(const Attempt& attempt) {
  const std::string_view code = attempt.sqlstate;
  if (code.starts_with("28")) return "Check user, password (.pgpass, PGPASSWORD) and the server's pg_hba.conf.";
  if (code == "3D000") return "Check the database name in the connection string.";
  if (code == "53300") return "Raise max_connections or lower --jobs.";
  if (code == "53400") return "Raise max_wal_senders on the server.";
  if (code == "42501") return "The role needs CONNECT on the database, and REPLICATION on the source.";
  for (const auto& advice : kAdvice)
    for (const auto part : advice.parts)
      if (!part.empty() && attempt.text.find(part) != std::string::npos) return advice.hint;
  return "Check that the server runs and that host and port are right.";
}

}  // namespace

std::string one_line(std::string_view message) {
  std::string text;
  for (const auto line : split_lines(message)) {
    if (text.empty()) {
      text = without_severity(line);
    } else if (line.starts_with("DETAIL:  ")) {
      text += fmt::format(" ({})", without_severity(line));
    }
  }
  return text;
}

std::string key_of_detail(std::string_view detail) {
  const auto begin = detail.find('(');
  if (begin == detail.npos || detail.find(")=(") == detail.npos) return {};
  const auto end = detail.rfind(')');
  return std::string(detail.substr(begin, end - begin + 1));
}

std::string connecting(std::string_view role) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kWhy{
      {{"route", "to see whether a pooler stands between"},
       {"direction", "to see which way the replica streams"},
       {"state", "for the state of the replica"},
       {"check", "to look at the server"},
       {"history", "to see whether slot and history are there"},
       {"preflight", "to see what stands in the way"},
       {"fence", "to fence writers, or to see whether they are"},
       {"watchdog", "to open it again should a switchover fail"},
       {"lease", "to be the only writer of the replica"}}};
  const auto why = std::ranges::find(kWhy, role, &std::pair<std::string_view, std::string_view>::first);
  return why == kWhy.end() ? fmt::format("connecting ({})", role)
                           : fmt::format("connecting {} (\"{}\")", why->second, role);
}

Error connect_error(std::string_view message, Side side, std::string_view role) {
  // Several hosts, addresses or an SSL and a plain try give one line each: one that may pass decides.
  std::vector<Attempt> attempts;
  std::string text;
  for (const auto line : split_lines(message)) {
    const bool location = line.starts_with("LOCATION:  ");
    const bool more = line.starts_with('\t') || (!location && find_sqlstate(line) == line.npos &&
                                                 line.find(":  ") != line.npos && !attempts.empty());
    if (location) continue;
    if (!more) attempts.push_back(parse_attempt(line));
    text += (text.empty() ? "" : "; ") + (more ? std::string(without_severity(line)) : attempts.back().text);
  }
  if (attempts.empty()) attempts.emplace_back();
  const auto retried = std::ranges::find(attempts, Action::retry, &Attempt::action);
  const Attempt& decisive = retried == attempts.end() ? attempts.front() : *retried;
  return Error(ErrorKind::failed, fmt::format("{}: {}", connecting(role), text))
      .side(side)
      .sqlstate(decisive.sqlstate)
      .action(decisive.action)
      .hint(connect_hint(decisive));
}

}  // namespace pgbaton::pg
