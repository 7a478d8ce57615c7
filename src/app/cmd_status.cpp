#include "command.hpp"
#include "render.hpp"
#include "status.hpp"

namespace pgbaton::app {

int run_status(Context& context) {
  StatusReport report = load_status(context);
  if (context.options.json)
    print(status_json(report));
  else
    print_text(status_text(report));
  return 0;
}

}  // namespace pgbaton::app
