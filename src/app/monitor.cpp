#include "monitor.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

#include <algorithm>
#include <array>
#include <charconv>

#include "monitor_render.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

constexpr Milliseconds kSample{1000};
// How often the servers are asked: at ease, and while somebody looks at the page; and never so often that it would take
// more than a twentieth of the time.
constexpr Milliseconds kLookAtEase{5000}, kLookWatched{1000};
constexpr std::chrono::seconds kWatchedFor{10};
constexpr double kShareOfTime = 0.05;
constexpr int kEvents = 40;
// A look that takes longer than that and many times the last one tells nothing of now any more.
constexpr double kOverdueSeconds = 30;
constexpr Milliseconds kFarewell{2500}, kLastAnswer{200};
// The replica that these steps leave behind is none any more, and databases that are exchanged are no place to be.
constexpr std::array<std::string_view, 4> kSwitchoverEnds{"flip", "send", "turn", "clean-up"};
constexpr std::array<std::string_view, 3> kRebuildEnds{"settings", "before-swap", "swap"};

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double distance(Lsn from, Lsn to) {
  return to > from ? static_cast<double>(to.value - from.value) : 0;
}

std::optional<double> known(double value) {
  return value < 0 ? std::nullopt : std::optional(value);
}

LiveCopy look_at(const copy::CopyProgress& progress, CopyPace& pace) {
  LiveCopy now;
  now.running = true;
  now.step = progress.step;
  now.tables_done = progress.tables_done;
  now.tables_total = progress.tables_total;
  now.tables_indexed = progress.tables_indexed;
  now.rows = progress.rows;
  now.bytes = progress.bytes;
  now.bytes_total = progress.bytes_total;
  now.pace = pace.look(Clock::now());
  for (const auto& table : progress.in_flight.list())
    now.in_flight.push_back({table->name, table->indexing, table->bytes, table->bytes_total,
                             std::chrono::duration<double>(Clock::now() - table->since).count()});
  return now;
}

// Of the stream in this process what it says itself, else what its writer reports.
HistoryPoint history_point(const Seen& seen) {
  HistoryPoint point;
  point.at = seen.now;
  auto& [copy_left, copy_rate, lag, lag_seconds, held, limit, transactions, changes, written] = point.values;
  const auto* report = seen.fresh();
  if (seen.copy && seen.copy->running && seen.copy->tables_total > 0) {
    copy_left = static_cast<double>(std::max<std::int64_t>(seen.copy->bytes_total - seen.copy->pace.size_copied, 0));
    copy_rate = static_cast<double>(seen.copy->pace.bytes_per_second);
  } else if (report != nullptr && !seen.copied_since()) {
    copy_left = known(static_cast<double>(report->copy_left_bytes()));
    copy_rate = known(report->reported("copy_bytes_per_second"));
  }
  if (report != nullptr && report->slot) held = known(static_cast<double>(report->slot->held_bytes));
  if (seen.stream && seen.stream->running && seen.stream->status.source_flush_lsn) {
    const auto& status = seen.stream->status;
    if (status.connected) {
      lag = distance(status.applied_lsn, status.source_flush_lsn);
      lag_seconds = status.lag_seconds;
      written = seen.stream->source_bytes_per_second;
    }
    if (status.slot_held_bytes >= 0) held = static_cast<double>(status.slot_held_bytes);
    transactions = seen.stream->transactions_per_second;
    changes = seen.stream->changes_per_second;
  } else if (report != nullptr) {
    lag = known(static_cast<double>(report->lag_bytes()));
    lag_seconds = known(report->lag_seconds());
    transactions = known(report->reported("transactions_per_second"));
    changes = known(report->reported("changes_per_second"));
    written = known(report->reported("source_bytes_per_second"));
  }
  if (report != nullptr && report->slot && report->slot->safe_bytes >= 0)
    limit = static_cast<double>(report->slot->held_bytes + report->slot->safe_bytes);
  return point;
}

double number_after(std::string_view query, std::string_view name) {
  double value = 0;
  if (query.starts_with(name)) std::from_chars(query.data() + name.size(), query.data() + query.size(), value);
  return value;
}

constexpr std::string_view kText = "text/plain; charset=utf-8", kHtml = "text/html; charset=utf-8",
                           kJson = "application/json", kMetrics = "text/plain; version=0.0.4; charset=utf-8";

// Of a command that is a course of its own: 200 once it is through.
HttpAnswer course_answer(const LiveCourse& course) {
  const auto& steps = course.look.steps;
  if (!course.running && (steps.empty() || steps.back().ended)) return {200, kText, "done\n"};
  return {503, kText, (steps.empty() ? "none" : steps.back().name) + "\n"};
}

