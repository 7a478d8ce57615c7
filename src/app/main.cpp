// parse → find the command → run it → map what went wrong to stderr and an exit code.
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/switchover/watchdog.hpp>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "command.hpp"
#include "context.hpp"
#include "direction.hpp"
#include "monitor.hpp"
#include "process_title.hpp"
#include "render.hpp"
#include "runtime.hpp"

namespace pgbaton::app {

namespace {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int report(const Error& error, bool json) {
  print_error(error);
  try {
    if (json) print(error_json(error));
  } catch (const Error& unwritten) {
    if (unwritten.message() != error.message()) print_error(unwritten);
  }
  return exit_code(error.kind());
}

int run_watched(const Command& command, Context& context) {
  if (context.monitor == nullptr) return command.run(context);
  try {
    const int code = command.run(context);
    context.monitor->end(code);
    return code;
  } catch (const Error& error) {
    context.monitor->fail(error);
    context.monitor->end(exit_code(error.kind()));
    throw;
  }
}

int run(const Invocation& invocation, const Runtime& runtime) {
  const Options& options = invocation.options;
  if (invocation.version || invocation.help) {
    print(invocation.version ? "pgbaton " PGBATON_VERSION : help_text(options.command));
    return 0;
  }
  configure_log(options);
  Context context(options, runtime.stop_token());
  try {
    const Command& command = *find_command(options.command);
    turn_round(context);
    std::optional<Monitor> monitor;
    if (!options.http.empty() && (find_option("http")->used_by & command.use) != 0) monitor.emplace(context);
    if (monitor) context.monitor = &*monitor;
    return run_watched(command, context);
  } catch (Error& error) {
    add_origin(error, options);
    throw;
  }
}

}  // namespace

}  // namespace pgbaton::app

int main(int argc, char** argv) {
  using namespace pgbaton;
  if (argc == 2 && argv[1] == switchover::kWatchdogWord) return switchover::run_watchdog();
  const app::Runtime runtime;  // first: from here on a signal asks for an orderly end
  // Also for a command line that cannot be parsed.
  bool json = std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  try {
    auto invocation = app::parse_invocation({argv + std::min(argc, 1), argv + argc}, app::environment);
    json = invocation.options.json;
    app::hide_secrets(argc, argv);
    return app::run(invocation, runtime);
  } catch (const Error& error) {
    return app::report(error, json);
  } catch (const std::exception& error) {
    return app::report(
        Error(ErrorKind::failed, error.what()).hint("Run the same command again; if it stays, report it."), json);
  }
}
