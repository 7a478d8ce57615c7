// The schema by pg_dump and pg_restore; DDL is never re-implemented here. pg_dump writes an archive on the snapshot,
// pg_restore turns it into SQL once, entry by entry, and the entries are then run on connections of our own: each has
// its own SQLSTATE, can be skipped when its object exists, and costs no process. Child processes get their passwords by
// environment; their stderr becomes part of the error.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/endpoint.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::copy {

struct SchemaOptions {
  std::string pg_dump;      // --pg-dump; "" for the newest on the machine that is not older than the source
  bool owners = true;       // --no-owner
  bool privileges = true;   // --no-privileges
  bool comments = true;     // --no-comments
  bool labels = true;       // --no-security-labels
  bool tablespaces = true;  // --no-tablespaces
  bool settings = true;     // --no-settings: of the database, see database.hpp
  // By the filter: neither they nor the views, foreign keys and so on that hang on them. Leaves are named beside roots.
  std::vector<QualifiedName> excluded_tables;
  std::vector<QualifiedName> only_tables;  // empty: all; else nothing but these, and what pg_dump --table takes along
  std::vector<std::string> excluded_schemas;  // patterns as --exclude-schema takes them (pg_dump's rules are the same)
};

// The pg_dump to use: newest of PATH and /usr/lib/postgresql/*/bin (or pg_config's), not older than source_version_num.
// Error(preflight) when there is none, naming those found. pg_restore is the one beside it.
std::string find_pg_dump(const std::string& wanted, int source_version_num);

enum class Section { pre_data, post_data };

// One entry of the archive: an object with everything that belongs to it (owner, replica identity mark, statistics
// target).
struct TocEntry {
  int id = 0;
  std::uint32_t class_oid = 0;  // the catalog the object is in (pg_constraint …); 0 for comments, grants, attachments
  std::uint32_t catalog_oid = 0;  // of the object, on the source
  std::string description;        // INDEX, CONSTRAINT, FK CONSTRAINT, TRIGGER …
  std::string schema, tag;        // as pg_restore prints them: for people; a tag may be "table object"
  Section section = Section::pre_data;
  std::vector<int> dependencies;  // ids; of a comment or grant: what it belongs to
  std::string sql;                // one or more statements, session settings it needs included
  // What the object hangs on, as the snapshot saw it (empty name: on no table).
  QualifiedName table;
  char table_kind = ' ';     // relkind of `table`
  std::string object;        // own name, unquoted: index, constraint, trigger …
  bool populated = false;    // of a materialized view
  QualifiedName referenced;  // foreign keys: the other table
  bool left_out = false;     // hangs on an excluded table; never restored, but named by restore_pre_data/restore_rest
};

// How a restore that takes several transactions remembers how far it came: by what it commits itself. An entry's
// fingerprint covers its name and its SQL, so that one which changed on the source meanwhile is not taken for done.
struct RestoreRecord {
  std::set<std::string> done;  // fingerprints of what earlier runs have committed; skipped
  // The SQL to run before each COMMIT, given the fingerprints of its entries; must touch one row, else we are fenced.
  std::function<std::string(const std::vector<std::string>& fingerprints, bool last)> statement;
};

// A schema-only dump in a temporary file (removed as soon as it has been read). Cheap to copy; const and thread-safe.
class SchemaArchive {
 public:
  // Holds no lock on the source when it returns. Errors: preflight for no usable pg_dump; failed otherwise.
  static SchemaArchive dump(const pg::Endpoint& source, const std::string& snapshot_id, const SchemaOptions& options,
                            const std::stop_token& stop);
  const std::vector<TocEntry>& entries() const;
  // Everything of section pre-data; stops at the first error. In one transaction, unless there are so many tables that
  // their locks would not fit into the target's lock table. An object that exists already is an Error(rejected).
  void restore_pre_data(const pg::Endpoint& target, const std::stop_token& stop,
                        const RestoreRecord& record = {}) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace pgbaton::copy