// 200 once the step is reached (?for=copied, indexed or, without, ready), 503 before and when nobody can tell.
HttpAnswer readiness_answer(const Seen& seen, std::string_view query) {
  constexpr std::array<std::string_view, 4> kSteps{"none", "copied", "indexed", "ready"};
  const std::string_view wanted = query.starts_with("for=") ? query.substr(4) : "ready";
  const auto goal = std::ranges::find(kSteps, wanted);
  if (goal == kSteps.end() || wanted == "none") return {400, kText, "for= copied, indexed or ready\n"};
  if (seen.course && (seen.course->running || !seen.stream)) return course_answer(*seen.course);
  const auto* report = seen.fresh();
  if (report == nullptr) return {503, kText, "unknown: the target does not answer\n"};
  const auto& replica = report->replica;
  const auto reached = replica ? readiness_name(replica->phase) : kSteps.front();
  const bool good = std::ranges::find(kSteps, reached) >= goal && !replica->history_break;
  return {good ? 200u : 503u, kText, std::string(reached) + "\n"};
}

}  // namespace

bool Seen::overdue() const {
  return report != nullptr && now - report_at > kOverdueSeconds + 2 * look_seconds / kShareOfTime;
}
bool Seen::copied_since() const {
  return copy && !copy->running && report != nullptr && report->copy_left_bytes() > 0;
}
const StatusReport* Seen::fresh() const {
  return looking && !status_failed && !overdue() ? report.get() : nullptr;
}

Monitor::Monitor(const Context& context) : context_(context), history_(1.0) {
  seen_.command = context.options.command;
  seen_.replica = context.names.name;
  seen_.started_at = unix_seconds();
  seen_.memory_bytes = context.options.memory;
  server_.emplace(parse_http_address(context.options.http),
                  [this](std::string_view path, std::string_view query) { return answer(path, query); });
  log::info("http: {} shows how it goes; /metrics, /status.json, /readyz, /healthz", server_->url());
  sampler_ = std::jthread([this](const std::stop_token& stop) { sample(stop); });
  looker_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
}

Monitor::~Monitor() {
  server_.reset();
  sampler_.request_stop();
  looker_.request_stop();
}

std::shared_ptr<void> Monitor::show(const copy::CopyProgress& progress) {
  std::lock_guard lock(mutex_);
  progress_ = &progress;
  pace_.emplace(progress);
  return {this, [](Monitor* monitor) {
            std::lock_guard last(monitor->mutex_);
            monitor->take_sample();
            monitor->progress_ = nullptr;
            monitor->pace_.reset();
            if (monitor->seen_.copy) monitor->seen_.copy->running = false;
          }};
}

std::shared_ptr<void> Monitor::show(const stream::Stream& stream) {
  std::lock_guard lock(mutex_);
  stream_ = &stream;
  changes_ = transactions_ = source_bytes_ = applied_bytes_ = {};
  return {this, [](Monitor* monitor) {
            std::lock_guard last(monitor->mutex_);
            monitor->take_sample();
            monitor->stream_ = nullptr;
            if (monitor->seen_.stream) monitor->seen_.stream->running = false;
          }};
}

std::shared_ptr<void> Monitor::show(const Course& course) {
  std::lock_guard lock(mutex_);
  course_ = &course;
  return {this, [](Monitor* monitor) {
            std::lock_guard last(monitor->mutex_);
            monitor->take_sample();
            monitor->course_ = nullptr;
            if (monitor->seen_.course) monitor->seen_.course->running = false;
          }};
}

void Monitor::fail(const Error& error) {
  std::lock_guard lock(mutex_);
  seen_.ending = Ending{exit_code(error.kind()), error.describe(), error.hint()};
}

void Monitor::end(int exit_code) {
  std::unique_lock lock(mutex_);
  if (!seen_.ending) seen_.ending.emplace();
  seen_.ending->exit_code = exit_code;
  if (last_visit_ == Clock::time_point() || Clock::now() - last_visit_ > kFarewell) return;
  if (visited_.wait_for(lock, kFarewell, [this] { return end_seen_; })) visited_.wait_for(lock, kLastAnswer);
}

void Monitor::sample(const std::stop_token& stop) {
  do {
    std::lock_guard lock(mutex_);
    take_sample();
    history_.add(history_point(seen_));
  } while (sleep_for(kSample, stop));
}

