#include <pgbaton/copy/shell.hpp>

#include <sys/stat.h>
#include <unistd.h>
#include <pgbaton/copy/process.hpp>

#include <algorithm>

namespace pgbaton::copy {

namespace {

constexpr std::size_t kKeptBytes = 4096;

bool is_executable(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

std::string on_one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::ranges::replace(text, '\n', ' ');
  return text;
}

}  // namespace

// The first word, only where it says by itself which program it is: no assignment, quote, variable or bracket, no
// number of a redirection, no name of a function that is defined here. What has `||` may provide for a program that is
// missing.
std::string shell_complaint(const std::string& command) {
  const auto parsed = run_command({"/bin/sh", {"-n", "-c", command}, {}, kKeptBytes}, {});
  if (parsed.exit_code != 0) return "sh cannot parse it: " + on_one_line(parsed.errors);
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./";
  const auto begin = std::min(command.find_first_not_of(" \t\n"), command.size());
  const auto end = std::min(command.find_first_of(" \t\n;&|<>", begin), command.size());
  const auto word = command.substr(begin, end - begin);
  if (word.empty() || word.find_first_not_of(kPlain) != word.npos) return "";
  if (word.find_first_not_of("0123456789") == word.npos || command.find("||") != command.npos) return "";
  const auto next = command.find_first_not_of(" \t", end);
  if (next != command.npos && command[next] == '(') return "";
  if (word.find('/') != word.npos) return is_executable(word) ? "" : word + " is no executable file";
  const auto found = run_command({"/bin/sh", {"-c", "command -v -- \"$0\" >/dev/null", word}, {}, kKeptBytes}, {});
  return found.exit_code == 0 ? "" : "sh finds no " + word;
}

}  // namespace pgbaton::copy
