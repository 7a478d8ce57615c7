// Encodings, and what decides the order of texts.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>

#include "check_parts.hpp"

namespace pgbaton::snapshot {

namespace {

struct Locale {
  std::string provider;  // c libc, i ICU, b builtin
  std::string collate, ctype, locale, recorded_version, actual_version;
  std::string text() const {
    const auto name = provider == "i" ? "ICU " : provider == "b" ? "builtin " : "libc ";
    return name + (provider == "c" || locale.empty() ? collate + (ctype == collate ? "" : "/" + ctype) : locale);
  }
};

// Providers and versions of databases came with 15, the column of the ICU locale changed its name with 17.
Locale load_locale(pg::Control& connection) {
  pqxx::nontransaction tx(connection);
  auto row = tx.exec1(
      fmt::format("select coalesce(to_jsonb(d) ->> 'datlocprovider', 'c'), d.datcollate::text, d.datctype::text, "
                  "coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale', ''), "
                  "coalesce(to_jsonb(d) ->> 'datcollversion', ''), coalesce({}, '') "
                  "from pg_database d where d.datname = current_database()",
                  connection.server_version() >= 150000 ? "pg_database_collation_actual_version(d.oid)" : "null"));
  return {row[0].as<std::string>(), row[1].as<std::string>(), row[2].as<std::string>(),
          row[3].as<std::string>(), row[4].as<std::string>(), row[5].as<std::string>()};
}

std::string create_database(const CheckSide& source, const CheckSide& target, const Locale& locale) {
  auto text = fmt::format("CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE {} LC_CTYPE {}",
                          quote_identifier(target.server.database), quote_literal(source.server.encoding),
                          quote_literal(locale.collate), quote_literal(locale.ctype));
  if (locale.provider == "i") text += " LOCALE_PROVIDER icu ICU_LOCALE " + quote_literal(locale.locale);
  if (locale.provider == "b") text += " LOCALE_PROVIDER builtin BUILTIN_LOCALE " + quote_literal(locale.locale);
  return text + "; in place of the target database.";
}

void check_encodings(const CheckSide& source, const CheckSide& target, const std::string& remedy, Findings& findings) {
  const auto& from = source.server.encoding;
  const auto& to = target.server.encoding;
  auto both = fmt::format("the source is {}, the target {}", from, to);
  if (from == "SQL_ASCII" || to == "SQL_ASCII")
    findings.blocker("pair.encoding", "encoding", both + ": bytes of no known encoding cannot be converted safely",
                     "Use databases with a real encoding; best the same on both sides. " +
                         (from == "SQL_ASCII" ? std::string() : remedy));
  else if (from != to)
    findings.warning("pair.encoding", "encoding", both + ": a character that the target lacks stops the copy", remedy);
}

// Indexes are built anew on the target, so only the order itself may differ.
void check_collations(const Locale& from, const Locale& to, const std::string& remedy, Findings& findings) {
  if (from.text() != to.text())
    return findings.warning("pair.collation", "collation",
                            fmt::format("the source sorts by {}, the target by {}: texts sort in another order, and "
                                        "ranges of partitions by text may hold other rows",
                                        from.text(), to.text()),
                            remedy);
  if (!from.actual_version.empty() && !to.actual_version.empty() && from.actual_version != to.actual_version)
    findings.note("pair.collation_version", "collation",
                  fmt::format("{} has version {} on the source, {} on the target: some texts may sort in another order",
                              from.text(), from.actual_version, to.actual_version));
}

void check_recorded_version(Side side, const CheckSide& at, const Locale& locale, Findings& findings) {
  if (locale.recorded_version.empty() || locale.recorded_version == locale.actual_version) return;
  findings.warning(fmt::format("{}.collation_version", to_string(side)), quote_identifier(at.server.database),
                   fmt::format("made with collation version {}, the system has {}: indexes on texts may be damaged",
                               locale.recorded_version, locale.actual_version),
                   fmt::format("REINDEX DATABASE {0}; ALTER DATABASE {0} REFRESH COLLATION VERSION;",
                               quote_identifier(at.server.database)));
}

// Collations that columns name and that belong to the system: pg_dump does not make these.
void check_missing_collations(CheckSide& source, CheckSide& target, const TablePlan& plan, Findings& findings) {
  pqxx::nontransaction on_source(*source.connection), on_target(*target.connection);
  std::vector<std::string> used;
  for (auto row : on_source.exec_params(
           "select distinct c.collname from pg_attribute a join pg_collation c on c.oid = a.attcollation "
           "join pg_namespace n on n.oid = c.collnamespace "
           "where n.nspname = 'pg_catalog' and not a.attisdropped and a.attrelid = any($1::oid[]) order by 1",
           oid_array(oids_of(plan))))
    used.push_back(row[0].as<std::string>());
  auto missing = on_target.exec_params(
      "select u from unnest($1::text[]) u where not exists (select from pg_collation c where c.collname = u and "
      "c.collnamespace = 'pg_catalog'::regnamespace and "
      "c.collencoding in (-1, (select encoding from pg_database where datname = current_database()))) order by 1",
      text_array(used));
  for (auto row : missing) {
    const auto name = row[0].as<std::string>();
    findings.blocker("target.collation_missing", quote_identifier(name),
                     "a column uses this collation, and the target's system has none of this name",
                     fmt::format("Install the locale on the target's machine, then SELECT "
                                 "pg_import_system_collations('pg_catalog'); or on the source ALTER TABLE … ALTER "
                                 "COLUMN … TYPE … COLLATE another."));
  }
}

}  // namespace

void check_locale(CheckSide& source, CheckSide& target, const TablePlan& plan, Findings& findings) {
  const auto from = load_locale(*source.connection), to = load_locale(*target.connection);
  const auto remedy = create_database(source, target, from);
  check_encodings(source, target, remedy, findings);
  check_collations(from, to, remedy, findings);
  check_recorded_version(Side::source, source, from, findings);
  check_recorded_version(Side::target, target, to, findings);
  check_missing_collations(source, target, plan, findings);
}

}  // namespace pgbaton::snapshot
