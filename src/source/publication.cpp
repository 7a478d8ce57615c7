#include <fmt/format.h>

#include <algorithm>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/try_details.hpp>
#include <span>

namespace pgbaton::source {
namespace {

// A statement with thousands of names is parsed at a go; smaller ones keep its memory and the log readable.
constexpr std::size_t kTablesPerStatement = 500;
// CREATE PUBLICATION takes SHARE UPDATE EXCLUSIVE on its tables: no DML waits for it, but it waits for VACUUM and DDL.
constexpr const char* kLockTimeout = "set local lock_timeout = '60s'";
// Below the usual deadlock_timeout, after which an autovacuum in the way would be cancelled.
constexpr const char* kTrialLockTimeout = "set local lock_timeout = '800ms'";

constexpr std::string_view kAllActions = "insert, update, delete, truncate", kInsertsOnly = "insert, truncate";

bool exists(pqxx::transaction_base& transaction, const std::string& name) {
  return !transaction.exec_params("select from pg_publication where pubname = $1", name).empty();
}

// ONLY: the children of a plain parent are tables of their own here, perhaps of the other publication.
std::string table_list(std::span<const QualifiedName> tables, const PublicationPlan& plan) {
  std::string text;
  for (const auto& table : tables) {
    text += (text.empty() ? "ONLY " : ", ONLY ") + table.quoted();
    if (const auto detail = plan.details.find(table); detail != plan.details.end()) text += detail->second;
  }
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
            std::vector<QualifiedName> tables, const PublicationPlan& plan) {
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
                                first.empty() ? "" : "FOR TABLE " + table_list(first, plan), actions,
                                version >= 130000 ? ", publish_via_partition_root = false" : ""));
  for (rest = rest.subspan(first.size()); !rest.empty();) {
    const auto next = rest.subspan(0, std::min(rest.size(), kTablesPerStatement));
    transaction.exec0(fmt::format("ALTER PUBLICATION {} ADD TABLE {}", quote_identifier(name), table_list(next, plan)));
    rest = rest.subspan(next.size());
  }
}

// Whether the application could still write: a row filter over columns outside of the identity makes its UPDATE and
// DELETE fail. The server looks when such a statement is set up, so explaining one is enough; it changes nothing.
void require_writable(pqxx::transaction_base& transaction, const PublicationPlan& plan) {
  for (const auto& table : plan.tables) {
    const auto detail = plan.details.find(table);
    if (detail == plan.details.end()) continue;
    const auto doing =
        fmt::format("publishing it {} would make UPDATE and DELETE fail on the source", on_one_line(detail->second));
    try {
      pg::control(Side::source, doing, [&] { transaction.exec("EXPLAIN DELETE FROM ONLY " + table.quoted()); });
    } catch (const Error& error) {
      throw Error(ErrorKind::preflight, error.message())
          .side(Side::source)
          .sqlstate(error.sqlstate())
          .table(table.quoted())
          .hint("Use only columns of the primary key (or replica identity) in `where`, or widen the replica identity.");
    }
  }
}

// What a server says of a column list or condition that it does not take: it does not parse, names no column, is not
// boolean, calls what it must not (class 42 and 0A000), or holds a value that its type does not have (class 22).
bool is_of_a_choice(std::string_view state) {
  return state.starts_with("42") || state.starts_with("22") || state == "0A000";
}

// Rethrows with the kind and the hint that its SQLSTATE stands for.
[[noreturn]] void explain(const Error& error, bool choices) {
  const auto state = std::string_view(error.sqlstate());
  const auto refuse = [&](ErrorKind kind, std::string_view hint) {
    throw Error(kind, error.message())
        .side(Side::source)
        .sqlstate(state)
        .action(kind == ErrorKind::timed_out ? Action::retry : Action::stop)
        .hint(hint);
  };
  if (error.kind() != ErrorKind::failed) throw error;
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
  if (choices && is_of_a_choice(state))
    refuse(ErrorKind::preflight,
           "Look at `tables` in the configuration: the source refuses a column list or condition.");
  throw error;
}

void create_all(pqxx::transaction_base& transaction, const PublicationPlan& plan) {
  create(transaction, plan.publication, kAllActions, plan.tables, plan);
  require_writable(transaction, plan);
  if (!plan.tables_inserts_only.empty())
    create(transaction, plan.publication_inserts, kInsertsOnly, plan.tables_inserts_only, plan);
}

// One table of the plan alone, under names that nothing has.
PublicationPlan trial_of(const PublicationPlan& plan, const QualifiedName& table) {
  PublicationPlan trial;
  trial.publication = plan.publication + "__tmp_0";
  trial.publication_inserts = plan.publication + "__tmp_1";
  const bool keyless = std::ranges::find(plan.tables_inserts_only, table) != plan.tables_inserts_only.end();
  (keyless ? trial.tables_inserts_only : trial.tables).push_back(table);
  trial.details.emplace(table, plan.details.at(table));
  return trial;
}

}  // namespace

void create_publications(pg::Control& source, const PublicationPlan& plan) {
  try {
    pg::control(Side::source, "creating the publications", [&] {
      pqxx::work transaction(source);
      transaction.exec0(kLockTimeout);
      create_all(transaction, plan);
      transaction.commit();
    });
  } catch (const Error& error) {
    explain(error, !plan.details.empty());
  }
}

std::vector<Error> try_details(pg::Control& source, const PublicationPlan& plan) {
  std::vector<Error> refused;
  for (const auto& [table, detail] : plan.details) {
    try {
      try {
        pg::control(Side::source, "publishing it " + on_one_line(detail), [&] {
          pqxx::work transaction(source);
          transaction.exec0(kTrialLockTimeout);
          create_all(transaction, trial_of(plan, table));
          transaction.abort();
        });
      } catch (const Error& error) {
        explain(error, true);
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::preflight && error.kind() != ErrorKind::timed_out) throw;
      refused.push_back(Error(error).table(table.quoted()));
    }
  }
  return refused;
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

void extend_publication(pg::Control& source, const std::string& name, const std::string& like) {
  try {
    pg::control(Side::source, "putting tables into publication " + quote_identifier(name), [&] {
      pqxx::work transaction(source);
      transaction.exec0(kLockTimeout);
      const auto rows = transaction.exec_params(
          "select n.nspname, c.relname from pg_publication p join pg_publication_rel r on r.prpubid = p.oid "
          "join pg_class c on c.oid = r.prrelid join pg_namespace n on n.oid = c.relnamespace where p.pubname = $2 "
          "and not exists (select from pg_publication q join pg_publication_rel s on s.prpubid = q.oid "
          "where q.pubname = $1 and s.prrelid = r.prrelid) order by 1, 2",
          name, like);
      if (rows.empty()) return;
      std::vector<QualifiedName> tables;
      for (const auto& row : rows) tables.push_back({row[0].as<std::string>(), row[1].as<std::string>()});
      transaction.exec0(
          fmt::format("ALTER PUBLICATION {} ADD TABLE {}", quote_identifier(name), table_list(tables, {})));
      transaction.commit();
    });
  } catch (const Error& error) {
    explain(error, false);
  }
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
