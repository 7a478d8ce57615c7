// Run by the build: pgbaton_manual man|bash|zsh|fish > FILE
#include <cstdio>
#include <cstring>

#include "manual.hpp"

int main(int argc, char** argv) {
  using namespace pgbaton;
  const std::string_view what = argc == 2 ? argv[1] : "";
  std::string text;
  if (what == "man") text = app::man_page();
  if (what == "bash") text = app::bash_completion();
  if (what == "zsh") text = app::zsh_completion();
  if (what == "fish") text = app::fish_completion();
  if (text.empty()) {
    std::fputs("usage: pgbaton_manual man|bash|zsh|fish\n", stderr);
    return 2;
  }
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
}
