// What the monitor has seen, as documents.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "monitor.hpp"

namespace pgbaton::app {

std::string metrics_text(const Seen& seen);  // the text format of Prometheus, 0.0.4
// What the page shows beside `status --json`; of the history the points after `after`, seconds since 1970.
std::string live_json(const Seen& seen, const History& history, double after);
// `status --json` as of the last look, or why there is none; of a switchover or rebuild also its steps, as `course`.
std::string status_document(const Seen& seen);
std::string_view page_html();

double unix_time(const std::string& iso_utc);  // "2026-01-31T12:00:00.000Z" as seconds since 1970
// The numbers in the detail of an event "verify".
std::vector<std::pair<std::string, double>> last_verify_numbers(const state::Event& event);

}  // namespace pgbaton::app
