// What a real server sent, decoded. Each tests/data/wire/pgNN.txt (scripts/capture-wire) has a pgNN.expected beside it
// with one line per message; to add a major, capture it, run this test with PGBATON_ACTUAL_DIR=somewhere, and read
// what it wrote there against recipe.sql before it becomes the expectation.
#include <gtest/gtest.h>
#include <pgbaton/wire/message.hpp>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "describe.hpp"
#include "golden.hpp"

namespace pgbaton::wire::test {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void write_actual(const fs::path& capture, const std::vector<std::string>& lines) {
  const char* folder = std::getenv("PGBATON_ACTUAL_DIR");
  if (folder == nullptr) return;
  std::ofstream file(fs::path(folder) / capture.stem().concat(".expected"));
  for (const auto& line : lines) file << line << '\n';
}

class WireGolden : public testing::TestWithParam<fs::path> {
 protected:
  std::vector<Golden> golden = load_golden(GetParam());
};

TEST_P(WireGolden, EveryMessageIsWhatTheRecipeSays) {
  std::vector<std::string> actual;
  std::string section;
  Describer describe;
  for (const auto& [line, part, lsn_offset, body] : golden) {
    if (part != section) actual.push_back("# " + (section = part));
    Arena arena;
    actual.push_back(describe(decode(body, arena)));
  }
  write_actual(GetParam(), actual);
  const auto expected = lines_of(fs::path(GetParam()).replace_extension(".expected"));
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    EXPECT_EQ(actual[i], expected[i]) << "expectation line " << i + 1;
  }
  EXPECT_EQ(actual.size(), expected.size());
}

// What the expectations leave out because it differs on every run.
TEST_P(WireGolden, PositionsTimesAndIdsArePlausible) {
  constexpr TimestampUs kDay = 86'400'000'000;
  std::optional<Begin> open;
  Lsn last_commit_lsn;
  std::string section;
  for (const auto& [line, part, lsn_offset, body] : golden) {
    SCOPED_TRACE("line " + std::to_string(line));
    if (part != section) {
      EXPECT_FALSE(open);
      section = part;
      last_commit_lsn = {};
    }
    Arena arena;
    const Message message = decode(body, arena);
    if (const auto* begin = std::get_if<Begin>(&message)) {
      EXPECT_FALSE(open);
      EXPECT_GT(begin->commit_lsn, last_commit_lsn);
      EXPECT_GT(begin->commit_time, 20 * 365 * kDay);
      EXPECT_LT(begin->commit_time, 100 * 366 * kDay);
      EXPECT_NE(begin->xid, 0U);
      open = *begin;
    } else if (const auto* commit = std::get_if<Commit>(&message)) {
      ASSERT_TRUE(open);
      EXPECT_EQ(commit->commit_lsn, open->commit_lsn);
      EXPECT_EQ(commit->commit_time, open->commit_time);
      EXPECT_GT(commit->end_lsn, commit->commit_lsn);
      last_commit_lsn = commit->commit_lsn;
      open.reset();
    } else if (const auto* logical = std::get_if<LogicalMessage>(&message)) {
      EXPECT_EQ(logical->transactional, open.has_value());
      EXPECT_GT(logical->lsn, last_commit_lsn);
    } else if (std::holds_alternative<StreamAbort>(message)) {
      EXPECT_FALSE(open);
    } else {
      EXPECT_TRUE(open);
    }
  }
  EXPECT_FALSE(open);
}

// Names and values are views into the bytes, never copies.
TEST_P(WireGolden, ValuesAreViewsIntoTheBody) {
  for (const auto& [line, section, lsn_offset, body] : golden) {
    Arena arena;
    const auto* first = reinterpret_cast<const char*>(body.data());
    const auto is_inside = [&, end = first + body.size()](std::string_view view) {
      return view.data() >= first && view.data() + view.size() <= end;
    };
    const Message message = decode(body, arena);
    if (const auto* relation = std::get_if<Relation>(&message)) {
      EXPECT_TRUE(is_inside(relation->name)) << line;
      for (const Column& column : relation->columns) EXPECT_TRUE(is_inside(column.name)) << line;
    } else if (const auto* insert = std::get_if<Insert>(&message)) {
      for (const Value& value : insert->new_row) {
        EXPECT_TRUE(value.kind == ValueKind::null || is_inside(value.data)) << line;
      }
    } else if (const auto* logical = std::get_if<LogicalMessage>(&message)) {
      EXPECT_TRUE(is_inside(logical->prefix) && is_inside(logical->content)) << line;
    }
    EXPECT_LE(arena.bytes(), 1024U) << line;  // one small block: nothing per value
  }
}

std::string old_kind_letter(OldRow kind) {
  switch (kind) {
    case OldRow::none:
      return "";
    case OldRow::key:
      return "K";
    case OldRow::full:
      return "O";
  }
  return "?";
}

struct Coverage {
  std::set<std::string> seen;

  void row(Tuple tuple) {
    for (const Value& value : tuple) {
      seen.insert("value " + std::to_string(static_cast<int>(value.kind)));
      if (value.kind == ValueKind::text && value.data.empty()) seen.insert("empty text");
    }
  }
  void operator()(const Relation& message) { seen.insert(std::string("identity ") + message.replica_identity); }
  void operator()(const Insert& message) { row(message.new_row); }
  void operator()(const Update& message) {
    seen.insert("U" + old_kind_letter(message.old_kind));
    row(message.old_row);
    row(message.new_row);
  }
  void operator()(const Delete& message) {
    seen.insert("D" + old_kind_letter(message.old_kind));
    row(message.old_row);
  }
  void operator()(const Truncate& message) {
    const std::string options = std::string(message.cascade ? "c" : "") + (message.restart_identity ? "r" : "");
    seen.insert("T" + options + std::to_string(message.relation_oids.size()));
  }
  void operator()(const LogicalMessage& message) { seen.insert(message.transactional ? "M1" : "M0"); }
  void operator()(const Begin&) { seen.insert("B"); }
  void operator()(const Commit&) { seen.insert("C"); }
  void operator()(const Origin&) { seen.insert("O"); }
  void operator()(const Type&) { seen.insert("Y"); }
  void operator()(const StreamAbort&) { seen.insert("A"); }
};

// The recipe must not lose what the tests above rest on. Before 14 there are no messages and no binary values; only 18
// reports what was rolled back (see StreamAbort).
TEST_P(WireGolden, HoldsEveryKind) {
  const int major = std::stoi(GetParam().stem().string().substr(2));
  Coverage coverage;
  for (const auto& message : golden) {
    Arena arena;
    std::visit(coverage, decode(message.body, arena));
  }
  std::set<std::string> expected = {"B",          "C",          "O",          "Y",         "U",       "UK",
                                    "UO",         "DK",         "DO",         "T1",        "T2",      "Tc2",
                                    "Tcr2",       "Tr2",        "value 0",    "value 1",   "value 2", "empty text",
                                    "identity d", "identity f", "identity i", "identity n"};
  if (major >= 14) expected.insert({"M0", "M1", "value 3"});
  if (major >= 18) expected.insert("A");
  EXPECT_EQ(coverage.seen, expected);
}

INSTANTIATE_TEST_SUITE_P(captures, WireGolden,
                         testing::ValuesIn(list_captures(std::filesystem::path(PGBATON_TEST_DATA) / "wire")),
                         [](const auto& capture) { return capture.param.stem().string(); });

}  // namespace

}  // namespace pgbaton::wire::test
