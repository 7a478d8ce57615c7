// Writes the tables of one batch step with set-based statements: all deletes, updates and small inserts in one
// pipeline, then the large groups of new rows by COPY (libpq has no COPY in pipeline mode; deletes and updates come
// first so that unique values they free are free).
//
// Every count is known beforehand (batch.hpp) and read. write() returns false at the first that differs: the caller
// rolls back to its savepoint and replays the window change by change. Errors of the server are thrown as they come.
#pragma once
#include "batch.hpp"
#include "row_writer.hpp"

namespace pgbaton::apply {

class BatchWriter {
 public:
  BatchWriter(RowSession& session, RowWriter& rows) : session_(session), rows_(rows) {}
  bool write(const BatchStep& step);

 private:
  bool write_sets(const BatchStep& step);
  bool copy_in(const TargetTable& table, std::vector<BatchRow> rows);
  bool write_ordered(const TableBatch& batch);

  RowSession& session_;
  RowWriter& rows_;
};

}  // namespace pgbaton::apply
