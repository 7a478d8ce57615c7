// SQL that turns a row into 64 bits, the same on every major from 12 to 18.
//
// PostgreSQL's own extended hash functions are stable across versions, because hash-partitioned tables depend on them;
// they are used where equal values have one spelling (integers, text, uuid; not timestamps, whose function folds 64
// bits to 32). Everything else is hashed as text under the pinned session settings, so that 1.0 and 1.00 differ, as
// they would for a reader. Columns are combined by XOR with a seed each and mixed once more, so that a sum over rows
// notices values that changed places.
//
// Between servers of different encodings or byte orders the functions differ; then everything goes through md5 of
// UTF-8.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/connection.hpp>

#include <string>
#include <vector>

namespace pgbaton::verify {

enum class HashStyle { native, portable };

// By asking both servers.
HashStyle choose_hash_style(pg::Connection& source, pg::Connection& target);

// bigint, never NULL. `number` makes the same value in different columns differ. `same_type`: both sides declare the
// same built-in type.
std::string column_hash(const catalog::Column& column, bool same_type, std::size_t number, HashStyle style);
std::string combine(const std::vector<std::string>& hashes, std::uint32_t seed, HashStyle style);
// The column's text as its type writes it, compared and grouped byte by byte; `prefix`: "t." or "".
std::string column_text(const catalog::Column& column, std::string_view prefix = "");

}  // namespace pgbaton::verify
