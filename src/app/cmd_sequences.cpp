#include <fmt/format.h>
#include <pgbaton/copy/finalize.hpp>

#include "command.hpp"
#include "render.hpp"

namespace pgbaton::app {

int run_sequences(Context& context) {
  auto source = pg::open_control(context.source(), "sequences");
  auto target = pg::open_control(context.target(), "sequences");
  std::int64_t set = copy::copy_sequences(*source, *target, context.options.gap);
  print(context.options.json ? small_json({{"sequences_set", set}, {"gap", context.options.gap}})
                             : fmt::format("{} sequences set, gap {}", set, context.options.gap));
  return 0;
}

}  // namespace pgbaton::app
