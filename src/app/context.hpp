// What a command works with, and the options in the shape that the modules below want.
#pragma once
#include <pgbaton/app/config.hpp>
#include <pgbaton/base/name.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/stream/stream.hpp>

#include <atomic>
#include <stop_token>
#include <string_view>

#include "progress.hpp"

namespace pgbaton::app {

class Monitor;

struct Context {
  Context(const Options& given, std::stop_token token) : options(given), names(given.name), stop(std::move(token)) {}

  const Options& options;
  ReplicaNames names;
  std::stop_token stop;
  Monitor* monitor = nullptr;  // with --http: see show() in monitor.hpp
  // The stream goes from the server in --target to the one in --source (direction.hpp). Other threads may read it.
  std::atomic<bool> reversed{false};

  bool has_source() const { return !(reversed ? options.target : options.source).empty(); }
  bool has_target() const { return !(reversed ? options.source : options.target).empty(); }
  // As the stream goes. Throw Error(usage) when the connection string was not given.
  pg::Endpoint source() const;
  pg::Endpoint target() const;
  // As the flags say.
  pg::Endpoint given_source() const;
  pg::Endpoint given_target() const;

  // `with_target` false leaves the target's endpoint empty, for `check`.
  snapshot::CloneOptions clone_options(bool with_target) const;
  // --give-up-after has a default for bounded commands only.
  stream::StreamOptions stream_options(bool bounded) const;
  ProgressStyle progress_style() const;
};

// --give-up-after of a bounded command.
inline constexpr Milliseconds kGiveUpAfter{600'000};

// One line or document to stdout, flushed; results only, logs go to stderr.
void print(std::string_view text);
// The same for people: on a terminal no line is wider than that.
void print_text(std::string_view text);
// The log as the options want it. Call once, before threads start.
void configure_log(const Options& options);
// "ERROR: …" and "HINT: …" to stderr, whatever the log level is; one line of the log when that is JSON.
void print_error(const Error& error);

}  // namespace pgbaton::app
