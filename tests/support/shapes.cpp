#include "shapes.hpp"

#include <signal.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <sstream>

#include "catalog.hpp"

namespace pgbaton::testing {
namespace {

constexpr const char* kFiles[] = {"around", "columns", "constraints", "identities", "tables", "truncate"};
// Large enough to be copied first, and slow enough that all LIVE changes happen meanwhile.
constexpr int kBrakeRows = 6000, kBrakeWidth = 1000;

// Of both sides' roles: what changes how values look, or what a session may do.
constexpr const char* kHostile[] = {"datestyle = 'German, DMY'",
                                    "intervalstyle = 'sql_standard'",
                                    "bytea_output = 'escape'",
                                    "extra_float_digits = -5",
                                    "timezone = 'Asia/Kolkata'",
                                    "search_path = 'public'",
                                    "array_nulls = off",
                                    "xmloption = 'document'",
                                    "standard_conforming_strings = off",
                                    "quote_all_identifiers = on",
                                    "transform_null_equals = on",
                                    "default_transaction_isolation = 'serializable'",
                                    "statement_timeout = '2s'",
                                    "idle_in_transaction_session_timeout = '1s'",
                                    "lock_timeout = '1s'",
                                    "synchronous_commit = off",
                                    "row_security = off",
                                    "default_transaction_read_only = on",
                                    "default_transaction_deferrable = on"};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

void add_line(Shape& shape, const std::string& section, const std::string& line) {
  if (section == "source") {
    shape.source += line + "\n";
    return;
  }
  if (section == "differs") {
    for (const auto& word : words(line)) shape.differs.push_back(word);
    return;
  }
  const std::map<std::string, std::vector<std::string>*> lists{{"live", &shape.live},     {"between", &shape.between},
                                                               {"stream", &shape.stream}, {"query", &shape.query},
                                                               {"target", &shape.target}, {"refused", &shape.refused}};
  auto& list = *lists.at(section);
  if (line.front() == ' ')
    list.back() += "\n" + line;
  else
    list.push_back(line);
}

void load_file(const std::string& file, std::vector<Shape>& shapes) {
  std::istringstream text(read_test_data("shapes/" + file + ".sql"));
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("=== ", 0) == 0) {
      const auto title = words(line.substr(4));
      shapes.push_back({.name = title[0], .superuser = title.size() > 1});
      section.clear();
    } else if (line.rfind("--- ", 0) == 0) {
      const auto title = words(line.substr(4));
      section = title[0];
      for (std::size_t i = 1; i < title.size(); ++i) shapes.back().differs.push_back(title[i]);
    } else if (!section.empty() && !line.empty()) {
      add_line(shapes.back(), section, line);
    }
  }
}

void enter(Session& session, const std::string& schema) {
  session.exec("set client_min_messages = warning; set search_path = " + quote_identifier(schema) + ", public");
}

std::string describe(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) {
    for (const auto& value : row) text += value.value_or("NULL") + " | ";
    text += "\n";
  }
  return text;
}

bool is_one_of(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

}  // namespace

std::vector<Shape> load_shapes(const std::string& pattern) {
  std::vector<Shape> all, chosen;
  for (const auto* file : kFiles) load_file(file, all);
  const char* wanted = std::getenv("PGBATON_TEST_SHAPE");
  const std::regex of_caller(pattern), of_user(wanted == nullptr ? "" : wanted);
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const Shape& shape) {
    return std::regex_search(shape.name, of_caller) && std::regex_search(shape.name, of_user);
  });
  return chosen;
}

ClusterOptions ShapesTest::source_options() const {
  return {.settings = {{"logical_decoding_work_mem", "64kB"}, {"allow_in_place_tablespaces", "on"}}};
}

ClusterOptions ShapesTest::target_options() const {
  return {.settings = {{"allow_in_place_tablespaces", "on"}}};
}

