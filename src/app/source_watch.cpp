#include "source_watch.hpp"

#include <pgbaton/base/log.hpp>

namespace pgbaton::app {

namespace {

// A few catalog queries each time; whoever attaches a partition should read of it while the terminal is still open.
constexpr std::chrono::seconds kInterval{10};

}  // namespace

SourceWatch::SourceWatch(const Context& context, const state::Replica& replica) : context_(context), replica_(replica) {
  auto target = pg::open_control(context.target(), "state");
  tables_ = state::Store(*target).load_tables(replica);
  look();
}

void SourceWatch::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void SourceWatch::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, stop, kInterval, [] { return false; }) && !stop.stop_requested()) look();
}

// Advice only: a source that is away for the moment is the stream's to wait for.
void SourceWatch::look() noexcept {
  try {
    auto source = pg::open_control(context_.source(), "watch");
    std::unique_ptr<pg::Control> opened;
    const auto target = [&]() -> pg::Control& {
      if (!opened) opened = pg::open_control(context_.target(), "watch");
      return *opened;
    };
    report_.look(*source, target, replica_, tables_);
  } catch (const std::exception& error) {
    try {
      log::debug("looking for changes on the source: {}", error.what());
    } catch (...) {  // nothing is lost but a debug line
    }
  }
}

}  // namespace pgbaton::app
