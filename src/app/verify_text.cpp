// What verify found, for people.
//
//   table          source rows  target rows    size   time  differences
//   public.orders    1,234,567    1,234,567  210 MB  1.2 s            0
//
//   public.customer  missing    (id)=(17)
//   public.customer  different  (id)=(23)  name, city
#include <fmt/format.h>
#include <pgbaton/base/words.hpp>

#include <algorithm>

#include "layout.hpp"
#include "render.hpp"

namespace pgbaton::app {

namespace {

// Of a table; more is for --json.
constexpr std::size_t kShown = 20;
constexpr int kLongestValue = 60;

// As it can be pasted into a command; plain names without quotes.
std::string word(const std::string& name) {
  const bool is_plain = !name.empty() && (name.front() < '0' || name.front() > '9') &&
                        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == name.npos;
  return is_plain ? name : quote_identifier(name);
}
std::string plain(const QualifiedName& name) {
  return word(name.schema) + "." + word(name.name);
}

std::string key_text(const verify::Difference& difference) {
  std::string names, values;
  for (std::size_t i = 0; i < difference.key.size(); ++i) {
    names += (i == 0 ? "" : ", ") + difference.key_columns[i];
    values += (i == 0 ? "" : ", ") + fit(difference.key[i].value_or("NULL"), kLongestValue, true);
  }
  return fmt::format("({})=({})", names, values);
}

std::string differences_text(const verify::Report& report) {
  std::string text;
  std::size_t of_table = 0;
  for (std::size_t i = 0; i < report.differences.size(); ++i) {
    const auto& difference = report.differences[i];
    const bool last = i + 1 == report.differences.size() || report.differences[i + 1].table != difference.table;
    if (++of_table <= kShown) {
      text += fmt::format("{}  {:<9}  {}", plain(difference.table), to_string(difference.kind), key_text(difference));
      if (difference.count > 1) text += fmt::format("  {} times", difference.count);
      if (!difference.columns.empty()) text += fmt::format("  {}", fmt::join(difference.columns, ", "));
      text += "\n";
    }
    if (!last) continue;
    if (of_table > kShown)
      text += fmt::format("{}  … {} more, listed by --json\n", plain(difference.table), of_table - kShown);
    of_table = 0;
  }
  return text;
}

std::string tables_text(const verify::Report& report) {
  std::vector<std::vector<std::string>> rows{{"table", "source rows", "target rows", "size", "time", "differences"}};
  for (const auto& table : report.tables)
    rows.push_back({plain(table.name), count_text(table.source_rows), count_text(table.target_rows),
                    size_text(table.bytes), format_duration(table.time), count_text(table.differences)});
  return in_columns(rows, "lrrrrr");
}

}  // namespace

std::string verify_text(const verify::Report& report, const std::string& name) {
  auto text = tables_text(report);
  for (const auto& table : report.not_compared)
    text += fmt::format("not compared: {}: {}\n", plain(table.name), table.reason);
  if (report.differences_total > 0) text += "\n" + differences_text(report) + "\n";
  text += fmt::format(
      "replica {} at {}: {}, {} compared in {} (the times above are those of both sides together); "
      "changes waited {} at most\n",
      name, to_string(report.cut_lsn), counted(static_cast<std::int64_t>(report.tables.size()), "table"),
      counted(report.rows(), "row"), format_duration(report.time), format_duration(report.longest_pause));
  for (const auto& doubt : report.doubts)
    text += fmt::format("{}: {}; {}\n", plain(doubt.table), doubt.reason, doubt.remedy);
  if (report.tables.empty()) return text + "nothing was compared\n";
  if (report.differences_total == 0)
    return text + (report.doubts.empty() ? "no differences\n" : "no rows differ; what is named above does\n");
  text += counted(report.differences_total, "difference");
  if (report.repaired > 0 || report.remaining != report.differences_total)
    text += fmt::format(", {} repaired, {} remain", counted(report.repaired, "row"), count_text(report.remaining));
  return text + "\n";
}

}  // namespace pgbaton::app
