// The schema by pg_dump and pg_restore; DDL is never re-implemented here. Child processes get their passwords by
// environment; their stderr becomes part of the error.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/endpoint.hpp>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace pgbaton::copy {

struct SchemaOptions {
  std::string pg_dump;     // --pg-dump; "" for the newest on the machine that is not older than the source
  bool owners = true;      // --no-owner
  bool privileges = true;  // --no-privileges
  std::vector<QualifiedName> excluded_tables;  // by the filter: neither they nor what hangs on them
};

// The pg_dump to use: newest of PATH and /usr/lib/postgresql/*/bin (or pg_config's), not older than source_version_num.
// Error(preflight) when there is none, naming those found. pg_restore is the one beside it.
std::string find_pg_dump(const std::string& wanted, int source_version_num);

// One entry of the archive's table of contents.
struct TocEntry {
  int id = 0;
  std::uint32_t catalog_oid = 0;  // of the object, on the source
  std::string description;        // INDEX, CONSTRAINT, FK CONSTRAINT, TRIGGER …
  std::string line;               // as pg_restore -l printed it, for a use-list
};

// A schema-only dump in a temporary file (removed by the destructor).
class SchemaArchive {
 public:
  static SchemaArchive dump(const pg::Endpoint& source, const std::string& snapshot_id, const SchemaOptions& options,
                            const std::stop_token& stop);
  const std::vector<TocEntry>& entries() const;
  // Everything of section pre-data; stops at the first error. In one transaction.
  void restore_pre_data(const pg::Endpoint& target, const std::stop_token& stop) const;
  // Just these entries, in archive order, in one transaction (false: no transaction, for what cannot run in one).
  void restore_entries(const pg::Endpoint& target, const std::vector<TocEntry>& entries, std::string_view role,
                       const std::stop_token& stop) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace pgbaton::copy
