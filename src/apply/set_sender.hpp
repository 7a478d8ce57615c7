// Cuts the rows of a batch into statements of about a thousand rows, each column one array parameter, and sends them
// into a pipeline; what they touched is compared with what was due.
//
// An array travels in binary where every value of it has a binary form (binary_format.hpp), else as text: the server
// spends a good part of a statement on reading array literals.
#pragma once
#include "batch.hpp"
#include "batch_sql.hpp"
#include "binary_format.hpp"
#include "row_session.hpp"
#include "text_format.hpp"

#include <pgbaton/pg/pipeline.hpp>

#include <span>
#include <string_view>
#include <vector>

namespace pgbaton::apply {

class SetSender {
 public:
  SetSender(pg::Pipeline& pipeline, WriteCounts& counts) : pipeline_(pipeline), counts_(counts) {}

  // `counted`: what it touches are rows of the table, not entries about them.
  void send(const BatchStatement& statement, const TableBatch& batch, std::vector<BatchRow> rows, bool counted = true);
  // Tombstones of rows that are gone. How many are new says nothing.
  void bury(std::string_view replica, const TargetTable& table, const std::vector<BatchRow>& rows);
  bool all_exact() const { return exact_; }

 private:
  // One parameter in one of its two forms.
  struct Array {
    BinaryArray binary;
    ArrayLiteral literal;
  };

  void flush(const BatchStatement& statement, const TableBatch& batch, std::span<const BatchRow> rows, bool counted);
  void add_column(Array& array, const TargetColumn& column, std::size_t at, std::span<const BatchRow> rows);
  void add_guards(Array& array, std::span<const BatchRow> rows);

  pg::Pipeline& pipeline_;
  WriteCounts& counts_;
  std::vector<Array> arrays_;
  std::vector<pg::Parameter> parameters_;
  std::vector<int> formats_;
  bool exact_ = true;
};

}  // namespace pgbaton::apply
