#include "browser.hpp"

#include <cstring>
#include <filesystem>
#include <sstream>

#include "shell.hpp"

namespace pgbaton::testing {

std::string look(int port, const Look& wish) {
  const std::string folder = PGBATON_TEST_BUILD "/captures", profile = make_run_directory("browser");
  std::filesystem::create_directories(folder);
  std::vector<std::string> words{"chromium",
                                 "--headless=new",
                                 "--no-sandbox",
                                 "--disable-gpu",
                                 "--hide-scrollbars",
                                 "--disable-dev-shm-usage",
                                 "--no-first-run",
                                 "--enable-logging=stderr",
                                 "--user-data-dir=" + profile,
                                 "--window-size=" + wish.size,
                                 "--virtual-time-budget=6000",
                                 "--dump-dom",
                                 "--screenshot=" + folder + "/page-" + wish.name + ".png",
                                 "http://127.0.0.1:" + std::to_string(port) + "/"};
  if (wish.dark) words.insert(words.begin() + 1, "--force-dark-mode");
  auto page = output_of(words);
  for (const auto* tag : {"script", "style"})
    for (std::size_t at; (at = page.find("<" + std::string(tag))) != page.npos;)
      page.erase(at, page.find("</" + std::string(tag) + ">", at) + std::strlen(tag) + 3 - at);
  EXPECT_GT(std::filesystem::file_size(folder + "/page-" + wish.name + ".png"), 20'000u);
  // Charts are drawn, and the script met nothing that it did not expect.
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.find("CONSOLE") == line.npos || line.find("Failed to load resource") != line.npos) << line;
  EXPECT_NE(page.find("<canvas"), page.npos);
  for (const auto* wrong : {"undefined", "NaN", "[object"}) EXPECT_EQ(page.find(wrong), page.npos) << wrong;
  return page;
}

::testing::AssertionResult says(const std::string& page, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    if (page.find(part) == page.npos) {
      const auto body = page.find("<header");
      return ::testing::AssertionFailure() << "no \"" << part << "\" in " << page.substr(body, 3000);
    }
  return ::testing::AssertionSuccess();
}

bool comes_to_say(int port, const std::string& path, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  while (http_get(port, path).body.find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(200));
  }
  return true;
}

Relay::Relay(int to, int requests) : to_(to), requests_(requests), listener_(0), thread_([this] { run(); }) {}

Relay::Relay(std::map<std::string, HttpReply> replies)
    : to_(0), requests_(1 << 20), replies_(std::move(replies)), listener_(0), thread_([this] { run(); }) {}

Relay::~Relay() {
  stop_ = true;
  thread_.join();
}

HttpReply Relay::reply_to(const std::string& path) {
  if (replies_.empty()) return http_get(to_, path);
  const auto found = replies_.find(path.substr(0, path.find('?')));
  return found == replies_.end() ? HttpReply{} : found->second;
}

void Relay::run() {
  while (!stop_) {
    auto visitor = listener_.accept(Milliseconds(50));
    if (!visitor || requests_-- <= 0) continue;
    const auto request = visitor->read_request();
    const auto path = request.substr(4, request.find(' ', 4) - 4);
    const auto reply = reply_to(path);
    if (reply.status == 0) continue;
    visitor->send("HTTP/1.1 " + std::to_string(reply.status) +
                  " x\r\nConnection: close\r\nContent-Type: " + reply.headers.at("content-type") +
                  "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body);
  }
}

}  // namespace pgbaton::testing
