// --http: what it answers, whom it withstands, and that it does not disturb.
#include "http.hpp"
#include "promtool.hpp"
#include "support/pair.hpp"

#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

namespace pgbaton::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

Metrics scrape(int port) {
  const auto reply = http_get(port, "/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  auto metrics = parse_metrics(reply.body);
  EXPECT_THAT(metrics.problems, IsEmpty());
  return metrics;
}

template <typename Done>
bool until(Done done, Milliseconds timeout = Milliseconds(60'000)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(100));
  }
  return true;
}

bool metric_becomes(int port, const std::string& name, double value) {
  return until([&] { return scrape(port).value(name) == value; });
}

class HttpTest : public PairTest {
 protected:
  // Something is left to drop: the limit of the budget that is shown.
  ClusterOptions source_options() const override { return {.settings = {{"max_slot_wal_keep_size", "4GB"}}}; }
};

// The names that alerts and dashboards speak of must exist: in some state of a replica each is there.
std::set<std::string> names_in(const std::string& file) {
  std::set<std::string> names;
  const auto text = read_file(file);
  for (std::size_t at = 0; (at = text.find("pgbaton_", at)) != std::string::npos;) {
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at);
    if (at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))) names.insert(text.substr(at, end - at));
    at = end;
  }
  return names;
}

// Of a switchover or a rebuild: course_test.cpp.
bool of_course(const std::string& name) {
  return name.starts_with("pgbaton_step") || name.starts_with("pgbaton_paus") || name.starts_with("pgbaton_rebuild");
}

// Families of `names` that this text has though nobody can know their values now.
std::vector<std::string> pretended(const Metrics& metrics, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const auto& [family, type] : metrics.types)
    for (const auto& name : names)
      if (family.starts_with(name)) found.push_back(family);
  return found;
}
const std::vector<std::string> kOfTheSource{"pgbaton_lag",        "pgbaton_slot", "pgbaton_wal",
                                            "pgbaton_snapshot",   "pgbaton_xmin", "pgbaton_waiting_ses",
                                            "pgbaton_rate_source"};
const std::string kSourceFlush = R"(pgbaton_lsn_bytes{replica="default",position="source_flush"})";

std::string family_of(const std::string& name, const Metrics& metrics) {
  for (const auto* suffix : {"", "_bucket", "_sum", "_count"})
    if (name.ends_with(suffix)) {
      const auto family = name.substr(0, name.size() - std::string_view(suffix).size());
      if (metrics.types.contains(family)) return family;
    }
  return "";
}

