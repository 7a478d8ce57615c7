// A partitioned table is published at its root when the root and all of its leaves have a usable identity and all of
// them are wanted: then leaves attached later are in the stream, too. Otherwise, and on 12, which publishes no
// partitioned table, the leaves are published by name.
// Either way (publish_via_partition_root is off) rows arrive under the leaf's name, and only leaves are copied.
#include "plan.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/words.hpp>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/catalog/shape.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "identity_full.hpp"

namespace pgbaton::snapshot {

namespace {

using catalog::Identity;
using catalog::Oid;
using catalog::Table;

// PostgreSQL's limit is 1600 columns, dropped ones included; the difference is for the columns of the years to come.
constexpr int kMaxColumnsForGuard = 1590;
// A row of 8160 bytes is the largest (MaxHeapTupleSize): what stands in it whole, the null bitmap and its header leave
// the guard no room above this.
constexpr int kMaxFixedBytesForGuard = 8000;

bool is_root(const Table& table) {
  return table.kind == 'p' && table.root_oid == 0;
}

std::set<Oid> oids_of(const std::vector<Table>& tables) {
  std::set<Oid> oids;
  for (const auto& table : tables) oids.insert(table.oid);
  return oids;
}

// Tables whose rows --exclude-data leaves out.
std::set<Oid> without_data(const std::vector<Table>& tables, const catalog::TableFilter& filter) {
  if (filter.exclude_data.empty()) return {};
  catalog::TableFilter only;
  only.exclude_tables = filter.exclude_data;
  auto excluded = oids_of(tables);
  for (const auto& kept : catalog::apply_filter(tables, only)) excluded.erase(kept.oid);
  return excluded;
}

// Members of plain inheritance: a guard column of the parent would be inherited with the parent's boundary.
std::set<Oid> inheritance_members(pg::Control& source) {
  return pg::control(Side::source, "reading inheritance", [&] {
    std::set<Oid> members;
    pqxx::nontransaction tx(source);
    for (auto row : tx.exec("select i.inhrelid, i.inhparent from pg_catalog.pg_inherits i join pg_catalog.pg_class p "
                            "on p.oid = i.inhparent where p.relkind = 'r'"))
      members.insert({row[0].as<Oid>(), row[1].as<Oid>()});
    return members;
  });
}

int fixed_bytes(const Table& table) {
  int sum = table.attribute_count / 8;
  for (const auto& column : table.columns) sum += column.fixed_bytes;
  return sum;
}

// Why the table itself can have no further column; "" when it can.
std::string no_column_reason(const Table& table) {
  if (table.row_type_in_use) return "its row type is a column elsewhere, or it is a typed table";
  if (table.attribute_count > kMaxColumnsForGuard) return "it has too many columns, dropped ones included";
  if (fixed_bytes(table) > kMaxFixedBytesForGuard) return "its rows fill a page nearly, which leaves a column no room";
  return "";
}

bool has_key(const Table& table) {
  return !table.unique_keys.empty() || !table.identity_columns.empty();
}

// The stream can find a row of it by a key: only then a ledger has anything to keep.
bool has_stream_key(const Table& table) {
  return table.identity == Identity::index || (table.identity == Identity::full && !table.unique_keys.empty());
}

// What the target publishes by itself would carry the guard column to subscribers that do not have it.
struct OwnPublications {
  bool all = false;
  std::set<std::string> schemas;
  std::set<QualifiedName> tables;
  bool contain(const QualifiedName& table) const {
    return all || schemas.contains(table.schema) || tables.contains(table);
  }
};

OwnPublications load_publications(pg::Control* target) {
  OwnPublications own;
  if (target == nullptr) return own;
  return pg::control(Side::target, "reading publications", [&] {
    pqxx::nontransaction tx(*target);
    own.all = tx.exec1("select exists (select from pg_catalog.pg_publication where puballtables)")[0].as<bool>();
    for (auto row : tx.exec("select distinct schemaname, tablename from pg_catalog.pg_publication_tables"))
      own.tables.insert({row[0].as<std::string>(), row[1].as<std::string>()});
    constexpr int kSchemasInPublications = 150000;
    if (target->server_version() >= kSchemasInPublications)
      for (auto row : tx.exec("select distinct n.nspname from pg_catalog.pg_publication_namespace p "
                              "join pg_catalog.pg_namespace n on n.oid = p.pnnspid"))
        own.schemas.insert(row[0].as<std::string>());
    return own;
  });
}

class Planner {
 public:
  Planner(pg::Control& source, pg::Control* target, const CloneOptions& options, std::vector<Table> all)
      : options_(options),
        all_(std::move(all)),
        kept_(catalog::apply_filter(all_, options.filter)),
        without_data_(without_data(kept_, options.filter)),
        inheritance_(inheritance_members(source)),
        published_by_target_(load_publications(target)),
        publishes_roots_(source.server_version() >= kFirstToPublishRoots) {
    for (const auto& table : kept_) by_oid_[table.oid] = &table;
    find_roots();
  }

  TablePlan plan() {
    TablePlan plan;
    plan.publications.publication = options_.publication.empty() ? options_.names.base : options_.publication;
    for (const auto& table : kept_) add(table, plan);
    if (!plan.publications.tables_inserts_only.empty())
      plan.publications.publication_inserts =
          options_.publication.empty() ? options_.names.publication_inserts : options_.publication + "__ins";
    auto kept = oids_of(kept_);
    for (const auto& table : all_)
      if (!kept.contains(table.oid)) plan.left_out.push_back(table.name);
    return plan;
  }

