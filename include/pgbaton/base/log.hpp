// Logs and progress go to stderr, never to stdout (stdout is for results, one JSON document under --json).
// Safe from any thread. Passwords never reach a log line: connection strings pass through pg::redact() first.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace pgbaton::log {

enum class Level { debug, info, warning, error };
enum class Format { text, json };

// Call once, before threads start. Without a call: info, text.
void configure(Level level, Format format);
// Hands every line, newline included, to `writer` instead of stderr; an empty one gives stderr back. Lines come one at
// a time. When this returns, the writer before is not in use any more. A writer must not log.
void redirect(std::function<void(std::string_view line)> writer);
// Lowercase names as on the command line: debug, info, warning, error. Throws Error(usage).
Level parse_level(std::string_view text);
Format parse_format(std::string_view text);
bool enabled(Level level);
void write(Level level, std::string_view message);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warning)) write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pgbaton::log
