#include "events.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/store.hpp>

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
    auto target = pg::open_control(context.target(), "events");
    for (const auto& event : state::Store(*target).load_events(context.names.name, 0)) last_id_ = event.id;
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

void EventFile::carry_new_rows() {
  std::lock_guard lock(mutex_);
  try {
    auto target = pg::open_control(context_.target(), "events");
    state::Store store(*target);
    for (const auto& event : store.load_events(context_.names.name, last_id_)) {
      write(event_json(event.at, context_.names.name, event.kind, event.detail));
      last_id_ = event.id;
    }
  } catch (const std::exception& error) {
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
