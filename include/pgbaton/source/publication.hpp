// Publications of exactly what can be replicated without breaking the application (G9, DESIGN 3 "What is published").
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <map>
#include <string>
#include <vector>

namespace pgbaton::source {

struct PublicationPlan {
  std::string publication;  // for tables with a usable identity; all four actions
  std::vector<QualifiedName> tables;
  std::string publication_inserts;  // publish = 'insert, truncate'
  std::vector<QualifiedName> tables_inserts_only;
  // 15+: "(columns) WHERE (condition)" behind the name of some of them.
  std::map<QualifiedName, std::string> details;
};

// Creates what the plan names (an empty list makes no publication, except that `publication` always exists, so that
// pgoutput has something to resolve); committed when it returns. Error(preflight) if one of that name exists.
void create_publications(pg::Control& source, const PublicationPlan& plan);
bool publication_exists(pg::Control& source, const std::string& name);
// (schema, table) as pg_publication_tables lists them.
std::vector<QualifiedName> published_tables(pg::Control& source, const std::string& name);
// Puts what publication `like` has and `name` lacks into `name`.
void extend_publication(pg::Control& source, const std::string& name, const std::string& like);
bool drop_publication(pg::Control& source, const std::string& name);

}  // namespace pgbaton::source
