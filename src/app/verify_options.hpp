// What the options say about a comparison: of verify, and of resync --where.
#pragma once
#include <pgbaton/verify/verify.hpp>

#include "context.hpp"

namespace pgbaton::app {

verify::Options verify_options(const Context& context);
// Prints the report, and returns the exit code.
int report_verified(const Context& context, const verify::Report& report);

}  // namespace pgbaton::app
