// What a switchover did, or a dry run found.
#pragma once
#include <pgbaton/switchover/switchover.hpp>

#include <string>

namespace pgbaton::app {

// `reversed`: of a rollback.
std::string switchover_text(const switchover::Report& report, bool reversed);
std::string switchover_json(const switchover::Report& report);

}  // namespace pgbaton::app
