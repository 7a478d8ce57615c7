#include "progress.hpp"

#include <fmt/format.h>
#include <pgbaton/base/log.hpp>
#include <pgbaton/base/size.hpp>

#include <algorithm>

namespace pgbaton::app {

namespace {

std::string size_text(double bytes) {
  return format_size(static_cast<std::uint64_t>(std::max(0.0, bytes)));
}

double rate(std::int64_t now, std::int64_t before, double seconds) {
  return seconds > 0 ? static_cast<double>(now - before) / seconds : 0;
}

}  // namespace

ProgressDisplay::ProgressDisplay(bool shown, Line line, Milliseconds interval) {
  if (!shown) return;
  thread_ = std::jthread([line = std::move(line), interval](const std::stop_token& stop) {
    auto last = Clock::now();
    while (sleep_for(interval, stop)) {
      auto now = Clock::now();
      log::info("{}", line(std::chrono::duration<double>(now - last).count()));
      last = now;
    }
  });
}

Line copy_line(const copy::CopyProgress& progress) {
  return [&progress, bytes_before = std::int64_t{0}](double seconds) mutable {
    std::int64_t bytes = progress.bytes;
    if (progress.tables_total == 0) return std::string("preparing: slot, snapshot, schema");
    auto total = static_cast<double>(progress.bytes_total.load());
    double share = total > 0 ? std::min(100.0, 100.0 * static_cast<double>(bytes) / total) : 0;
    auto text =
        fmt::format("copying: {} of {} tables, {} rows, {} of about {} ({:.0f} %), {}/s", progress.tables_done.load(),
                    progress.tables_total.load(), progress.rows.load(), size_text(static_cast<double>(bytes)),
                    size_text(total), share, size_text(rate(bytes, bytes_before, seconds)));
    bytes_before = bytes;
    return text;
  };
}

Line stream_line(const stream::Stream& stream) {
  return [&stream, changes_before = std::int64_t{0}, transactions_before = std::int64_t{0}](double seconds) mutable {
    auto now = stream.status();
    auto behind = now.source_flush_lsn > now.applied_lsn ? now.source_flush_lsn.value - now.applied_lsn.value : 0;
    auto text =
        fmt::format("streaming: applied {}, {} behind ({:.1f} s), {:.0f} changes/s, {:.0f} transactions/s",
                    to_string(now.applied_lsn), format_size(behind), now.lag_seconds,
                    rate(now.changes, changes_before, seconds), rate(now.transactions, transactions_before, seconds));
    changes_before = now.changes;
    transactions_before = now.transactions;
    return text;
  };
}

}  // namespace pgbaton::app
