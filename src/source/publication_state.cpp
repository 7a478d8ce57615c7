// What a publication was like, kept so that an alteration is noticed even after it was taken back.
//
//   ALTER PUBLICATION … SET (publish = …)      the row of pg_publication is written anew: other xmin
//   DROP and CREATE PUBLICATION                other oid
//   a table taken out and put back, also with another row filter or column list      other oid in pg_publication_rel
//
// Nothing else writes these rows, save ALTER PUBLICATION … OWNER TO or RENAME, which cannot be told from the first.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/source/history.hpp>

namespace pgbaton::source {
namespace {

constexpr int kSchemasPublished = 150000;  // FOR TABLES IN SCHEMA came with 15, row filters and column lists, too

std::string name_array(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + quote_literal(name);
  return "array[" + text + "]::name[]";
}

std::string state_query(const std::vector<std::string>& publications, int version_num) {
  constexpr std::string_view kQuery = R"(
json_build_object(
  'publications', (select coalesce(json_agg(json_build_object('name', p.pubname, 'oid', p.oid::bigint,
       'xmin', p.xmin::text, 'publishes', concat_ws(', ', case when pubinsert then 'insert' end,
         case when pubupdate then 'update' end, case when pubdelete then 'delete' end,
         case when pubtruncate then 'truncate' end)) order by p.oid), '[]')
    from pg_publication p where p.pubname = any ({0})),
  'tables', (select coalesce(json_agg(json_build_object('publication', p.oid::bigint, 'table', r.prrelid::bigint,
       'oid', r.oid::bigint) order by r.oid), '[]')
    from pg_publication p join pg_publication_rel r on r.prpubid = p.oid where p.pubname = any ({0})),
  'schemas', {1}))";
  constexpr std::string_view kSchemas = R"((select coalesce(json_agg(json_build_object('publication', p.oid::bigint,
       'schema', n.pnnspid::bigint, 'oid', n.oid::bigint) order by n.oid), '[]')
    from pg_publication p join pg_publication_namespace n on n.pnpubid = p.oid where p.pubname = any ({0})))";
  const auto names = name_array(publications);
  return fmt::format(fmt::runtime(kQuery), names,
                     version_num >= kSchemasPublished ? fmt::format(fmt::runtime(kSchemas), names) : "'[]'::json");
}

// $1 is the recorded state. A table or schema that is gone as a whole has nothing left to publish.
constexpr std::string_view kChanges = R"(
with publications as (
  select * from json_to_recordset($1::json -> 'publications') as p(name name, oid bigint, xmin text, publishes text)),
now as (
  select p.*, concat_ws(', ', case when pubinsert then 'insert' end, case when pubupdate then 'update' end,
           case when pubdelete then 'delete' end, case when pubtruncate then 'truncate' end) as publishes_now,
         c.oid::bigint as oid_now, c.xmin::text as xmin_now
    from publications p left join pg_publication c on c.pubname = p.name),
tables as (
  select * from json_to_recordset($1::json -> 'tables') as t(publication bigint, "table" bigint, oid bigint))
select case when oid_now is null then format('publication %I was dropped', name)
            when oid_now <> oid then format('publication %I was dropped and made again', name)
            when publishes_now <> publishes then
              format('publication %I was altered: it publishes %s, and published %s when the replica was built', name,
                     case publishes_now when '' then 'nothing' else publishes_now end, publishes)
            else format('publication %I was altered after the replica was built (transaction %s), and may have left '
                        'changes out for a time', name, xmin_now) end
  from now where oid_now is distinct from oid or xmin_now <> xmin
union all
select case when r.oid is null then format('table %s was taken out of publication %I', c.oid::regclass, n.name)
            when to_jsonb(r) ->> 'prqual' is not null then
              format('table %s has got a row filter in publication %I', c.oid::regclass, n.name)
            when to_jsonb(r) ->> 'prattrs' is not null then
              format('table %s has got a column list in publication %I', c.oid::regclass, n.name)
            else format('table %s was taken out of publication %I and put back', c.oid::regclass, n.name) end
  from tables t join now n on n.oid = t.publication and n.oid_now = n.oid
  join pg_class c on c.oid = t."table"::oid
  left join pg_publication_rel r on r.prpubid = n.oid::oid and r.prrelid = c.oid
 where r.oid::bigint is distinct from t.oid)";

constexpr std::string_view kSchemaChanges = R"(
union all
select case when s.oid is null then format('schema %s was taken out of publication %I', c.oid::regnamespace, n.name)
            else format('schema %s was taken out of publication %I and put back', c.oid::regnamespace, n.name) end
  from json_to_recordset($1::json -> 'schemas') as t(publication bigint, schema bigint, oid bigint)
  join now n on n.oid = t.publication and n.oid_now = n.oid
  join pg_namespace c on c.oid = t.schema::oid
  left join pg_publication_namespace s on s.pnpubid = n.oid::oid and s.pnnspid = c.oid
 where s.oid::bigint is distinct from t.oid)";

std::string read(pg::Control& source, const std::string& query) {
  return pg::control(Side::source, "reading the publications", [&] {
    pqxx::nontransaction transaction(source);
    return transaction.exec1(query)[0].as<std::string>();
  });
}

}  // namespace

std::string load_publication_state(pg::Control& source, const std::vector<std::string>& publications) {
  return read(source, "select " + state_query(publications, source.server_version()));
}

std::string publication_digest(pg::Control& source, const std::vector<std::string>& publications) {
  return read(source, "select md5((" + state_query(publications, source.server_version()) + ")::text)");
}

std::vector<std::string> publication_changes(pg::Control& source, const std::string& state) {
  return pg::control(Side::source, "comparing the publications", [&] {
    pqxx::nontransaction transaction(source);
    std::string query(kChanges);
    if (source.server_version() >= kSchemasPublished) query += kSchemaChanges;
    std::vector<std::string> changes;
    for (const auto& row : transaction.exec_params(query, state)) changes.push_back(row[0].as<std::string>());
    return changes;
  });
}

void require_publications(pg::Control& source, const ExpectedHistory& expected) {
  if (expected.publication_state.empty()) return;
  const auto changes = publication_changes(source, expected.publication_state);
  if (changes.empty()) return;
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(changes.size(), kNamed); ++i) text += (i == 0 ? "" : "; ") + changes[i];
  if (changes.size() > kNamed) text += fmt::format("; and {} more", changes.size() - kNamed);
  throw Error(ErrorKind::boundary_lost, text)
      .side(Side::source)
      .lsn(expected.applied_lsn)
      .hint(
          "Changes made meanwhile are not in the stream, and putting the publication back does not bring them. A new "
          "bootstrap is needed: pgbaton clone --restart.");
}

}  // namespace pgbaton::source
