#include "process_title.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/endpoint.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace pgbaton::app {

namespace {

// In place: the kernel shows these very bytes. What does not fit is cut off, what is left over becomes blanks.
void overwrite(char* value) {
  std::size_t length = std::strlen(value);
  std::string shown = pg::redact(value);
  if (shown == value) return;
  shown.resize(length, ' ');
  std::copy(shown.begin(), shown.end(), value);
}

}  // namespace

void hide_secrets(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    for (std::string_view flag : {"--source", "--target"}) {
      std::string_view word = argv[i];
      if (word == flag && i + 1 < argc) overwrite(argv[i + 1]);
      if (word.starts_with(flag) && word.size() > flag.size() && word[flag.size()] == '=')
        overwrite(argv[i] + flag.size() + 1);
    }
  }
}

}  // namespace pgbaton::app
