#include <fmt/format.h>

#include <algorithm>
#include <pgbaton/base/error.hpp>
#include <pgbaton/source/publication.hpp>
#include <span>

namespace pgbaton::source {
namespace {

// A statement with thousands of names is parsed at a go; smaller ones keep its memory and the log readable.
constexpr std::size_t kTablesPerStatement = 500;
// CREATE PUBLICATION takes SHARE UPDATE EXCLUSIVE on its tables: no DML waits for it, but it waits for VACUUM and DDL.
constexpr const char* kLockTimeout = "set local lock_timeout = '60s'";

constexpr std::string_view kAllActions = "insert, update, delete, truncate", kInsertsOnly = "insert, truncate";

bool exists(pqxx::transaction_base& transaction, const std::string& name) {
  return !transaction.exec_params("select from pg_publication where pubname = $1", name).empty();
}

// ONLY: the children of a plain parent are tables of their own here, perhaps of the other publication.
std::string table_list(std::span<const QualifiedName> tables) {
  std::string text;
  for (const auto& table : tables) text += (text.empty() ? "ONLY " : ", ONLY ") + table.quoted();
  return text;
}

// Below 13 a partitioned table cannot be published, only its leaves, one by one.
std::vector<QualifiedName> replace_roots(pqxx::transaction_base& transaction,
                                         const std::vector<QualifiedName>& tables) {
  std::vector<QualifiedName> leaves;
  for (const auto& table : tables) {
    const auto rows = transaction.exec_params(R"(
with recursive tree as (
  select c.oid, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
   where n.nspname = $1 and c.relname = $2
  union
  select c.oid, c.relkind from tree join pg_inherits i on i.inhparent = tree.oid join pg_class c on c.oid = i.inhrelid
   where tree.relkind = 'p'
)
select n.nspname, c.relname from tree join pg_class c on c.oid = tree.oid join pg_namespace n on n.oid = c.relnamespace
 where tree.relkind = 'r')",
                                              table.schema, table.name);
    for (const auto& row : rows) leaves.push_back({row[0].as<std::string>(), row[1].as<std::string>()});
  }
  std::ranges::sort(leaves);
  leaves.erase(std::ranges::unique(leaves).begin(), leaves.end());
  return leaves;
}

void create(pqxx::transaction_base& transaction, const std::string& name, std::string_view actions,
            std::vector<QualifiedName> tables) {
  if (exists(transaction, name)) {
    throw Error(ErrorKind::preflight, fmt::format("publication {} exists already", quote_identifier(name)))
        .side(Side::source)
        .sqlstate("42710")
        .hint("It is not ours, and is never adopted: drop it, or choose another --name.");
  }
  const int version = transaction.conn().server_version();
  if (version < 130000) tables = replace_roots(transaction, tables);
  std::span<const QualifiedName> rest(tables);
  const auto first = rest.subspan(0, std::min(rest.size(), kTablesPerStatement));
  // Changes of partitions arrive under their own names, and each is filtered by its own boundary.
  transaction.exec0(fmt::format("CREATE PUBLICATION {} {} WITH (publish = '{}'{})", quote_identifier(name),
                                first.empty() ? "" : "FOR TABLE " + table_list(first), actions,
                                version >= 130000 ? ", publish_via_partition_root = false" : ""));
  for (rest = rest.subspan(first.size()); !rest.empty();) {
    const auto next = rest.subspan(0, std::min(rest.size(), kTablesPerStatement));
    transaction.exec0(fmt::format("ALTER PUBLICATION {} ADD TABLE {}", quote_identifier(name), table_list(next)));
    rest = rest.subspan(next.size());
  }
}

[[noreturn]] void explain(const pqxx::sql_error& error) {
  const auto state = pg::sqlstate_of(error);
  const auto refuse = [&](ErrorKind kind, std::string_view hint) {
    throw Error(kind, fmt::format("creating the publications: {}", error.what()))
        .side(Side::source)
        .sqlstate(state)
        .action(kind == ErrorKind::timed_out ? Action::retry : Action::stop)
        .hint(hint);
  };
  if (state == "42501") {
    refuse(ErrorKind::preflight,
           "Have the owner of the tables create the publication, and name it with --publication.");
  }
  if (state == "42710") {
    refuse(ErrorKind::preflight, "It is not ours, and is never adopted: drop it, or choose another --name.");
  }
  if (state == "55P03") {
    refuse(ErrorKind::timed_out, "DDL or a VACUUM holds one of the tables: run the same command again after its end.");
  }
  throw;
}

}  // namespace

void create_publications(pg::Control& source, const PublicationPlan& plan) {
  pg::control(Side::source, "creating the publications", [&] {
    try {
      pqxx::work transaction(source);
      transaction.exec0(kLockTimeout);
      create(transaction, plan.publication, kAllActions, plan.tables);
      if (!plan.tables_inserts_only.empty()) {
        create(transaction, plan.publication_inserts, kInsertsOnly, plan.tables_inserts_only);
      }
      transaction.commit();
    } catch (const pqxx::sql_error& error) {
      explain(error);
    }
  });
}

bool publication_exists(pg::Control& source, const std::string& name) {
  return pg::control(Side::source, "looking for publication " + quote_identifier(name), [&] {
    pqxx::nontransaction transaction(source);
    return exists(transaction, name);
  });
}

std::vector<QualifiedName> published_tables(pg::Control& source, const std::string& name) {
  return pg::control(Side::source, "reading publication " + quote_identifier(name), [&] {
    pqxx::nontransaction transaction(source);
    std::vector<QualifiedName> tables;
    const auto rows = transaction.exec_params(
        "select schemaname, tablename from pg_publication_tables where pubname = $1 order by 1, 2", name);
    for (const auto& row : rows) tables.push_back({row[0].as<std::string>(), row[1].as<std::string>()});
    return tables;
  });
}

bool drop_publication(pg::Control& source, const std::string& name) {
  return pg::control(Side::source, "dropping publication " + quote_identifier(name), [&] {
    pqxx::work transaction(source);
    if (!exists(transaction, name)) return false;
    transaction.exec0("DROP PUBLICATION IF EXISTS " + quote_identifier(name));
    transaction.commit();
    return true;
  });
}

}  // namespace pgbaton::source
