// TRUNCATE of one or several tables, and the floor that it leaves.
#pragma once
#include "row_session.hpp"

namespace pgbaton::apply {

void write_truncate(RowSession& session, const Change& change);

}  // namespace pgbaton::apply
