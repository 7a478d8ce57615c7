#include "given_publication.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/source/publication.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace pgbaton::snapshot {

namespace {

using state::TablePhase;

// A name of the server holds no more bytes.
constexpr std::size_t kLongestName = 63;

[[noreturn]] void refuse(const std::string& name, const std::string& why, std::string_view hint) {
  throw Error(ErrorKind::preflight, fmt::format("publication {}: {}", quote_identifier(name), why))
      .side(Side::source)
      .hint(hint);
}

void require_actions(const std::string& name, const pqxx::row& row, bool inserts_only) {
  const bool inserts = row["inserts"].as<bool>(), updates = row["updates"].as<bool>();
  const bool all = inserts && updates && row["deletes"].as<bool>() && row["truncates"].as<bool>();
  if (!inserts_only && !all)
    refuse(name, "does not publish all of insert, update, delete and truncate",
           fmt::format("ALTER PUBLICATION {} SET (publish = 'insert, update, delete, truncate'); tables without "
                       "identity belong into {}.",
                       quote_identifier(name), quote_identifier(name + "__ins")));
  if (inserts_only && (!inserts || !row["truncates"].as<bool>() || updates || row["deletes"].as<bool>()))
    refuse(name, "publishes other things than insert and truncate",
           fmt::format("ALTER PUBLICATION {} SET (publish = 'insert, truncate');", quote_identifier(name)));
}

void require_form(pg::Control& source, const std::string& name, bool inserts_only) {
  pg::control(Side::source, "reading the publication", [&] {
    pqxx::nontransaction tx(source);
    const auto row = tx.exec_params1(
        "select pubinsert as inserts, pubupdate as updates, pubdelete as deletes, pubtruncate as truncates, "
        "coalesce((to_jsonb(p) ->> 'pubviaroot')::bool, false) as by_root, exists (select from "
        "pg_catalog.pg_publication_rel r where r.prpubid = p.oid and (to_jsonb(r) ->> 'prqual' is not null or "
        "to_jsonb(r) ->> 'prattrs' is not null)) as parts from pg_catalog.pg_publication p where pubname = $1",
        name);
    require_actions(name, row, inserts_only);
    if (row["by_root"].as<bool>())
      refuse(name, "has publish_via_partition_root", "Set publish_via_partition_root = false.");
    if (row["parts"].as<bool>())
      refuse(name, "has a row filter or a column list", "Publish whole tables; choose tables with --include-table.");
  });
}

std::set<QualifiedName> tables_of(pg::Control& source, const std::string& name) {
  const auto tables = source::published_tables(source, name);
  return {tables.begin(), tables.end()};
}

std::string names(const std::vector<QualifiedName>& tables) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(tables.size(), kNamed); ++i) text += (i ? ", " : "") + tables[i].quoted();
  return tables.size() > kNamed ? text + fmt::format(" and {} more", tables.size() - kNamed) : text;
}

// Each table in one of the two, and nothing else in either.
void require_tables(const std::string& name, const std::set<QualifiedName>& all, const std::set<QualifiedName>& inserts,
                    const std::vector<copy::CopyJob>& jobs, bool joins) {
  std::vector<QualifiedName> missing, others;
  std::set<QualifiedName> planned;
  for (const auto& job : jobs) {
    const auto& table = job.table.name;
    planned.insert(table);
    const bool published = all.contains(table) || (job.state.inserts_only && inserts.contains(table));
    if (job.state.phase != TablePhase::skipped && !published) missing.push_back(table);
  }
  const auto second = quote_identifier(name + "__ins");
  if (!missing.empty())
    refuse(name, "lacks " + names(missing),
           fmt::format("Add these tables to it (those without identity to {}, with publish = 'insert, truncate'), or "
                       "leave them out with --exclude-table.",
                       second));
  for (const auto* published : {&all, &inserts})
    for (const auto& table : *published)
      if (!planned.contains(table) && table.schema != "pgbaton") others.push_back(table);
  if (!joins && !others.empty())
    refuse(name, "also publishes what is not copied, and the stream would stop there: " + names(others),
           fmt::format("Take these tables out of {} and {}, or leave them empty with --exclude-data instead.",
                       quote_identifier(name), second));
}

}  // namespace

GivenPublication verify_publication(pg::Control& source, const std::string& name,
                                    const std::vector<copy::CopyJob>& jobs, bool joins) {
  if (!source::publication_exists(source, name))
    refuse(name, "does not exist", "Create it (sql/roles_source.sql shows how), or leave --publication away.");
  require_form(source, name, false);
  GivenPublication given;
  const auto all = tables_of(source, name);
  std::set<QualifiedName> inserts;
  if (const auto second = name + "__ins"; second.size() <= kLongestName && source::publication_exists(source, second)) {
    require_form(source, second, true);
    given.inserts = second;
    inserts = tables_of(source, second);
  }
  require_tables(name, all, inserts, jobs, joins);
  for (const auto& job : jobs)
    if (job.state.inserts_only && all.contains(job.table.name)) given.failing.push_back(job.table.name);
  return given;
}

}  // namespace pgbaton::snapshot
