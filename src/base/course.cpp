#include <pgbaton/base/course.hpp>

#include <utility>

namespace pgbaton {

namespace {

Milliseconds since(Clock::time_point then) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - then);
}

}  // namespace

void Course::begin(std::string name) {
  end();
  const std::lock_guard lock(mutex_);
  seen_.steps.push_back({std::move(name), Clock::now(), std::nullopt, ""});
}

void Course::end(std::string note) {
  const std::lock_guard lock(mutex_);
  if (seen_.steps.empty() || seen_.steps.back().ended) return;
  seen_.steps.back().ended = Clock::now();
  seen_.steps.back().note = std::move(note);
}

void Course::know(const std::string& fact, std::string value) {
  const std::lock_guard lock(mutex_);
  seen_.facts[fact] = std::move(value);
}

void Course::pause_since(Clock::time_point since) {
  const std::lock_guard lock(mutex_);
  pause_since_ = since;
  seen_.pausing = true;
}

void Course::pause_over() {
  const std::lock_guard lock(mutex_);
  if (!seen_.pausing) return;
  seen_.pausing = false;
  seen_.pause = since(pause_since_);
}

Course::Look Course::look() const {
  const std::lock_guard lock(mutex_);
  Look look = seen_;
  if (look.pausing) look.pause = since(pause_since_);
  return look;
}

}  // namespace pgbaton
