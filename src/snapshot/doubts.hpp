// Why tables of a replica may not be as they are on the source: the source's catalogs of now against the recorded
// shapes, the publications and the target's catalogs. Private to the module.
//
// Example. The replica has t (attributes 1 id, 2 v), p with leaf p_b, and d.
//   ALTER TABLE t ALTER v TYPE int USING v * 10     another file and another pg_attribute row: unproven
//   ALTER TABLE p DETACH PARTITION p_b              in no publication: differs; attached again: unproven, because what
//   was
//                                                   written to it meanwhile is in no stream
//   DROP TABLE d; CREATE TABLE d                    another table of the same name: differs
//   CREATE TABLE new                                outside
// And t, while it was copied, was taken for dropped: differs as long as it or its name is there.
#pragma once
#include <pgbaton/catalog/origin.hpp>
#include <pgbaton/catalog/relation.hpp>
#include <pgbaton/catalog/shape.hpp>
#include <pgbaton/catalog/type.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/store.hpp>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pgbaton::snapshot {

inline constexpr std::string_view kProve =
    "`pgbaton verify` compares it, with --repair it mends it; once the replica is ready, `pgbaton resync` copies it "
    "again";

// All of one side.
struct Catalogs {
  pg::Control& connection;
  std::vector<catalog::Table> tables;
  catalog::Types types;
  // By table: the TOAST table, which ALTER TABLE, CLUSTER and VACUUM FULL give another oid, and TRUNCATE does not.
  std::map<catalog::Oid, catalog::Oid> toast;
  std::set<catalog::Oid> named;  // in some publication: the server refuses SET UNLOGGED of them
};

class DoubtFinder {
 public:
  // References must outlive the finder.
  DoubtFinder(const Catalogs& source, const Catalogs& target, const std::set<QualifiedName>& published,
              const std::vector<state::TableState>& states, const state::Replica& replica);

  void look_at(const catalog::Table& table, const state::TableState& state);
  // Recorded as one whose rows are not carried.
  void look_at_skipped(const catalog::Table& table, const state::TableState& state);
  // Recorded as dropped before it was copied, and yet there.
  void look_at_survivor(const state::TableState& state, const catalog::Relation& now);
  void look_at_unknown(const catalog::Table& table);
  // Of a table that the source does not have any more.
  void look_at_dropped(const state::TableState& state);
  std::vector<state::Doubt> take() { return std::move(found_); }

  // Whether all that this look compared of a known table agrees: only then its present shape is known for good.
  bool agrees(catalog::Oid table) const { return !disagreeing_.contains(table); }
  // Names that both sides have changed.
  const std::vector<state::Store::Rename>& renames() const { return renames_; }

  // The target's counterpart, by its oid if that is recorded, else by name; null without one.
  const catalog::Table* on_target(const state::TableState& state) const;

 private:
  void add(const QualifiedName& table, state::DoubtKind kind, std::string reason, std::string remedy);
  bool is_published(const catalog::Table& table) const;
  std::string bounds(const Catalogs& side, const catalog::Table& table);
  bool left_the_replica(const catalog::Table& table, const state::TableState& state,
                        const std::optional<catalog::Shape>& recorded) const;
  std::string guard_of_new_parent(const std::vector<std::string>& parents, const catalog::Table& target);
  void compare_bounds(const catalog::Table& table, const catalog::Table& target);
  bool may_have_been_unlogged(const catalog::Table& table, const catalog::Shape& recorded) const;
  std::string generation_clause(const catalog::Table& table, const catalog::Column& column);
  void compare_name(const catalog::Table& table, const state::TableState& state, const catalog::Table& target);
  void compare_parent(const catalog::Table& table, const catalog::Table& target, const catalog::ShapeChange& change);
  void compare_columns(const catalog::Table& table, const state::TableState& state, const catalog::Table& target);
  // One pair of tables, and the shape that was recorded.
  struct Pair {
    const catalog::Table &table, &target;
    const state::TableState& state;
    const catalog::Shape& recorded;
  };
  void compare_column(const Pair& pair, const catalog::Column& column);
  void compare_column_type(const Pair& pair, const catalog::Column& column, const catalog::Column& there);
  void lacks_column(const Pair& pair, const catalog::Column& column);
  // `remedy` makes the statement of the table to alter, which may be an ancestor. A column that an ancestor gives to
  // the table is told of with that one.
  void column_differs(const Pair& pair, const catalog::Column& column, const std::string& reason,
                      const std::function<std::string(const catalog::Origins& origins, const QualifiedName&)>& remedy);
  std::string collation(const catalog::Types& types, const catalog::Table& table, const std::string& column) const;
  void compare_types(const catalog::Table& table, const state::TableState& state, const catalog::Table& target);
  void compare_type(const catalog::Table& table, const catalog::Type& here, const catalog::Type& there);
  void find_renamed_type(const catalog::Table& table, const catalog::Type& type, const catalog::Column& there);
  std::vector<std::string> parent_names(const std::map<catalog::Oid, const catalog::Table*>& tables,
                                        const catalog::Table& table) const;
  void differs(const catalog::Table& table, std::string reason, std::string remedy);
  void doubt_columns(const catalog::Table& table, const catalog::ShapeChange& change);

  const Catalogs &source_, &target_;
  std::map<catalog::Oid, const catalog::Table*> source_by_oid_, target_by_oid_;
  std::map<QualifiedName, const catalog::Table*> target_by_name_;
  const std::set<QualifiedName>& published_;
  std::map<QualifiedName, catalog::Oid> known_;  // tables of the replica, by name
  std::set<catalog::Oid> known_oids_;
  std::set<QualifiedName> looked_at_;  // tables of the source that are compared
  std::set<std::string> statements_;   // remedies that were told
  std::set<catalog::Oid> disagreeing_;
  std::vector<state::Store::Rename> renames_;
  bool makes_schema_ = true;                  // --schema full: types are those of the source
  std::set<QualifiedName> with_column_list_;  // of them, new columns are not carried
  std::vector<state::Doubt> found_;
};

}  // namespace pgbaton::snapshot
