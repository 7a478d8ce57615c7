// The page of --http in a real browser, headless, while a clone and a stream run. Pictures are kept as captures.
#include "browser.hpp"
#include "support/pair.hpp"

#include <thread>

namespace pgbaton::testing {
namespace {

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
                                          "Snapshot age", "public.orders", "of about", "public.log"}));
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
