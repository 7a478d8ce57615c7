// --events FILE: a JSON line for each notable moment. The moments are the rows of pgbaton.event on the target, which
// the modules below write anyway; one thread carries new ones into the file. Start and end of the run are added here.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

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
  void write(const std::string& line);

  const Context& context_;
  int file_ = -1;
  std::mutex mutex_;  // of all below
  std::int64_t last_id_ = 0;
  std::jthread thread_;
};

}  // namespace pgbaton::app
