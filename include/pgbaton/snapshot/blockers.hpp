// What to do about the blockers of a check.
#pragma once
#include <pgbaton/snapshot/check.hpp>

#include <string_view>
#include <vector>

namespace pgbaton::snapshot {

// As require_no_blocker(findings); `command` is the one that lists all of them with what to do.
void require_no_blocker(const std::vector<Finding>& findings, std::string_view command);

}  // namespace pgbaton::snapshot
