// --events FILE: a JSON line for each notable moment. The moments are the rows of pgbaton.event on the target, which
// the modules below write anyway; one thread carries new ones into the file. Start and end of the run are added here.
#pragma once
#include <pgbaton/state/store.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "context.hpp"

namespace pgbaton::app {

class EventFile {
 public:
  // Does nothing without --events. Throws Error(usage) when the file cannot be opened for appending.
  explicit EventFile(const Context& context);
  ~EventFile();  // carries the last rows
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // After the rows that are there by now, so that the order is that of the moments.
  void add(std::string_view kind, std::string_view detail_json = "");

 private:
  void carry(const std::stop_token& stop);
  void carry_new_rows();
  std::vector<state::Event> new_rows();
  void write(const std::string& line);

  const Context& context_;
  int file_ = -1;
  std::mutex mutex_;  // of all below
  // All up to floor_ are told, and those of told_. A lower number may still come as long as transactions of then run.
  std::int64_t floor_ = 0;
  std::set<std::int64_t> told_;
  std::int64_t next_floor_ = 0, settled_when_ = 0;  // the floor once no transaction below settled_when_ runs
  std::unique_ptr<pg::Control> target_;
  std::jthread thread_;
};

}  // namespace pgbaton::app
