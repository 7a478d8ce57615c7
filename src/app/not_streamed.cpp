// What no stream carries, looked at when a replica ends, which is the last moment to tell.
#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/activity.hpp>
#include <pgbaton/catalog/member.hpp>

#include "command.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

// Which ones: their numbers and the newest of them on each side tell those that came or went, not those rewritten.
struct LargeObjects {
  std::int64_t number = 0;
  std::uint32_t newest = 0;
  bool operator==(const LargeObjects&) const = default;
};

LargeObjects load_large_objects(pg::Control& connection, Side side) {
  return pg::control(side, "counting large objects", [&] {
    pqxx::nontransaction tx(connection);
    const auto row = tx.exec1("select count(*), coalesce(max(oid), 0)::bigint from pg_catalog.pg_largeobject_metadata");
    return LargeObjects{row[0].as<std::int64_t>(), row[1].as<std::uint32_t>()};
  });
}

std::vector<std::string> load_materialized_views(pg::Control& target) {
  return pg::control(Side::target, "listing materialized views", [&] {
    pqxx::nontransaction tx(target);
    std::vector<std::string> names;
    for (auto row :
         tx.exec("select schemaname, matviewname from pg_catalog.pg_matviews where ispopulated order by 1, 2"))
      names.push_back(QualifiedName{row[0].as<std::string>(), row[1].as<std::string>()}.quoted());
    return names;
  });
}

}  // namespace

std::string missed_writes_text(const catalog::WriteCounts& counts) {
  return fmt::format(
      "{} has had {} and {} on the source since its statistics were reset; without a usable identity "
      "only INSERT and TRUNCATE are replicated",
      counts.name.quoted(), counted(counts.updates, "UPDATE"), counted(counts.deletes, "DELETE"));
}

std::vector<std::string> not_streamed(pg::Control& source, pg::Control& target,
                                      const std::vector<state::TableState>& tables) {
  std::vector<std::string> found;
  std::vector<std::uint32_t> oids;
  for (const auto& table : tables)
    if (table.inserts_only) oids.push_back(table.source_oid);
  const auto counts =
      pg::control(Side::source, "reading table statistics", [&] { return catalog::load_write_counts(source, oids); });
  for (const auto& count : counts) found.push_back(missed_writes_text(count));
  const auto there = load_large_objects(source, Side::source), here = load_large_objects(target, Side::target);
  if (there != here)
    found.push_back(
        fmt::format("{} on the source and {} on the target: those made or removed since the copy are not "
                    "carried",
                    counted(there.number, "large object"), here.number));
  if (const auto views = load_materialized_views(target); !views.empty())
    found.push_back(fmt::format("materialized views are as of the copy: REFRESH MATERIALIZED VIEW {};",
                                fmt::join(views, "; REFRESH MATERIALIZED VIEW ")));
  for (const auto& one : catalog::load_left_members(source, &target))
    found.push_back(fmt::format("{} {}. {}", one.member.name.quoted(), one.message, one.remedy));
  return found;
}

}  // namespace pgbaton::app
