// The page of --http in a real browser, headless. Pictures are kept as captures in the build folder.
#pragma once
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "http.hpp"

namespace pgbaton::testing {

struct Look {
  std::string name;  // of the picture
  std::string size = "1200,1500";
  bool dark = false;
};
// What the browser has made of the page after some seconds: its text without scripts. The test fails when its console
// said anything.
std::string look(int port, const Look& wish);

::testing::AssertionResult says(const std::string& page, const std::vector<std::string>& parts);

// The browser's time runs faster than ours: what it shall show must be there before.
bool comes_to_say(int port, const std::string& path, const std::string& text);

// Between browser and tool: hands so many requests on, and then nobody answers any more.
class Relay {
 public:
  Relay(int to, int requests);
  // Answers with these by their paths, whatever the query, as if the tool were still there.
  explicit Relay(std::map<std::string, HttpReply> replies);
  ~Relay();
  int port() const { return listener_.port(); }

 private:
  HttpReply reply_to(const std::string& path);
  void run();
  const int to_;
  int requests_;
  const std::map<std::string, HttpReply> replies_;
  HttpListener listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace pgbaton::testing
