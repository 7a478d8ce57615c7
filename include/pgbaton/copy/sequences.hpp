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

}  // namespace pgbaton::copy
