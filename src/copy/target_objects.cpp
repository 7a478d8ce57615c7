#include "target_objects.hpp"

#include <pgbaton/embedded_sql.hpp>

#include "sql_script.hpp"

namespace pgbaton::copy {
namespace {

constexpr std::uint32_t kClassStatistics = 3381, kClassEventTrigger = 3466, kClassRelation = 1259;

}  // namespace

TargetObjects TargetObjects::load(pg::Connection& target) {
  const auto rows = target.exec(std::string(sql::target_objects));
  TargetObjects result;
  for (int i = 0; i < rows.rows(); ++i)
    result.objects_.emplace(rows.text(i, 0), rows.text(i, 1), rows.text(i, 2), rows.text(i, 3));
  return result;
}

bool TargetObjects::has(const TocEntry& entry) const {
  if (entry.class_oid == 0) return false;
  // ALTER … ENABLE TRIGGER and the like stand alone in an entry of the same class; CREATE OR REPLACE may be repeated.
  const auto statement = first_statement(entry.sql);
  const bool creates = (statement.starts_with("CREATE ") && !statement.starts_with("CREATE OR REPLACE ")) ||
                       statement.find(" ADD CONSTRAINT ") != statement.npos;
  if (!creates) return false;
  const bool by_schema = entry.class_oid == kClassRelation || entry.class_oid == kClassStatistics;
  if (entry.class_oid == kClassEventTrigger) return objects_.contains({"3466", "-", "", entry.tag});
  return objects_.contains(
      {std::to_string(entry.class_oid), entry.table.schema, by_schema ? "" : entry.table.name, entry.object});
}

}  // namespace pgbaton::copy
