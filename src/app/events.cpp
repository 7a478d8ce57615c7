#include "events.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/store.hpp>

#include <algorithm>
#include <cstring>

#include "render.hpp"

namespace pgbaton::app {

namespace {
constexpr Milliseconds kPoll{1000};
}

EventFile::EventFile(const Context& context) : context_(context) {
  const std::string& path = context.options.events_file;
  if (path.empty()) return;
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw Error(ErrorKind::usage, fmt::format("--events: {} cannot be opened: {}", path, std::strerror(errno)))
        .hint("Give a path that this user may write.");
  // Rows of earlier runs are not told again; a target that does not answer yet will be asked again by the command.
  try {
    new_rows();
  } catch (const Error& error) {
    log::debug("events: {}", error.describe());
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { carry(stop); });
}

EventFile::~EventFile() {
  if (file_ < 0) return;
  thread_.request_stop();
  thread_.join();
  close(file_);
}

void EventFile::add(std::string_view kind, std::string_view detail_json) {
  if (file_ < 0) return;
  carry_new_rows();
  write(event_json(now_utc(), context_.names.name, kind, detail_json));
}

void EventFile::carry(const std::stop_token& stop) {
  do {
    carry_new_rows();
  } while (sleep_for(kPoll, stop));
  carry_new_rows();
}

std::vector<state::Event> EventFile::new_rows() {
  if (!target_) target_ = pg::open_control(context_.target(), "events");
  auto events = state::Store(*target_).load_events(context_.names.name, floor_);
  std::erase_if(events.rows, [&](const auto& event) { return !told_.insert(event.id).second; });
  // What is here now holds every number up to next_floor_ that will ever come, when nothing of then runs any more.
  if (settled_when_ == 0 || events.oldest_running >= settled_when_) {
    floor_ = std::max(floor_, next_floor_);
    if (!told_.empty()) next_floor_ = *told_.rbegin();
    settled_when_ = events.next_transaction;
    told_.erase(told_.begin(), told_.upper_bound(floor_));
  }
  return std::move(events.rows);
}

void EventFile::carry_new_rows() {
  std::lock_guard lock(mutex_);
  try {
    for (const auto& event : new_rows()) write(event_json(event.at, context_.names.name, event.kind, event.detail));
  } catch (const std::exception& error) {
    target_.reset();
    log::debug("events: {}", error.what());  // the command itself tells about a target that is away
  }
}

// One write() per line, so that lines of several processes do not mix.
void EventFile::write(const std::string& line) {
  std::string bytes = line + "\n";
  if (::write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
    log::warning("--events: a line could not be written: {}", std::strerror(errno));
}

}  // namespace pgbaton::app
