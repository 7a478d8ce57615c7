#include "command.hpp"
#include "render.hpp"
#include "status.hpp"

namespace pgbaton::app {

int run_status(Context& context) {
  StatusReport report = load_status(context);
  print(context.options.json ? status_json(report) : status_text(report));
  return 0;
}

}  // namespace pgbaton::app
