// What the options say about generations: for rebuild, and for check and drop, which look at them.
#pragma once
#include <pgbaton/rebuild/rebuild.hpp>

#include "context.hpp"

namespace pgbaton::app {

rebuild::Place rebuild_place(const Context& context);
rebuild::Options rebuild_options(const Context& context);

}  // namespace pgbaton::app