Arguments ShapesTest::tool(const std::string& command, const Arguments& more) const {
  Arguments all{command, "--source", source_->conninfo("postgres", "carrier"), "--target",
                target_->conninfo("postgres", target_role_.empty() ? "carrier" : target_role_)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void ShapesTest::run_lines(Cluster& cluster, const Shape& shape, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  auto session = cluster.session();
  enter(session, shape.name);
  for (const auto& line : lines) {
    try {
      session.exec(line);
    } catch (const SqlError& error) {
      ADD_FAILURE() << shape.name << ": " << line << "\n" << error.what();
      session.exec("rollback");
    }
  }
}

void ShapesTest::prepare(const ShapesOptions& options) {
  target_role_ = options.target_role;
  shapes_ = load_shapes(options.shapes);
  std::erase_if(shapes_, [&](const Shape& shape) { return shape.superuser && !target_role_.empty(); });
  for (auto* cluster : {&source(), &target()}) {
    cluster->exec("create role shape_owner; create role shape_reader; create role carrier superuser login");
    cluster->exec("create tablespace shape_space location ''");
  }
  for (const auto& shape : shapes_) {
    auto session = source().session();
    session.exec("create schema " + quote_identifier(shape.name));
    enter(session, shape.name);
    try {
      session.exec(shape.source);
    } catch (const SqlError& error) {
      ADD_FAILURE() << shape.name << ": " << error.what();
    }
  }
  if (HasFailure()) FAIL() << "the source could not be prepared";
  create_marker();
  source().exec("create table beside (id bigint generated always as identity primary key, v text)");
  create_filled("brake", kBrakeRows, kBrakeWidth);
  const auto role = target_role_.empty() ? "carrier" : target_role_;
  for (const auto* setting : kHostile) {
    source().exec(std::string("alter role carrier set ") + setting);
    target().exec("alter role " + role + " set " + setting);
  }
}

void ShapesTest::change_source(std::vector<std::string> Shape::*lines) {
  Load beside(source().conninfo(), 1, [](Load::Turn& turn) {
    turn.session.exec("insert into beside (v) values ('small')");
    std::this_thread::sleep_for(Milliseconds(3));
  });
  for (const auto& shape : shapes_) run_lines(source(), shape, shape.*lines);
  beside.stop();
  EXPECT_THAT(beside.errors(), ::testing::IsEmpty());
}

void ShapesTest::clone(const ShapesOptions& options) {
  Arguments all{"--until", "caught-up", "--jobs", "1", "--max-rate", "1MB"};
  all.insert(all.end(), options.clone.begin(), options.clone.end());
  Tool clone(tool("clone", all));
  ASSERT_TRUE(wait_copying("brake", 1, Milliseconds(300'000))) << clone.err();
  change_source(&Shape::live);
  EXPECT_TRUE(wait_copying("brake", 1, Milliseconds(100))) << "the LIVE changes took longer than the copy of the brake";
  const auto result = clone.wait(Milliseconds(300'000));
  ASSERT_EQ(result.code, 0) << result;
  compare("after the clone");
  guards_ = target().scalar(
      "select string_agg(distinct guard, ',' order by guard) from pgbaton.table_state where phase <> 'skipped'");
}

void ShapesTest::follow() {
  for (const auto& shape : shapes_) run_lines(target(), shape, shape.between);
  Tool follower(tool("follow"));
  change_source(&Shape::stream);
  ASSERT_TRUE(marker_arrives()) << follower.err();
  follower.kill(SIGTERM);
  const auto stopped = follower.wait(Milliseconds(30'000));
  ASSERT_EQ(stopped.code, 0) << stopped;
  compare("after the stream");
}

void ShapesTest::finish() {
  for (const Arguments& command : {tool("sequences"), tool("finish")}) {
    const auto result = Tool::run(command, Milliseconds(400'000));
    ASSERT_EQ(result.code, 0) << result;
    expect_no_word_of_definitions(result.out);
  }
  EXPECT_THAT(leftovers(source().conninfo()), ::testing::IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), ::testing::IsEmpty());
}

// Where nothing differs finish names nothing, whatever the majors make of an expression.
void ShapesTest::expect_no_word_of_definitions(const std::string& out) const {
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) {
    if (line.find("on the source only") == line.npos && line.find("on the target only") == line.npos &&
        line.find("not the same on both sides") == line.npos && line.find("not compared") == line.npos)
      continue;
    const bool may_differ = std::any_of(shapes_.begin(), shapes_.end(), [&](const Shape& shape) {
      return is_one_of(shape.differs, "catalog") && line.find('"' + shape.name + "\".") != line.npos;
    });
    EXPECT_TRUE(may_differ) << line;
  }
}

// Where the time goes, for whoever waits for it.
void ShapesTest::tell_time(const std::string& when) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun_;
  std::cout << when << ": " << passed.count() << " s\n";
}

void ShapesTest::compare(const std::string& when) {
  tell_time(when);
  CompareOptions options;
  for (const auto& shape : shapes_)
    for (const auto& table : shape.differs) options.exclude.push_back(shape.name + "." + table);
  options.max_lines = 60;
  for (const auto& line : differences(source().conninfo(), target().conninfo(), options))
    ADD_FAILURE() << when << ": " << line;
}

void ShapesTest::compare_definitions() {
  CatalogOptions options{.owners = target_role_.empty(), .same_major = source().major() == target().major()};
  for (const auto& line : catalog_differences(source().conninfo(), target().conninfo(), options)) {
    const auto object = line.substr(line.find(' ') + 1);
    const bool may_differ = std::any_of(shapes_.begin(), shapes_.end(), [&](const Shape& shape) {
      return is_one_of(shape.differs, "catalog") && object.rfind(shape.name + ".", 0) == 0;
    });
    if (!may_differ) ADD_FAILURE() << line;
  }
}

void ShapesTest::ask(const Shape& shape) {
  if (shape.query.empty() && shape.refused.empty()) return;
  auto left = source().session(), right = target().session();
  enter(left, shape.name);
  enter(right, shape.name);
  for (const auto& line : shape.query)
    EXPECT_EQ(describe(left.query(line)), describe(right.query(line))) << shape.name << ": " << line;
  for (const auto& line : shape.refused) EXPECT_THROW(right.exec(line), SqlError) << shape.name << ": " << line;
}

void ShapesTest::carry(const ShapesOptions& options) {
  ASSERT_NO_FATAL_FAILURE(prepare(options));
  ASSERT_NO_FATAL_FAILURE(clone(options));
  ASSERT_NO_FATAL_FAILURE(follow());
  ASSERT_NO_FATAL_FAILURE(finish());
  compare("after finish");
  tell_time("compared");
  compare_definitions();
  tell_time("definitions compared");
  for (const auto& shape : shapes_) {
    ask(shape);
    run_lines(target(), shape, shape.target);
  }
}

}  // namespace pgbaton::testing
