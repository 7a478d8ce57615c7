#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/check.hpp>
#include <pgbaton/state/store.hpp>

#include <unistd.h>

#include <cstdlib>

#include "command.hpp"
#include "findings.hpp"
#include "rebuild_options.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

bool replica_exists(const Context& context) {
  auto target = snapshot::open_read_only(context.target());
  return state::Store(*target).load_replica(context.names.name).has_value();
}

// On a terminal that knows colours, unless NO_COLOR says otherwise (no-color.org).
bool colour_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

namespace {

// A rebuild that is not followed ends what it built by itself, before the swap.
std::vector<snapshot::Finding> check_rebuild(const Context& context) {
  auto findings = rebuild::check_both_sides(rebuild_options(context));
  if (context.options.mode == "follow") return findings;
  std::erase_if(findings, [](const auto& finding) { return finding.id == "table.guard_column"; });
  for (auto& finding : findings)
    for (const auto& [finish, swap] : {std::pair<std::string_view, std::string_view>{"at `finish`", "before the swap"},
                                       {"until `finish`", "until the swap"}})
      if (const auto at = finding.message.find(finish); at != std::string::npos)
        finding.message.replace(at, finish.size(), swap);
  return findings;
}

}  // namespace

int run_check(Context& context) {
  if (context.options.rebuild) {
    const auto findings = check_rebuild(context);
    if (context.options.json)
      print(findings_json(findings));
    else
      print_text(findings_text(findings, "a rebuild", colour_wanted()));
    return snapshot::has_blocker(findings) ? exit_code(ErrorKind::preflight) : 0;
  }
  snapshot::CheckOptions options;
  options.clone = context.clone_options(context.has_target());
  options.with_target = context.has_target();
  auto findings = snapshot::check_routes(options);
  if (!snapshot::has_blocker(findings)) {
    options.resume = context.has_target() && replica_exists(context);
    findings = snapshot::run_check(options, findings);
  }
  if (context.options.json)
    print(findings_json(findings));
  else
    print_text(findings_text(findings, colour_wanted()));
  return snapshot::has_blocker(findings) ? exit_code(ErrorKind::preflight) : 0;
}

}  // namespace pgbaton::app
