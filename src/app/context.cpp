#include "context.hpp"

#include <fmt/format.h>
#include <pgbaton/app/options.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "layout.hpp"
#include "screen.hpp"

namespace pgbaton::app {

namespace {

bool json_log = false;
bool one_line_errors = false;  // cron sends them by mail

// A rebuild that goes well says nothing, unless it is asked to.
bool silent(const Options& options) {
  return options.command == "rebuild" && !options.verbose && options.log_level == "info";
}

pg::Endpoint endpoint(const Context& context, Side side, const std::string& conninfo) {
  if (conninfo.empty()) {
    bool source = side == Side::source;
    throw Error(ErrorKind::usage, fmt::format("{} needs the {}", context.options.command, to_string(side)))
        .hint(fmt::format("Give --{} CONNINFO, set {}, or write it into the --config file.", to_string(side),
                          source ? "PGBATON_SOURCE" : "PGBATON_TARGET"));
  }
  try {
    pg::parse_conninfo(conninfo, side);  // a malformed one is a usage error, whatever comes first
  } catch (Error& error) {
    add_origin(error, context.options, to_string(side));
    throw;
  }
  pg::Endpoint result;
  result.side = side;
  result.conninfo = conninfo;
  result.replica_name = context.names.name;
  return result;
}

snapshot::Keyless parse_keyless(std::string_view text) {
  if (text == "full") return snapshot::Keyless::full;
  if (text == "exclude") return snapshot::Keyless::exclude;
  return snapshot::Keyless::insert_only;
}

source::ReaderMode parse_reader(std::string_view text) {
  if (text == "auto") return source::ReaderMode::automatic;
  return text == "peek" ? source::ReaderMode::peek : source::ReaderMode::walsender;
}

}  // namespace

pg::Endpoint Context::source() const {
  return endpoint(*this, Side::source, reversed ? options.target : options.source);
}
pg::Endpoint Context::target() const {
  return endpoint(*this, Side::target, reversed ? options.source : options.target);
}
pg::Endpoint Context::given_source() const {
  return endpoint(*this, Side::source, options.source);
}
pg::Endpoint Context::given_target() const {
  return endpoint(*this, Side::target, options.target);
}

snapshot::CloneOptions Context::clone_options(bool with_target) const {
  snapshot::CloneOptions clone;
  clone.source = source();
  if (with_target) clone.target = target();
  clone.names = names;
  clone.filter = options.filter;
  clone.schema = options.schema == "none" ? snapshot::SchemaMode::none : snapshot::SchemaMode::full;
  clone.schema_options.pg_dump = options.pg_dump;
  clone.schema_options.owners = !options.no_owner;
  clone.schema_options.privileges = !options.no_privileges;
  clone.schema_options.comments = !options.no_comments;
  clone.schema_options.labels = !options.no_security_labels;
  clone.schema_options.tablespaces = !options.no_tablespaces;
  clone.schema_options.settings = !options.no_settings;
  clone.keyless = parse_keyless(options.keyless);
  clone.guard = state::parse_guard_kind(options.guard);
  clone.publication = options.publication;
  clone.jobs = options.jobs;
  clone.index_jobs = options.index_jobs;
  clone.split_above = options.split_above;
  clone.max_rate = options.max_rate;
  clone.slot_wait = options.slot_wait;
  clone.slot_failover = options.slot_failover;
  clone.on_failure = options.on_failure == "drop" ? snapshot::OnFailure::drop : snapshot::OnFailure::keep;
  return clone;
}

stream::StreamOptions Context::stream_options(bool bounded) const {
  stream::StreamOptions result;
  result.source = source();
  result.target = target();
  result.memory_bytes = options.memory;
  result.reader = parse_reader(options.reader);
  result.add_columns = options.drift == "add-columns";
  result.repair_missing = options.missing == "repair";
  result.ready_lag_bytes = options.ready_lag;
  result.give_up_after = options.give_up_after;
  result.retention = retention_options(options);
  if (bounded && !result.give_up_after) result.give_up_after = kGiveUpAfter;
  return result;
}

ProgressStyle Context::progress_style() const {
  if (options.quiet || options.progress == "none" || silent(options)) return ProgressStyle::none;
  bool lines = options.progress == "plain" || options.log_format == "json" || !Screen::available();
  return lines ? ProgressStyle::plain : ProgressStyle::live;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
  if (std::fflush(stdout) != 0)
    throw Error(ErrorKind::failed, "the result could not be written to stdout")
        .hint("Is the disk full or the pipe closed?");
}

void print_text(std::string_view text) {
  winsize size{};
  const bool known = ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  constexpr int kNarrowest = 40;
  print(known && size.ws_col >= kNarrowest ? wrapped(text, size.ws_col) : std::string(text));
}

void configure_log(const Options& options) {
  auto level = log::parse_level(options.log_level);
  if (options.quiet) level = std::max(level, log::Level::warning);
  if (silent(options)) level = std::max(level, log::Level::error);
  one_line_errors = options.command == "rebuild";
  log::configure(level, log::parse_format(options.log_format));
  json_log = options.log_format == "json";
}

void print_error(const Error& error) {
  if (json_log)
    log::error("{} HINT: {}", error.describe(), error.hint());
  else
    std::fputs(
        fmt::format("ERROR: {}{}HINT: {}\n", error.describe(), one_line_errors ? ". " : "\n", error.hint()).c_str(),
        stderr);
}

}  // namespace pgbaton::app
