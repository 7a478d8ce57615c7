// What --http shows, gathered where it cannot disturb the work of the command.
//
//   sampler (own thread)    once a second: counters of the copy and the stream in this process, which are only read
//   looker (own thread)     every five seconds, every second while somebody looks: what `status` looks at, over
//                           connections of its own that it closes again, and more rarely the longer a look takes
//   server's thread         renders what the other two have put here; never asks a database
#pragma once
#include <pgbaton/base/course.hpp>
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/progress.hpp>
#include <pgbaton/stream/stream.hpp>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "history.hpp"
#include "http_server.hpp"
#include "status.hpp"
#include "view.hpp"

namespace pgbaton::app {

// Of the process. What has ended is shown as it was in the end.
struct LiveCopy {
  struct Table {
    std::string name;
    bool indexing = false;
    std::int64_t bytes = 0, bytes_total = 0;
    double seconds = 0;
  };
  bool running = false;
  copy::Step step = copy::Step::preparing;
  std::int64_t tables_done = 0, tables_total = 0, tables_indexed = 0, rows = 0, bytes = 0, bytes_total = 0;
  CopyPace::Look pace;
  std::vector<Table> in_flight;
};
struct LiveStream {
  bool running = false;
  stream::StreamStatus status;
  stream::StreamMeasures measures;
  double changes_per_second = 0, transactions_per_second = 0, source_bytes_per_second = 0, applied_bytes_per_second = 0;
};

struct LiveCourse {
  bool running = false;
  Course::Look look;
};
// How the command ended.
struct Ending {
  int exit_code = 0;
  std::string message, hint;
};

// All that is shown, as of one moment.
struct Seen {
  std::string command, replica;
  double now = 0, started_at = 0;  // seconds since 1970, as all times here
  std::uint64_t memory_bytes = 0;  // --memory
  std::optional<LiveCopy> copy;
  std::optional<LiveStream> stream;
  std::optional<LiveCourse> course;
  std::optional<Ending> ending;
  std::shared_ptr<const StatusReport> report;  // the last one that succeeded; null before that
  double report_at = 0, look_seconds = 0;
  std::shared_ptr<const std::string> status_json;  // of the last look: the document of `status --json`, or its error
  bool status_failed = false;                      // the last look: nothing can be told about the replica
  bool looking = true;  // false while a look would tell nothing, or be in the way (may_look())
  std::int64_t requests = 0;

  // The last look has not ended in time, be it that a server takes connections and does not answer.
  bool overdue() const;
  // The copy of this process has ended since the last look, which still tells of one under way.
  bool copied_since() const;
  // The report as long as it tells of now, else null.
  const StatusReport* fresh() const;
};

class Monitor {
 public:
  // Listens when it returns; throws Error(usage) when it cannot. `context` must outlive it.
  explicit Monitor(const Context& context);
  ~Monitor();
  Monitor(const Monitor&) = delete;

  // Shown until the result goes; what is shown must live as long.
  std::shared_ptr<void> show(const copy::CopyProgress& progress);
  std::shared_ptr<void> show(const stream::Stream& stream);
  std::shared_ptr<void> show(const Course& course);

  // What a command that ends with another code than 0 says of it.
  void fail(const Error& error);
  // Called last. A page that is open gets a moment to fetch how it ended.
  void end(int exit_code);

 private:
  void sample(const std::stop_token& stop);
  void take_sample();
  void look(const std::stop_token& stop);
  void take_look();
  bool may_look() const;
  Options looked_at() const;
  HttpAnswer answer(std::string_view path, std::string_view query);
  Seen seen();

  const Context& context_;
  std::mutex mutex_;  // of all below
  const copy::CopyProgress* progress_ = nullptr;
  const stream::Stream* stream_ = nullptr;
  const Course* course_ = nullptr;
  std::optional<CopyPace> pace_;
  Rate changes_, transactions_, source_bytes_, applied_bytes_;
  Seen seen_;
  History history_;
  std::chrono::steady_clock::time_point last_visit_{};
  std::condition_variable_any visited_;
  bool end_seen_ = false;  // a page has fetched the ending

  std::optional<HttpServer> server_;
  std::jthread sampler_, looker_;  // last: end before what they use
};

// For commands: nothing happens without --http.
template <typename Shown>
std::shared_ptr<void> show(const Context& context, const Shown& shown) {
  return context.monitor == nullptr ? nullptr : context.monitor->show(shown);
}

}  // namespace pgbaton::app
