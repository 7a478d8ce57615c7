// An interactive shell in a pseudo-terminal, for what only a person at a keyboard sees: completions.
#pragma once
#include "support/process.hpp"

#include <string>
#include <vector>

namespace pgbaton::testing {

class Shell {
 public:
  explicit Shell(const std::vector<std::string>& arguments);
  ~Shell();  // SIGKILL and reap
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;

  void type(const std::string& keys);
  // Everything that appeared since the last call, once it contains `text`; what there is when the time is over.
  std::string wait_for(const std::string& text, Milliseconds timeout = Milliseconds(20'000));

 private:
  int pid_ = -1, master_ = -1;
};

// Standard output and error of a command that must end with 0; throws with both otherwise.
std::string output_of(const std::vector<std::string>& arguments,
                      const std::vector<std::pair<std::string, std::string>>& environment = {});

}  // namespace pgbaton::testing
