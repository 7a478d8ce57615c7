#include <pgbaton/embedded_page.hpp>

#include "monitor_render.hpp"

namespace pgbaton::app {

std::string_view page_html() {
  return kPage;
}

}  // namespace pgbaton::app
