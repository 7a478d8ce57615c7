#include "set_sender.hpp"

#include "tombstone.hpp"

namespace pgbaton::apply {

namespace {

// PostgreSQL 15 becomes up to twice as slow per row when the parameters of one statement exceed 128 to 256 kB.
constexpr std::size_t kStatementRows = 1000;
constexpr std::size_t kStatementBytes = 256 * 1024;
// What a value takes besides its text, roughly, in either form.
constexpr std::size_t kValueBytes = 4;
constexpr int kText = 0, kBinary = 1;

std::size_t bytes_of(const BatchStatement& statement, const BatchRow& row) {
  std::size_t sum = sizeof row.commit_lsn;
  for (const std::size_t i : statement.columns) sum += row.values[i].data.size() + kValueBytes;
  return sum;
}

BinaryType type_of(const TargetColumn& column) {
  return has_typed_array(column) ? binary_type(column.cast_type) : kBinaryText;
}

}  // namespace

void SetSender::send(const BatchStatement& statement, const TableBatch& batch, std::vector<BatchRow> rows,
                     bool counted) {
  if (rows.empty() || statement.sql.empty()) return;
  sort_by_key(*batch.table, rows);
  std::size_t first = 0, bytes = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bytes += bytes_of(statement, rows[i]);
    const std::size_t count = i + 1 - first;
    if (count < kStatementRows && bytes < kStatementBytes && i + 1 < rows.size()) continue;
    flush(statement, batch, std::span(rows).subspan(first, count), counted);
    first = i + 1;
    bytes = 0;
  }
}

void SetSender::flush(const BatchStatement& statement, const TableBatch& batch, std::span<const BatchRow> rows,
                      bool counted) {
  parameters_.clear();
  formats_.clear();
  arrays_.resize(statement.columns.size() + 1);
  std::size_t at = 0;
  for (const std::size_t i : statement.columns) add_column(arrays_[at++], batch.table->columns[i], i, rows);
  const std::string first_commit_lsn = to_string(batch.first_commit_lsn);
  switch (statement.guard) {
    case GuardParameter::none:
      break;
    case GuardParameter::one:
      parameters_.emplace_back(first_commit_lsn);
      formats_.push_back(kText);
      break;
    case GuardParameter::array:
      add_guards(arrays_[at], rows);
      break;
  }
  pipeline_.send(statement.sql, parameters_, formats_,
                 [this, due = static_cast<long long>(rows.size()), counted](const pg::Result& result) {
                   const long long touched = result.affected();
                   if (counted) counts_.rows_written += touched;
                   exact_ = exact_ && touched == due;
                 });
}

void SetSender::add_column(Array& array, const TargetColumn& column, std::size_t at, std::span<const BatchRow> rows) {
  const BinaryType type = type_of(column);
  array.binary.start(type);
  bool binary = type.codec != Codec::none;
  for (const BatchRow& row : rows) {
    if (!binary) break;
    binary = array.binary.add(row.values[at]);
  }
  formats_.push_back(binary ? kBinary : kText);
  if (binary) {
    parameters_.emplace_back(array.binary.finish());
    return;
  }
  array.literal.clear();
  for (const BatchRow& row : rows) array.literal.add(row.values[at], column.type_is_integer);
  parameters_.emplace_back(array.literal.finish());
}

void SetSender::add_guards(Array& array, std::span<const BatchRow> rows) {
  array.binary.start(kBinaryLsn);
  for (const BatchRow& row : rows) array.binary.add(row.commit_lsn);
  parameters_.emplace_back(array.binary.finish());
  formats_.push_back(kBinary);
}

void SetSender::bury(std::string_view replica, const TargetTable& table, const std::vector<BatchRow>& rows) {
  ArrayLiteral keys, lsns;
  const auto flush_stones = [&] {
    const std::vector<pg::Parameter> parameters{replica, table.name.schema, table.name.name, keys.finish(),
                                                lsns.finish()};
    pipeline_.send(bury_many_statement(), parameters, [](const pg::Result&) {});
    keys.clear();
    lsns.clear();
  };
  std::size_t count = 0;
  for (const BatchRow& row : rows) {
    keys.add(tombstone_key(table, row.values), false);
    lsns.add(to_string(row.commit_lsn), true);
    if (++count % kStatementRows == 0 || keys.bytes() >= kStatementBytes) flush_stones();
  }
  if (keys.bytes() > 1) flush_stones();
}

}  // namespace pgbaton::apply
