// What `check` found, for people.
#pragma once
#include <pgbaton/snapshot/check.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::app {

// `what` it is that can start, or would be refused.
std::string findings_text(const std::vector<snapshot::Finding>& findings, std::string_view what, bool colour);

}  // namespace pgbaton::app
