#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include "view.hpp"

namespace pgbaton::app {

namespace {

class StreamView : public View {
 public:
  explicit StreamView(std::function<stream::StreamStatus()> status) : status_(std::move(status)) {}

  std::string line(Clock::time_point now) override {
    std::string text;
    for (const auto& part : parts(now)) text += (text.empty() ? "" : ", ") + part;
    return "streaming: " + text;
  }
  std::vector<std::string> block(Clock::time_point now, const Layout& layout) override {
    return part_lines("stream", parts(now), layout);
  }

 private:
  // The shortest that says it all: at 80 columns it should be one line.
  std::vector<std::string> parts(Clock::time_point now) {
    auto seen = status_();
    auto changes = static_cast<std::int64_t>(changes_.update(seen.changes, now));
    auto transactions = static_cast<std::int64_t>(transactions_.update(seen.transactions, now));
    if (!seen.source_flush_lsn) return {"connecting"};
    if (!seen.connected)
      return {"not connected", fmt::format("applied {}", to_string(seen.applied_lsn)), "lag not known"};
    auto behind = seen.source_flush_lsn > seen.applied_lsn ? seen.source_flush_lsn.value - seen.applied_lsn.value : 0;
    std::vector<std::string> parts{
        fmt::format("applied {}", to_string(seen.applied_lsn)),
        fmt::format("{} behind ({:.1f} s)", size_text(static_cast<std::int64_t>(behind)), seen.lag_seconds),
        fmt::format("{} changes/s", count_text(changes)), fmt::format("{} transactions/s", count_text(transactions))};
    if (seen.slot_held_bytes >= 0) parts.push_back(fmt::format("{} of WAL held", size_text(seen.slot_held_bytes)));
    if (seen.reconnects > 0) parts.push_back(fmt::format("reconnected {}", counted(seen.reconnects, "time")));
    return parts;
  }

  std::function<stream::StreamStatus()> status_;
  Rate changes_, transactions_;
};

}  // namespace

std::unique_ptr<View> stream_view(std::function<stream::StreamStatus()> status) {
  return std::make_unique<StreamView>(std::move(status));
}

}  // namespace pgbaton::app
