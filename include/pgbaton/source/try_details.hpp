// Whether the source takes the column lists and conditions of a plan, asked before anything is made.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/source/publication.hpp>

#include <vector>

namespace pgbaton::source {

// What the source refuses of the plan's details: each is made alone, as create_publications() would, in a transaction
// that is rolled back (SHARE UPDATE EXCLUSIVE on the table for a moment, a transaction id; no application waits). One
// Error for each table, with its name and a hint: preflight, or timed_out when DDL or a VACUUM held the table for
// 0.8 s. A right that the role lacks for it is 42501.
std::vector<Error> try_details(pg::Control& source, const PublicationPlan& plan);

}  // namespace pgbaton::source
