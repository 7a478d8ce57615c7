#include "tools.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/schema.hpp>
#include <set>

#include <pgbaton/copy/process.hpp>

namespace pgbaton::copy {
namespace {

namespace fs = std::filesystem;

// "pg_dump (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"; "18beta1" and "17devel" count as their major.
std::optional<Tool> parse_version(const std::string& path, std::string_view output) {
  constexpr std::string_view kBefore = "(PostgreSQL) ";
  const auto at = output.find(kBefore);
  if (at == output.npos) return std::nullopt;
  output.remove_prefix(at + kBefore.size());
  Tool tool{path, std::string(output.substr(0, output.find_first_of(" \n"))), 0};
  auto [end, code] = std::from_chars(output.data(), output.data() + output.size(), tool.major);
  if (code != std::errc()) return std::nullopt;
  return tool;
}

std::optional<Tool> ask_version(const std::string& path) try {
  auto outcome = run_command({path, {"--version"}, {}}, {});
  return outcome.exit_code == 0 ? parse_version(path, outcome.output) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;  // not a program after all
}

std::vector<fs::path> package_folders() {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", ignored))
    folders.push_back(entry.path() / "bin");
  for (const auto& entry : fs::directory_iterator("/usr", ignored))
    if (entry.path().filename().string().starts_with("pgsql-")) folders.push_back(entry.path() / "bin");
  return folders;
}

std::vector<fs::path> path_folders() {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const auto colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) folders.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return folders;
}

std::string describe(const std::vector<Tool>& tools) {
  std::string text;
  for (const auto& tool : tools)
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", tool.path, tool.version_text);
  return text.empty() ? "none" : text;
}

std::string find_in_path(const std::string& wanted) {
  if (wanted.find('/') != wanted.npos) return wanted;
  for (const auto& folder : path_folders())
    if (::access((folder / wanted).c_str(), X_OK) == 0) return folder / wanted;
  return wanted;
}

Tool require_wanted(const std::string& wanted) {
  auto tool = ask_version(find_in_path(wanted));
  if (tool) return *tool;
  throw Error(ErrorKind::preflight, fmt::format("{} is not a pg_dump that can be run", wanted))
      .hint("Give --pg-dump the path of a pg_dump, with pg_restore beside it.");
}

}  // namespace

std::vector<Tool> installed_pg_dumps() {
  auto folders = package_folders();
  for (auto& folder : path_folders()) folders.push_back(std::move(folder));
  std::set<fs::path> seen;
  std::vector<Tool> tools;
  for (const auto& folder : folders) {
    std::error_code code;
    auto real = fs::canonical(folder / "pg_dump", code);
    // Debian's pg_wrapper picks a version by cluster; the folders it picks from are asked directly.
    if (code || real.filename() == "pg_wrapper" || !seen.insert(real).second) continue;
    // The name stays pg_dump: pg_restore is looked for beside it.
    if (auto tool = ask_version(folder / "pg_dump")) tools.push_back(std::move(*tool));
  }
  return tools;
}

std::string pg_restore_beside(const std::string& pg_dump) {
  auto path = fs::path(pg_dump).parent_path() / "pg_restore";
  if (::access(path.c_str(), X_OK) == 0) return path;
  throw Error(ErrorKind::preflight, fmt::format("there is no pg_restore beside {}", pg_dump))
      .hint("Install the whole client package of that PostgreSQL version.");
}

std::string find_pg_dump(const std::string& wanted, int source_version_num) {
  const int source_major = source_version_num / 10000;
  const auto tools = wanted.empty() ? installed_pg_dumps() : std::vector<Tool>{require_wanted(wanted)};
  const Tool* best = nullptr;
  for (const auto& tool : tools)
    if (tool.major >= source_major && (best == nullptr || tool.major > best->major)) best = &tool;
  if (best != nullptr) return best->path;
  throw Error(ErrorKind::preflight, fmt::format("no pg_dump on this machine can dump PostgreSQL {}; found: {}",
                                                source_major, describe(tools)))
      .hint(fmt::format("Install the client programs of PostgreSQL {} or newer, or name one with --pg-dump.",
                        source_major));
}

}  // namespace pgbaton::copy