TEST_F(HttpTest, ShowsACopyAStreamALagAndAComparison) {
  create_filled("orders", 30'000, 200);
  create_filled("\"odd \\ \"\"name\"\"\"", 500);
  source().exec("create table log (id bigserial primary key, v text); analyze");
  auto clone = start("clone", {"--follow", "--http", "0", "--max-rate", "1MB", "--jobs", "1"});
  const int port = http_port(clone);
  ASSERT_NE(port, 0) << clone.err();
  EXPECT_EQ(http_get(port, "/healthz").body, "ok\n");
  EXPECT_EQ(http_get(port, "/readyz").status, 503);
  ASSERT_TRUE(wait_copying("orders"));
  ASSERT_TRUE(metric_becomes(port, "pgbaton_replica_phase{replica=\"default\",phase=\"copying\"}", 1));
  auto during = scrape(port);
  ASSERT_TRUE(until([&] { return (during = scrape(port)).value("pgbaton_wal_projected_bytes") > 0; }));
  EXPECT_GT(during.value("pgbaton_copy_left_bytes"), 0);
  EXPECT_GE(during.value("pgbaton_wal_slots"), 1);
  EXPECT_GT(during.value("pgbaton_snapshot_age_seconds"), 0);
  EXPECT_EQ(during.value("pgbaton_copy_tables"), 3);
  EXPECT_THAT(during.values, Contains(Key(HasSubstr(R"(table="odd \\ \"name\"")"))));
  EXPECT_EQ(http_get(port, "/readyz?for=copied").status, 503);
  const auto live = Json::parse(http_get(port, "/live.json").body);
  EXPECT_EQ(live.at("copy").at("running"), true);
  EXPECT_FALSE(live.at("copy").at("in_flight").empty());

  ASSERT_TRUE(until([&] { return http_get(port, "/readyz").status == 200; })) << clone.err();
  EXPECT_EQ(http_get(port, "/readyz?for=indexed").body, "ready\n");
  EXPECT_EQ(http_get(port, "/readyz?for=nonsense").status, 400);
  {
    Load load(source().conninfo(), 2, "insert into log (v) select 'row ' || i from generate_series(1, 5) i");
    ASSERT_TRUE(load.wait_done(200));
    EXPECT_EQ(run("verify").code, 0);
    ASSERT_TRUE(until([&] { return scrape(port).value("pgbaton_stream_changes_total") > 500; }));
    ASSERT_TRUE(until([&] { return scrape(port).value("pgbaton_rate_changes_per_second") > 0; }));
  }
  ASSERT_TRUE(until([&] { return scrape(port).value("pgbaton_verify_differences") == 0; }));
  auto after = scrape(port);
  EXPECT_EQ(after.value("pgbaton_copy_left_bytes"), 0);
  EXPECT_EQ(after.value("pgbaton_copy_rows_total"), 30'500);
  EXPECT_EQ(after.value("pgbaton_stream_connected"), 1);
  EXPECT_EQ(after.value("pgbaton_slot_active"), 1);
  EXPECT_GT(after.value("pgbaton_slot_wal_budget_bytes"), 3e9);
  EXPECT_GT(after.value("pgbaton_wal_budget_bytes"), 3e9);
  EXPECT_EQ(after.value("pgbaton_wal_slots"), 1);
  EXPECT_GT(after.value("pgbaton_commit_delay_seconds_count"), 200);
  EXPECT_EQ(after.value("pgbaton_guard_tables{replica=\"default\",kind=\"column\"}"), 3);

  // The same document as `status --json`: all of its fields, here and one level below.
  const auto ours = Json::parse(http_get(port, "/status.json").body);
  const auto theirs = Json::parse(run("status", {"--json"}).out);
  for (const auto& [name, value] : theirs.items()) {
    ASSERT_TRUE(ours.contains(name)) << name;
    if (!value.is_object() || !ours[name].is_object()) continue;
    for (const auto& [inner, ignored] : value.items()) EXPECT_TRUE(ours[name].contains(inner)) << name << "." << inner;
  }
  EXPECT_EQ(ours.at("generation"), theirs.at("generation"));
  EXPECT_EQ(ours.at("phase"), "ready");

  // What dashboards and alerts use is there in one of the states that this test has seen.
  during.types.merge(after.types);
  for (const auto* file : {"/scripts/monitoring/grafana.json", "/scripts/monitoring/alerts.yaml"}) {
    const auto names = names_in(PGBATON_TEST_SOURCES + std::string(file));
    EXPECT_GE(names.size(), 8u) << file;
    for (const auto& name : names) {
      EXPECT_TRUE(of_course(name) || !family_of(name, during).empty()) << name << " in " << file;
    }
  }
  const auto listed = read_file(PGBATON_TEST_SOURCES "/scripts/monitoring/README.md");
  for (const auto& [name, type] : during.types)
    if (name.starts_with("pgbaton_")) {
      EXPECT_NE(listed.find("`" + name + "`"), std::string::npos) << name << " is not in scripts/monitoring/README.md";
    }

  std::vector<AlertCase> cases;
  const auto add_case = [&](const std::string& name, const std::vector<std::string>& alerts) {
    cases.push_back({name, http_get(port, "/metrics").body, alerts});
  };
  add_case("ready", {});

  // The source goes away, and comes back.
  EXPECT_GT(after.values.at(kSourceFlush), 0);
  source().crash();
  EXPECT_TRUE(metric_becomes(port, "pgbaton_stream_connected", 0));
  const auto standing = Json::parse(run("status", {"--json"}).out);
  EXPECT_TRUE(standing.at("lag").at("seconds").is_null()) << standing.at("lag");
  EXPECT_TRUE(standing.at("rates").at("changes_per_second").is_null()) << standing.at("rates");
  EXPECT_TRUE(metric_becomes(port, "pgbaton_source_up", 0));
  const auto without_source = scrape(port);
  EXPECT_THAT(pretended(without_source, kOfTheSource), IsEmpty());
  EXPECT_EQ(without_source.values.count(kSourceFlush), 0u);
  EXPECT_EQ(without_source.value("pgbaton_replica_phase{replica=\"default\",phase=\"ready\"}"), 1);
  add_case("source away", {"PgbatonSourceDown", "PgbatonStreamStandsStill"});
  EXPECT_EQ(http_get(port, "/healthz").status, 200);
  source().start();
  EXPECT_TRUE(metric_becomes(port, "pgbaton_stream_connected", 1));
  EXPECT_EQ(scrape(port).value("pgbaton_stream_reconnects_total"), 1) << "one loss, however many tries";
  EXPECT_EQ(scrape(port).types.count("pgbaton_lag_seconds"), 1u);
  target().stop();
  EXPECT_TRUE(metric_becomes(port, "pgbaton_target_up", 0));
  const auto away = http_get(port, "/status.json");
  EXPECT_EQ(away.status, 503);
  EXPECT_TRUE(Json::parse(away.body).contains("error"));
  EXPECT_EQ(http_get(port, "/readyz").status, 503);
  ASSERT_TRUE(metric_becomes(port, "pgbaton_stream_connected", 0));
  auto of_both = kOfTheSource;
  for (const auto* name : {"pgbaton_source_up", "pgbaton_replica", "pgbaton_writer", "pgbaton_guard", "pgbaton_table",
                           "pgbaton_verify", "pgbaton_copy_left"})
    of_both.emplace_back(name);
  EXPECT_THAT(pretended(scrape(port), of_both), IsEmpty());
  add_case("target away", {"PgbatonStreamStandsStill", "PgbatonTargetDown"});
  target().start();
  EXPECT_TRUE(metric_becomes(port, "pgbaton_target_up", 1));
  stop_follower(clone);

  // Seen by a process that does not stream: the slot is gone, and then the replica.
  source().exec("insert into log (v) values ('behind')");
  auto waiter = start("wait", {"--for", "caught-up", "--timeout", "90s", "--http", "0"});
  const int other = http_port(waiter);
  ASSERT_NE(other, 0) << waiter.err();
  source().exec("select pg_drop_replication_slot(slot_name) from pg_replication_slots");
  ASSERT_TRUE(metric_becomes(other, "pgbaton_slot_wal_status{replica=\"default\",status=\"missing\"}", 1));
  const auto lost = scrape(other);
  EXPECT_THAT(pretended(lost, {"pgbaton_lag", "pgbaton_stream", "pgbaton_queue", "pgbaton_slot_wal_held"}), IsEmpty());
  cases.push_back({"slot gone", http_get(other, "/metrics").body, {"PgbatonSlotLost"}});
  EXPECT_EQ(run("drop").code, 0);
  ASSERT_TRUE(metric_becomes(other, "pgbaton_replica_phase{replica=\"default\",phase=\"none\"}", 1));
  EXPECT_THAT(pretended(scrape(other), {"pgbaton_lag", "pgbaton_slot", "pgbaton_wal", "pgbaton_copy", "pgbaton_table"}),
              IsEmpty());
  cases.push_back({"dropped", http_get(other, "/metrics").body, {}});
  waiter.kill(SIGTERM);
  waiter.wait();
  if (promtool().empty()) return;
  for (const auto& one : cases) EXPECT_EQ(lint_metrics(one.metrics), "") << one.name;
  EXPECT_EQ(judge_alerts(cases), "");
  EXPECT_EQ(judge_dashboard(), "");
}

int open_files(int pid) {
  const auto files = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

TEST_F(HttpTest, SlowAndHostileClientsHurtNobody) {
  source().exec("create table t (id int primary key); insert into t values (1)");
  create_marker();
  clone_until_caught_up();
  auto follower = start("follow", {"--http", "127.0.0.1:0"});
  const int port = http_port(follower);
  ASSERT_NE(port, 0) << follower.err();
  ASSERT_TRUE(marker_arrives());
  const int files_before = open_files(follower.pid());

  std::vector<HttpConnection> slow;
  for (int i = 0; i < 300; ++i) {
    slow.emplace_back(port);
    slow.back().send("GET /metrics HTTP/1.1\r\nHost: local");  // and never more
  }
  for (int i = 0; i < 20; ++i) {  // answers that nobody reads
    HttpConnection greedy(port);
    for (int n = 0; n < 50 && greedy.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); ++n) {
    }
    slow.push_back(std::move(greedy));
  }
  EXPECT_EQ(http_get(port, "/healthz").status, 200);
  EXPECT_TRUE(marker_arrives());
  EXPECT_LT(open_files(follower.pid()), files_before + 60);
  EXPECT_TRUE(slow.front().ended(Milliseconds(30'000)));  // no 32 of them are kept, and those for seconds only
  slow.clear();

  const auto answer = [&](const std::string& bytes) {
    HttpConnection connection(port);
    connection.send(bytes);
    return connection.reply().status;
  };
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(answer("GET /nothing HTTP/1.1\r\n" + host + "\r\n"), 404);
  EXPECT_EQ(answer("POST / HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello"), 413);
  EXPECT_EQ(answer("DELETE / HTTP/1.1\r\n" + host + "\r\n"), 405);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 421);
  EXPECT_EQ(answer("GET / HTTP/1.1\r\n\r\n"), 421);
  EXPECT_EQ(answer("\x16\x03\x01\x02 no HTTP at all\r\n\r\n"), 400);
  EXPECT_EQ(answer("GET /../../etc/passwd HTTP/1.1\r\n" + host + "\r\n"), 404);

  HttpConnection kept(port);
  for (int i = 0; i < 3; ++i) {
    kept.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
    EXPECT_EQ(kept.reply().body, "ok\n");
  }
  kept.send("HEAD /metrics HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n");
  const auto head = kept.read_all(Milliseconds(20'000));
  EXPECT_THAT(head, AllOf(HasSubstr("200 OK"), HasSubstr("Content-Length: "), Not(HasSubstr("# HELP"))));
  EXPECT_THAT(http_get(port, "/").headers.at("content-security-policy"), HasSubstr("default-src 'none'"));

  EXPECT_TRUE(marker_arrives());
  const auto second = Tool::run(arguments("wait", {"--http", std::to_string(port)}));
  EXPECT_EQ(second.code, 2) << second;
  EXPECT_THAT(second.err, AllOf(HasSubstr("cannot listen on 127.0.0.1 port"), HasSubstr("HINT: Another process")));
  EXPECT_EQ(run("wait", {"--http", "no address"}).code, 2);
  EXPECT_EQ(run("wait", {"--http", "db1.example:9187"}).code, 2);
  EXPECT_EQ(run("wait", {"--http", "99999"}).code, 2);
  EXPECT_EQ(run("wait", {"--http", "0.0.0.0:0"}).code, 0);
  EXPECT_EQ(run("verify", {"--http", "127.0.0.1:0"}).code, 0);
  stop_follower(follower);
}

// Commits on the source until they are on the target, in ms: the median of some rows, one after the other.
double median_arrival(Cluster& source, Cluster& target, int rows) {
  auto writer = source.session(), reader = target.session();
  std::vector<double> times;
  for (int i = 0; i < rows; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const auto id = writer.scalar("insert into marker default values returning id");
    while (reader.scalar("select count(*) from marker where id = " + id) != "1" &&
           std::chrono::steady_clock::now() - begun < std::chrono::seconds(30))
      std::this_thread::sleep_for(Milliseconds(2));
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begun).count());
  }
  std::ranges::nth_element(times, times.begin() + rows / 2);
  return times[static_cast<std::size_t>(rows / 2)];
}

// Both sides of the comparison take turns, so that what else the machine does is in both.
TEST_F(HttpTest, ScrapingUnderLoadLeavesTheLagAsItIs) {
  source().exec("create table log (id bigserial primary key, v text)");
  create_marker();
  clone_until_caught_up();
  auto follower = start("follow", {"--http", "0"});
  const int port = http_port(follower);
  ASSERT_NE(port, 0) << follower.err();
  ASSERT_TRUE(marker_arrives());
  Load load(source().conninfo(), 2, [](Load::Turn& turn) {
    turn.session.exec("insert into log (v) select 'row ' || i from generate_series(1, 10) i");
    std::this_thread::sleep_for(Milliseconds(5));
  });
  double quiet = 0, scraped = 0;
  long long scrapes = 0;
  for (int turn = 0; turn < 3; ++turn) {
    quiet += median_arrival(source(), target(), 15) / 3;
    std::atomic<bool> enough{false};
    std::atomic<long long> done{0};
    std::thread scraper([&] {
      while (!enough) {
        for (const auto* path : {"/metrics", "/status.json", "/live.json", "/"})
          done += http_get(port, path).status == 200;
        std::this_thread::sleep_for(Milliseconds(50));
      }
    });
    scraped += median_arrival(source(), target(), 15) / 3;
    enough = true;
    scraper.join();
    scrapes += done;
  }
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  EXPECT_GE(scrapes, 20);
  std::cout << "a row arrives after " << quiet << " ms, while scraped " << scrapes << " times after " << scraped
            << " ms\n";
  EXPECT_LT(scraped, 2 * quiet + 100);
  stop_follower(follower);
  expect_equal_after_drain();
}

}  // namespace
}  // namespace pgbaton::testing