 private:
  // Why no row of the table is copied or streamed; "" when they are.
  std::string skip_reason(const Table& table) const {
    if (table.kind == 'p') return "partitioned: the rows are in its partitions";
    if (table.persistence == 'u') return "unlogged: its rows are not in the stream, so they are not copied either";
    if (without_data_.contains(table.oid)) return "left empty by --exclude-data";
    if (table.identity == Identity::unusable && options_.keyless == Keyless::exclude)
      return "left empty by keyless: exclude (" + table.identity_reason + ")";
    return "";
  }

  void find_roots() {
    for (const auto& root : kept_) {
      if (!is_root(root)) continue;
      bool publish = publishes_roots_ && root.identity != Identity::unusable;
      bool guard = column_reason(root).empty();
      for (const auto& leaf : all_) {
        if (leaf.root_oid != root.oid) continue;
        bool wanted = by_oid_.contains(leaf.oid) && !catalog::has_choice(*by_oid_.at(leaf.oid)) &&
                      (leaf.kind == 'p' || skip_reason(leaf).empty());
        publish = publish && wanted && leaf.identity != Identity::unusable;
        guard = guard && column_reason(leaf).empty();
        if (leaf.kind == 'r') guard = guard && has_key(leaf);
      }
      if (publish) published_roots_.insert(root.oid);
      if (guard) guarded_roots_.insert(root.oid);
    }
  }

  std::string column_reason(const Table& table) const {
    if (auto reason = no_column_reason(table); !reason.empty()) return reason;
    return published_by_target_.contain(table.name) ? "the target publishes it itself" : "";
  }

  struct Guard {
    state::GuardKind kind;
    std::string reason;  // "" for the column, which is the rule
  };

  Guard guard_of(const Table& table) const {
    using state::GuardKind;
    if (options_.guard == GuardKind::none) return {GuardKind::none, "--guard none"};
    if (!has_key(table)) return {GuardKind::none, "it has no key"};
    std::string reason = options_.guard == GuardKind::ledger ? "--guard ledger" : column_reason(table);
    if (reason.empty() && (inheritance_.contains(table.oid) || table.has_children))
      reason = "it is a member of plain inheritance";
    if (reason.empty() && by_oid_.contains(table.root_oid) && !guarded_roots_.contains(table.root_oid))
      reason = "another partition of the same table cannot have one";
    if (reason.empty()) return {GuardKind::column, ""};
    if (!has_stream_key(table)) return {GuardKind::none, reason + ", and its identity finds no row for a ledger"};
    return {GuardKind::ledger, reason};
  }

  void add(const Table& table, TablePlan& plan) {
    copy::CopyJob job{table, {}};
    job.state.source_oid = table.oid;
    job.state.name = table.name;
    job.state.bytes_total = static_cast<std::int64_t>(table.bytes);
    job.state.source_shape = catalog::shape_json(table);
    job.state.note = skip_reason(table);
    if (job.state.note.empty()) {
      auto guard = guard_of(table);
      job.state.guard = guard.kind;
      if (!guard.reason.empty()) plan.guard_reasons[table.oid] = std::move(guard.reason);
      publish(table, job, plan.publications);
    } else {
      job.state.phase = state::TablePhase::skipped;
      job.state.guard = state::GuardKind::none;
      job.state.bytes_total = 0;
      if (published_roots_.contains(table.oid)) plan.publications.tables.push_back(table.name);
    }
    job.state.guarded = job.state.guard == state::GuardKind::none;
    plan.jobs.push_back(std::move(job));
  }

  void publish(const Table& table, copy::CopyJob& job, source::PublicationPlan& publications) const {
    if (published_roots_.contains(table.root_oid)) return;  // by its root
    if (const auto detail = catalog::publication_detail(table); !detail.empty()) {
      publications.details[table.name] = detail;
      job.state.note = "only " + on_one_line(detail);
    }
    if (table.identity != Identity::unusable) {
      publications.tables.push_back(table.name);
      return;
    }
    job.state.inserts_only = true;
    job.state.note += (job.state.note.empty() ? "" : "; ") + ("inserts and truncate only: " + table.identity_reason);
    publications.tables_inserts_only.push_back(table.name);
  }

  const CloneOptions& options_;
  const std::vector<Table> all_, kept_;
  const std::set<Oid> without_data_, inheritance_;
  const OwnPublications published_by_target_;
  const bool publishes_roots_;
  std::map<Oid, const Table*> by_oid_;  // kept ones
  std::set<Oid> published_roots_, guarded_roots_;
};

void require_choices_possible(pg::Control& source, const CloneOptions& options) {
  if (options.filter.choices.empty()) return;
  constexpr int kFirstVersion = 150000;
  if (source.server_version() < kFirstVersion)
    throw Error(ErrorKind::preflight,
                "tables: the source publishes whole tables only; column lists and row filters "
                "need version 15")
        .side(Side::source)
        .hint("Leave `tables` out, or leave whole tables out with --exclude-table.");
  if (!options.publication.empty())
    throw Error(ErrorKind::usage, "tables: a publication of your own says itself what it publishes")
        .hint("Leave out either `tables` or --publication.");
}

}  // namespace

TablePlan plan_tables(pg::Control& source, pg::Control* target, const CloneOptions& options) {
  require_choices_possible(source, options);
  auto tables = catalog::load_tables(source);
  std::vector<ChosenIdentity> chosen;
  if (options.keyless == Keyless::full) chosen = assume_identity_full(source, options.filter, tables);
  auto plan = Planner(source, target, options, std::move(tables)).plan();
  plan.identity_full = std::move(chosen);
  return plan;
}

}  // namespace pgbaton::snapshot
