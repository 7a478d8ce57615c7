// The page of --http in a real browser, headless, while a clone and a stream run. Pictures are kept as captures.
#include "http.hpp"
#include "shell.hpp"
#include "support/pair.hpp"

#include <signal.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <thread>

namespace pgbaton::testing {
namespace {

struct Look {
  std::string name;  // of the picture
  std::string size = "1200,1500";
  bool dark = false;
};

// What the browser has made of the page after some seconds: its text without scripts, and what its console said.
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

// The browser's time runs faster than ours: what it shall show must be there before.
bool comes_to_say(int port, const std::string& path, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (http_get(port, path).body.find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(200));
  }
  return true;
}

// Between browser and tool: hands so many requests on, and then nobody answers any more.
class Relay {
 public:
  Relay(int to, int requests) : listener_(0), thread_([this, to, requests] { run(to, requests); }) {}
  ~Relay() {
    stop_ = true;
    thread_.join();
  }
  int port() const { return listener_.port(); }

 private:
  void run(int to, int requests) {
    while (!stop_) {
      auto visitor = listener_.accept(Milliseconds(50));
      if (!visitor || requests-- <= 0) continue;
      const auto request = visitor->read_request();
      const auto path = request.substr(4, request.find(' ', 4) - 4);
      const auto reply = http_get(to, path);
      if (reply.status == 0) continue;
      visitor->send("HTTP/1.1 " + std::to_string(reply.status) +
                    " x\r\nConnection: close\r\nContent-Type: " + reply.headers.at("content-type") +
                    "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body);
    }
  }
  HttpListener listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class PageTest : public PairTest {
 protected:
  ClusterOptions source_options() const override { return {.settings = {{"max_slot_wal_keep_size", "1GB"}}}; }
};

TEST_F(PageTest, ShowsACopyAStreamALagAndFailures) {
  create_filled("orders", 25'000, 200);
  create_filled("order_items", 15'000, 200);
  create_filled("customers", 2'000);
  source().exec("create table log (id bigserial primary key, v text); analyze");
  auto clone = start("clone", {"--follow", "--http", "0", "--max-rate", "700kB", "--jobs", "2", "--ready-lag", "1MB"});
  const int port = http_port(clone);
  ASSERT_NE(port, 0) << clone.err();
  ASSERT_TRUE(wait_copying("orders", 3000));
  ASSERT_TRUE(
      comes_to_say(port, "/status.json", "\n  \"phase\": \"copying\""));  // the servers are looked at now and then
  EXPECT_TRUE(says(look(port, {"copy"}), {"Copying rows", "% of the rows", "Copy speed", "WAL held", "of 1.",
                                          "Snapshot age", R"("public"."orders")", "of about", "public.log"}));
  look(port, {"copy-phone", "500,2400"});

  ASSERT_TRUE(wait_for("ready"));
  Load load(source().conninfo(), 2, [](Load::Turn& turn) {
    turn.session.exec("insert into log (v) select repeat('row ' || i, 60) from generate_series(1, 20) i");
    std::this_thread::sleep_for(Milliseconds(10));
  });
  ASSERT_TRUE(load.wait_done(300));
  EXPECT_EQ(run("verify").code, 0);
  ASSERT_TRUE(comes_to_say(port, "/live.json", "\"event\":\"verify\""));
  EXPECT_TRUE(says(look(port, {"stream"}), {"Ready", "Commit to target", "transactions/s", "Last verify", "equal",
                                            "compared 4 tables: 0 differences", "all rows are copied", "✓ Copy"}));
  look(port, {"stream-dark", "1200,1500", true});
  {
    auto blocker = target().session();
    blocker.exec("begin; lock table log in access exclusive mode");
    ASSERT_TRUE(load.wait_done(load.done() + 700));
    std::this_thread::sleep_for(Milliseconds(1500));  // until that is in the history
    EXPECT_TRUE(says(look(port, {"lag"}), {"Ready, but", "behind the source"}));
    blocker.exec("rollback");
  }
  load.stop();
  {
    Relay relay(port, 4);
    EXPECT_TRUE(says(look(relay.port(), {"ended"}), {"The command has ended, or cannot be reached", "No answer for",
                                                     "starting the same command again loses nothing"}));
  }
  source().crash();
  ASSERT_TRUE(clone.wait_for_stderr("stands still"));
  ASSERT_TRUE(comes_to_say(port, "/metrics", "pgbaton_source_up{replica=\"default\"} 0"));
  EXPECT_TRUE(says(look(port, {"source-away"}), {"The stream stands still: no connection", "The source does not answer",
                                                 "goes on by itself when it is back"}));
  source().start();
  EXPECT_EQ(run("wait", {"--for", "caught-up", "--timeout", "60s"}).code, 0);
  stop_follower(clone);
  expect_equal_after_drain();
}

}  // namespace
}  // namespace pgbaton::testing