// With the mutex.
void Monitor::take_sample() {
  seen_.now = unix_seconds();
  if (progress_ != nullptr) seen_.copy = look_at(*progress_, *pace_);
  if (course_ != nullptr) seen_.course = LiveCourse{true, course_->look()};
  // A rebuild goes on for long after its copy.
  if (seen_.copy && course_ != nullptr && !seen_.course->look.steps.empty() &&
      seen_.course->look.steps.back().name != "copy")
    seen_.copy->running = false;
  if (!may_look()) seen_.looking = false;
  if (stream_ == nullptr) return;
  const auto now = Clock::now();
  LiveStream live;
  live.running = true;
  live.status = stream_->status();
  live.measures = stream_->measures();
  live.changes_per_second = changes_.update(live.status.changes, now);
  live.transactions_per_second = transactions_.update(live.status.transactions, now);
  // From when they are known on: the first step from 0 is no rate.
  if (live.status.source_flush_lsn && live.status.applied_lsn) {
    live.source_bytes_per_second =
        source_bytes_.update(static_cast<std::int64_t>(live.status.source_flush_lsn.value), now);
    live.applied_bytes_per_second =
        applied_bytes_.update(static_cast<std::int64_t>(live.status.applied_lsn.value), now);
  }
  seen_.stream = std::move(live);
}

// With the mutex.
bool Monitor::may_look() const {
  const auto& course = seen_.course;
  const bool in = course && course->running && !course->look.steps.empty();
  const auto is = [&](const auto& steps) {
    return in && std::ranges::find(steps, course->look.steps.back().name) != steps.end();
  };
  if (seen_.command == "switchover") return !(course && !course->running) && !is(kSwitchoverEnds);
  if (seen_.command != "rebuild") return true;
  const bool made = course && course->look.facts.contains("database") && !course->look.facts.at("database").empty();
  return made && !is(kRebuildEnds);
}

// Of a rebuild the new generation, which has a database of its own. With the mutex.
Options Monitor::looked_at() const {
  Options options = context_.options;
  if (seen_.command != "rebuild") return options;
  auto items = pg::parse_conninfo(options.target, Side::target);
  std::erase_if(items, [](const auto& item) { return item.first == "dbname"; });
  items.emplace_back("dbname", seen_.course->look.facts.at("database"));
  options.target = pg::build_conninfo(items);
  return options;
}

void Monitor::look(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    take_look();
    std::unique_lock lock(mutex_);
    const auto looked = Clock::now();
    const Milliseconds least(static_cast<std::int64_t>(1000 * seen_.look_seconds / kShareOfTime));
    const auto watched = [&] { return last_visit_ != Clock::time_point() && Clock::now() - last_visit_ < kWatchedFor; };
    visited_.wait_until(lock, stop, looked + std::max(kLookWatched, least), [] { return false; });
    visited_.wait_until(lock, stop, looked + std::max(seen_.looking ? kLookAtEase : kLookWatched, least), watched);
  }
}

void Monitor::take_look() {
  const auto begun = Clock::now();
  Options options;
  {
    std::lock_guard lock(mutex_);
    take_sample();
    if (!may_look()) return;
    options = looked_at();
  }
  Context place(options, context_.stop);
  place.reversed = context_.reversed.load();
  std::shared_ptr<const StatusReport> report;
  std::shared_ptr<const std::string> document;
  try {
    report = std::make_shared<StatusReport>(load_status(place, {.only_this_name = true, .events = kEvents}));
    document = std::make_shared<std::string>(status_json(*report));
  } catch (const Error& error) {
    document = std::make_shared<std::string>(error_json(error));
  } catch (const std::exception& error) {
    document = std::make_shared<std::string>(error_json(Error(ErrorKind::failed, error.what())));
  }
  std::lock_guard lock(mutex_);
  take_sample();
  if (!may_look()) return;  // it was in the way
  seen_.looking = true;
  seen_.status_failed = report == nullptr;
  seen_.status_json = std::move(document);
  seen_.look_seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (!report) return;
  seen_.report = std::move(report);
  seen_.report_at = unix_seconds();
}

Seen Monitor::seen() {
  seen_.now = unix_seconds();
  if (course_ != nullptr) seen_.course = LiveCourse{true, course_->look()};
  if (!may_look()) seen_.looking = false;
  return seen_;
}

HttpAnswer Monitor::answer(std::string_view path, std::string_view query) {
  std::unique_lock lock(mutex_);
  ++seen_.requests;
  if (path == "/healthz") return {200, kText, "ok\n"};
  if (path == "/") return {200, kHtml, std::string(page_html())};
  if (path == "/metrics") {
    const Seen now = seen();
    lock.unlock();
    return {200, kMetrics, metrics_text(now)};
  }
  if (path == "/live.json") {
    last_visit_ = Clock::now();
    end_seen_ = seen_.ending.has_value();
    visited_.notify_all();
    return {200, kJson, live_json(seen(), history_, number_after(query, "after="))};
  }
  if (path == "/status.json") {
    const Seen now = seen();
    lock.unlock();
    return {now.fresh() == nullptr ? 503u : 200u, kJson, status_document(now)};
  }
  if (path == "/readyz") return readiness_answer(seen_, query);
  return {404, kText, "There are /, /metrics, /status.json, /readyz and /healthz.\n"};
}

}  // namespace pgbaton::app
