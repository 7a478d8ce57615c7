// Whether copy_sequences() (finalize.hpp) would succeed now.
#pragma once
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/control.hpp>

#include <cstdint>
#include <vector>

namespace pgbaton::copy {

// Its errors, and nothing is set.
void require_sequences(pg::Control& source, pg::Control& target, std::int64_t gap,
                       std::vector<QualifiedName>* missing = nullptr);

// For a switchover: each sequence of the target to at least the source's value and `gap` increments more, also those
// that were never called, as far as their limits let them; one that is further on stays. Returns how many were set.
int advance_sequences(pg::Control& source, pg::Control& target, std::int64_t gap);

}  // namespace pgbaton::copy
