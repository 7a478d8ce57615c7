// A block while tables are copied, at 80 columns:
//
//   copy     ██████████████░░░░░░░░░░  58 %  1.2 GB of about 2.1 GB  ETA 42 s
//            3 of 12 tables  1,234,567 rows  24 MB/s  152,000 rows/s
//   indexes  ████░░░░░░░░░░░░░░░░░░░░  16 %  2 of 12 tables
//            "public"."orders"  ███████░░░░░  58 %  512 MB of about 890 MB
//            "public"."items"   indexes and constraints for 3 s
#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include <algorithm>

#include "view.hpp"

namespace pgbaton::app {

namespace {

using copy::CopyProgress;
using copy::Step;
using copy::TableInFlight;

constexpr int kTableBar = 16, kNarrow = 64;  // narrower: the name and the numbers say it, too
constexpr std::size_t kMostTables = 16;

std::string_view step_text(Step step) {
  switch (step) {
    case Step::preparing:
      return "preparing";
    case Step::slot:
      return "creating the slot and its snapshot; open transactions are waited for";
    case Step::schema:
      return "schema, by pg_dump and pg_restore";
    case Step::tables:
      return "tables";
    case Step::rest:
      return "foreign keys, triggers, views, sequences";
  }
  return "";
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? std::clamp(static_cast<double>(part) / static_cast<double>(whole), 0.0, 1.0) : 0;
}

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

class CopyView : public View {
 public:
  explicit CopyView(const CopyProgress& progress) : progress_(progress), keeper_(progress) {}

  std::string line(Clock::time_point now) override {
    look(now);
    if (progress_.tables_total == 0) return fmt::format("preparing: {}", step_text(step_));
    auto text = fmt::format("copying: {}, {}, {} ({:.0f} %), {}/s, {} indexed", tables_text(),
                            counted(progress_.rows.load(), "row"), amount_text(), 100 * pace_.share,
                            size_text(pace_.bytes_per_second), progress_.tables_indexed.load());
    if (step_ != Step::tables) text += fmt::format("; now {}", step_text(step_));
    return text;
  }

  std::vector<std::string> block(Clock::time_point now, const Layout& layout) override {
    look(now);
    std::vector<std::string> lines;
    auto add = [&](const std::vector<std::string>& more) { lines.insert(lines.end(), more.begin(), more.end()); };
    if (progress_.tables_total > 0) {
      add(bar_lines("copy", pace_.share, copy_parts(), layout));
      auto indexed = keeper_.share_of_tables(progress_.tables_indexed, progress_.size_indexed);
      add(bar_lines("indexes", indexed, {count_of_tables(progress_.tables_indexed)}, layout));
    }
    if (step_ != Step::tables) {
      auto waited = duration_text(seconds_between(step_since_, now));
      add(part_lines("now", {std::string(step_text(step_)), waited}, layout));
    }
    auto room = std::max(layout.rows - 1 - static_cast<int>(lines.size()), 0);
    add(table_lines(now, layout, static_cast<std::size_t>(room)));
    return lines;
  }

 private:
  void look(Clock::time_point now) {
    if (auto step = progress_.step.load(); step != step_ || !looked_) {
      step_ = step;
      step_since_ = now;
    }
    looked_ = true;
    tables_.clear();  // what we hold would be listed again
    pace_ = keeper_.look(now);
    tables_ = progress_.in_flight.list();
  }

  std::string count_of_tables(std::int64_t tables) const {
    return fmt::format("{} of {}", count_text(tables), counted(progress_.tables_total, "table"));
  }
  std::string tables_text() const { return count_of_tables(progress_.tables_done); }
  std::string amount_text() const {
    return fmt::format("{} of about {}", size_text(pace_.size_copied), size_text(progress_.bytes_total));
  }

  std::string eta_text() const {
    if (!pace_.begun) return "";
    return pace_.seconds_left < 0 ? "ETA not known yet" : "ETA " + duration_text(pace_.seconds_left);
  }

  std::vector<std::string> copy_parts() const {
    std::vector<std::string> parts{amount_text()};
    if (auto eta = eta_text(); !eta.empty()) parts.push_back(eta);
    parts.push_back(tables_text());
    parts.push_back(count_text(progress_.rows) + " rows");
    if (pace_.share < 1) {
      parts.push_back(size_text(pace_.bytes_per_second) + "/s");
      parts.push_back(count_text(pace_.rows_per_second) + " rows/s");
    }
    return parts;
  }

  std::vector<std::string> table_lines(Clock::time_point now, const Layout& layout, std::size_t room) const {
    std::vector<std::string> lines;
    auto shown = std::min({tables_.size(), room, kMostTables});
    if (shown < tables_.size() && shown > 0) --shown;
    int widest = 0;
    for (std::size_t i = 0; i < shown; ++i) widest = std::max(widest, display_width(tables_[i]->name));
    int name_width = std::min(widest, layout.columns / 2 - 9);
    for (std::size_t i = 0; i < shown; ++i) {
      auto text = pad(tables_[i]->name, name_width, layout.utf8) + "  " + work_text(*tables_[i], now, layout);
      lines.push_back(part_lines("", {text}, layout).front());
    }
    if (shown < tables_.size() && room > 0)
      lines.push_back(part_lines("", {fmt::format("and {} more", tables_.size() - shown)}, layout).front());
    return lines;
  }

  static std::string work_text(const TableInFlight& table, Clock::time_point now, const Layout& layout) {
    if (table.indexing) return "indexes, constraints: " + duration_text(seconds_between(table.since, now));
    double share = std::min(0.99, share_of(table.bytes, table.bytes_total));
    auto drawn = layout.columns < kNarrow ? "" : bar(share, kTableBar, layout.utf8) + " ";
    return fmt::format("{}{}  {} of about {}", drawn, percent(share), size_text(table.bytes),
                       size_text(table.bytes_total));
  }

  const CopyProgress& progress_;
  bool looked_ = false;
  Step step_ = Step::preparing;
  Clock::time_point step_since_;
  CopyPace keeper_;
  CopyPace::Look pace_;
  std::vector<std::shared_ptr<const TableInFlight>> tables_;
};

}  // namespace

std::unique_ptr<View> copy_view(const CopyProgress& progress) {
  return std::make_unique<CopyView>(progress);
}

}  // namespace pgbaton::app
