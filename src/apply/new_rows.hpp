// New rows by COPY straight into their table: binary where every column has a binary form, else text. A value without
// one, met on the way, ends the binary COPY, and a text COPY takes the rest.
#pragma once
#include "batch.hpp"

#include <pgbaton/pg/connection.hpp>

#include <span>

namespace pgbaton::apply {

// The rows that the server stored. Its errors are thrown as they come.
long long copy_rows(pg::Connection& connection, const TargetTable& table, std::span<const BatchRow> rows);

}  // namespace pgbaton::apply
