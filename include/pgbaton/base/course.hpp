// How far a command of many steps is: written by the command, read by whoever shows it. From any thread.
#pragma once
#include <pgbaton/base/time.hpp>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pgbaton {

class Course {
 public:
  struct Step {
    std::string name;
    Clock::time_point begun;
    std::optional<Clock::time_point> ended;  // none: under way, or the one that the command failed in
    std::string note;                        // for people
  };
  struct Look {
    std::vector<Step> steps;                   // as they were begun; a name may come again
    std::map<std::string, std::string> facts;  // what became known on the way, such as "generation" → "8"
    std::optional<Milliseconds> pause;         // how long others have had to wait; none: they did not yet
    bool pausing = false;                      // they wait now
  };

  // Ends the step that is under way, if there is one.
  void begin(std::string name);
  void end(std::string note = "");
  void know(const std::string& fact, std::string value);
  void pause_since(Clock::time_point since);
  void pause_over();
  Look look() const;

 private:
  mutable std::mutex mutex_;
  Look seen_;
  Clock::time_point pause_since_{};
};

}  // namespace pgbaton
