#include "copy_report.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/state/store.hpp>

namespace pgbaton::app {

namespace {

constexpr Milliseconds kInterval{1000};

}  // namespace

std::string_view step_name(copy::Step step) {
  switch (step) {
    case copy::Step::preparing:
      return "preparing";
    case copy::Step::slot:
      return "slot";
    case copy::Step::schema:
      return "schema";
    case copy::Step::tables:
      return "tables";
    case copy::Step::rest:
      return "rest";
  }
  return "";
}

CopyReport::CopyReport(const Context& context, const copy::CopyProgress& progress, const WalWatch& wal)
    : context_(context), progress_(progress), wal_(wal), pace_(progress) {
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void CopyReport::run(const std::stop_token& stop) {
  std::unique_ptr<pg::Control> target;
  while (sleep_for(kInterval, stop)) {
    const auto report = fields(Clock::now());
    try {
      if (!target) target = pg::open_control(context_.target(), "report");
      state::Store store(*target);
      if (store.installed()) store.report_copy(context_.names.name, report);
    } catch (const std::exception& error) {
      target.reset();
      log::debug("reporting the copy: {}", error.what());
    }
  }
}

state::Fields CopyReport::fields(Clock::time_point now) {
  const auto pace = pace_.look(now);
  state::Fields report{{"copy_step", std::string(step_name(progress_.step))},
                       {"copied_rows", std::to_string(progress_.rows)},
                       {"copied_bytes", std::to_string(progress_.bytes)},
                       {"copied_size", std::to_string(pace.size_copied)},
                       {"tables_indexed", std::to_string(progress_.tables_indexed)},
                       {"copy_bytes_per_second", std::to_string(pace.bytes_per_second)},
                       {"copy_rows_per_second", std::to_string(pace.rows_per_second)},
                       {"source_bytes_per_second", std::to_string(wal_.written_per_second())}};
  if (pace.seconds_left >= 0) report["copy_seconds_left"] = fmt::format("{:.1f}", pace.seconds_left);
  return report;
}

}  // namespace pgbaton::app
