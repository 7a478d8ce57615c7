#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pgbaton::schemas {

const char* const kChooser = "\"choose Me\"";

namespace {

constexpr std::array kOddNames{
    "plain",  "\"Order\"", "\"select\"", "\"a.b\"", "\"it's\"", "\"a\"\"b\"", "\"\xc3\xa4\xe2\x82\xac\"",
    "\"%s\"", "\"x y\"",   "\"\\\\n\"",  "\"{}\""};

// Defaults that leave every older row the same value, and types of all kinds of storage.
constexpr std::array kLaterColumns{
    std::array{"int", "7"},
    std::array{"int default 5", "default"},
    std::array{"int not null default 9", "8"},
    std::array{"text default 'it''s\\'", "repeat('later', 700)"},
    std::array{"text collate \"C\"", "'c'"},
    std::array{"timestamptz default now()", "'infinity'"},
    std::array{"numeric(10,2) default 1.50", "2.5"},
    std::array{"float8 default '-0'", "'NaN'"},
    std::array{"\"Mood\" default 'o''k'", "'sad'"},
    std::array{"text[] default '{a,\"b c\",NULL}'", "'{}'"},
    std::array{"pair", "row(1, 'p', null)::pair"},
    std::array{"jsonb default '{\"a\": [1.0]}'", "null"},
    std::array{"bytea default '\\x00ff'", "'\\x'"},
    std::array{"date default 'infinity'", "'0044-03-15 BC'"},
    std::array{"public.citext default 'MiXed'", "'mIXED'"},
    std::array{"box", "box(point(0, 0), point(1, 1))"},
};

std::string odd_name(Random& random, const std::string& unique) {
  if (chance(random, 60)) return unique;
  std::string name = any_of(random, kOddNames);
  if (name.back() != '"') return name + "_" + unique;
  name.insert(name.size() - 1, "_" + unique);
  return name;
}

class Maker {
 public:
  Maker(Random& random, std::string schema, const std::vector<Table>& earlier)
      : random_(random), schema_(std::move(schema)), earlier_(earlier), number_(static_cast<int>(earlier.size())) {}

  Table make(bool grows) {
    choose_identity();
    table_.name = schema_ + "." + odd_name(random_, fmt::format("t{}", number_));
    partitioned_ = table_.keyed() && table_.identity == Identity::primary_key && chance(random_, 22);
    add_keys();
    add_columns();
    add_reference();
    if (!partitioned_)  // the order of columns is the table's own
      std::shuffle(table_.columns.begin(), table_.columns.end(), random_);
    create();
    set_identity();
    decorate();
    if (partitioned_)
      add_partitions();
    else if (chance(random_, 12))
      add_child();
    add_foreign_key();
    if (grows) stock_later_columns();
    return std::move(table_);
  }

 private:
  void choose_identity() {
    static constexpr std::array kChoices{Identity::primary_key,  Identity::primary_key, Identity::primary_key,
                                         Identity::primary_key,  Identity::primary_key, Identity::unique_index,
                                         Identity::unique_index, Identity::full,        Identity::full,
                                         Identity::deferrable,   Identity::none,        Identity::deferrable_full};
    table_.identity = any_of(random_, kChoices);
  }

  void add_keys() {
    if (table_.identity == Identity::full || table_.identity == Identity::none) return;
    const int count = chance(random_, 60) ? 1 : pick(random_, 2, 3);
    for (int i = 0; i < count; ++i) {
      const auto& type = partitioned_ && i == 0 ? integer_type() : any_key_type(random_);
      Column column{odd_name(random_, fmt::format("k{}", i)), &type, true};
      if (type.name == std::string("int") && !partitioned_ && chance(random_, 40)) {
        column.identity = true;
        column.always = chance(random_, 50);
      }
      table_.columns.push_back(column);
    }
  }

  void add_columns() {
    table_.columns.push_back({kChooser, &integer_type()});
    if (chance(random_, 30) && !partitioned_ && !table_.insert_only()) {
      table_.turn = "turn";
      table_.columns.push_back({"turn", &integer_type()});
    }
    if (chance(random_, 15) && !partitioned_ && !table_.insert_only()) {
      table_.area = "area";
      table_.columns.push_back({"area", &range_type()});
    }
    for (int i = 0, count = pick(random_, 1, 7); i < count; ++i)
      table_.columns.push_back({odd_name(random_, fmt::format("c{}", i)), &any_type(random_)});
    const bool may_generate = table_.identity != Identity::full && table_.identity != Identity::deferrable_full;
    if (may_generate && chance(random_, 25)) {
      Column column{odd_name(random_, "g"), &integer_type()};
      column.generated = true;
      table_.columns.push_back(column);
    }
  }

  // A column of the type of another table's key, or of the own one. Not where UPDATEs are not carried: CASCADE makes
  // some.
  void add_reference() {
    if (table_.insert_only() || !chance(random_, 35)) return;
    const bool own = table_.keyed() && chance(random_, 30);
    if (!own && earlier_.empty()) return;
    const auto& to = own ? table_ : any_of(random_, earlier_);
    const auto keys = to.keys();
    const bool refuses_null = !keys.empty() && keys[0]->type->name == std::string("label");
    if (!to.keyed() || keys.size() != 1 || refuses_null) return;
    Column column{odd_name(random_, "r"), keys[0]->type};
    column.reference = fmt::format("(select {} from only {} order by random() limit 1)", keys[0]->name, to.name);
    if (!to.leaves.empty() || (own && partitioned_))
      column.reference = fmt::format("(select {} from {} order by random() limit 1)", keys[0]->name, to.name);
    reference_ = fmt::format("foreign key ({}) references {} ({})", column.name, to.name, keys[0]->name);
    table_.columns.push_back(column);
  }

  void add_foreign_key() {
    static constexpr std::array kActions{"",
                                         "on delete cascade",
                                         "on delete set null on update cascade",
                                         "on delete cascade on update cascade",
                                         "deferrable initially deferred",
                                         "on update cascade deferrable"};
    if (!reference_.empty()) add("alter table {} add {} {};\n", table_.name, reference_, any_of(random_, kActions));
  }

  void stock_later_columns() {
    for (int i = 0, count = pick(random_, 1, 3); i < count; ++i) {
      const auto& kind = any_of(random_, kLaterColumns);
      table_.later.push_back({odd_name(random_, fmt::format("later{}", i)), kind[0], kind[1]});
    }
  }

  std::string describe(const Column& column) const {
    std::string text = column.name + " " + column.type->name;
    if (column.generated) text += fmt::format(" generated always as ({} * 2 + 1) stored", kChooser);
    if (column.identity) text += column.always ? " generated always as identity" : " generated by default as identity";
    if (column.key) text += " not null";
    return text;
  }

  std::string key_list() const {
    std::string text;
    for (const auto* key : table_.keys()) text += (text.empty() ? "" : ", ") + key->name;
    return text;
  }

  void create() {
    const int dropped = chance(random_, 25) ? pick(random_, 0, static_cast<int>(table_.columns.size()) - 1) : -1;
    std::string list;
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      if (static_cast<int>(i) == dropped) list += "gone text default 'gone', ";
      list += describe(table_.columns[i]) + (i + 1 < table_.columns.size() ? ", " : "");
    }
    if (table_.identity == Identity::primary_key)
      list += fmt::format(", primary key ({})", key_list());
    else if (table_.identity == Identity::deferrable || table_.identity == Identity::deferrable_full)
      list += fmt::format(", primary key ({}) deferrable initially {}", key_list(),
                          chance(random_, 50) ? "deferred" : "immediate");
    if (!table_.turn.empty())
      list += chance(random_, 50) ? ", unique (turn)" : ", unique (turn) deferrable initially deferred";
    if (!table_.area.empty())
      list += fmt::format(", exclude using gist (area with &&){}",
                          chance(random_, 50) ? "" : " deferrable initially deferred");
    table_.definition = fmt::format("create table {} ({}){};\n", table_.name, list, partition_clause());
    if (dropped >= 0) add("alter table {} drop column gone;\n", table_.name);
  }

  std::string partition_clause() {
    if (!partitioned_) return "";
    static constexpr std::array kWays{"list", "range", "hash"};
    way_ = any_of(random_, kWays);
    return fmt::format(" partition by {} ({})", way_, table_.keys().front()->name);
  }

  void set_identity() {
    if (table_.identity == Identity::unique_index) {
      add("create unique index {} on {} ({});\n", fmt::format("unique_{}", number_), table_.name, key_list());
      add("alter table {} replica identity using index unique_{};\n", table_.name, number_);
    }
    if (table_.identity == Identity::full || table_.identity == Identity::deferrable_full)
      add("alter table {} replica identity full;\n", table_.name);
  }

  void decorate() {
    static constexpr std::array kStorages{"plain", "external", "main", "extended"};
    for (const auto& column : table_.columns)
      if (column.type->name == std::string("text") && !column.key && chance(random_, 40))
        add("alter table {} alter {} set storage {};\n", table_.name, column.name,
            kStorages[static_cast<std::size_t>(pick(random_, 1, 3))]);
    if (!partitioned_ && chance(random_, 15)) add("alter table {} set (fillfactor = 40);\n", table_.name);
    if (chance(random_, 20)) add("create index on {} ({});\n", table_.name, kChooser);
    add_triggers();
  }

  // What they do on the source arrives as rows; on the target they must not do it again.
  void add_triggers() {
    if (chance(random_, 15))
      add("create trigger note after insert or update or delete on {} for each row execute function note();\n",
          table_.name);
    if (chance(random_, 15))
      add("alter table {0} add bumps int not null default 0;\n"
          "create trigger bump before insert or update on {0} for each row execute function bump();\n",
          table_.name);
  }

  // Some leaves have another order of columns, or partitions of their own.
  void add_partitions() {
    const int count = pick(random_, 2, 4);
    for (int i = 0; i < count; ++i) {
      const auto leaf = fmt::format("{}.t{}_p{}", schema_, number_, i);
      const bool nested = chance(random_, 20);
      add("create table {} partition of {} {}{};\n", leaf, table_.name, bounds(i, count),
          nested ? fmt::format(" partition by hash ({})", table_.keys().front()->name) : "");
      table_.leaves.push_back(leaf);
      for (int sub = 0; nested && sub < 2; ++sub)
        add("create table {0}_{1} partition of {0} for values with (modulus 2, remainder {1});\n", leaf, sub);
    }
  }

  std::string bounds(int i, int count) const {
    if (way_ == "hash") return fmt::format("for values with (modulus {}, remainder {})", count, i);
    if (i + 1 == count) return "default";
    const int width = 60 / count, low = i * width;
    if (way_ == "range")
      return fmt::format("for values from ({}) to ({})", i == 0 ? "minvalue" : std::to_string(low), low + width);
    std::string values;
    for (int v = low; v < low + width; ++v) values += (values.empty() ? "" : ", ") + std::to_string(v);
    return fmt::format("for values in ({})", values);
  }

  void add_child() {
    const auto child = fmt::format("{}.t{}_child", schema_, number_);
    add("create table {} () inherits ({});\n", child, table_.name);
    if (table_.keyed()) {
      add("alter table {} add primary key ({});\n", child, key_list());
      for (const auto* key : table_.keys())
        if (key->identity) add("alter table {} alter {} set default 0;\n", child, key->name);
    } else if (table_.identity == Identity::full || table_.identity == Identity::deferrable_full) {
      add("alter table {} replica identity full;\n", child);
    }
    table_.children.push_back(child);
  }

  template <typename... Arguments>
  void add(const char* format, Arguments&&... arguments) {
    table_.definition += fmt::format(fmt::runtime(format), std::forward<Arguments>(arguments)...);
  }

  Random& random_;
  const std::string schema_;
  const std::vector<Table>& earlier_;
  const int number_;
  std::string reference_;  // a foreign key without its actions
  bool partitioned_ = false;
  std::string way_;
  Table table_;
};

}  // namespace

std::vector<const Column*> Table::keys() const {
  std::vector<const Column*> list;
  for (const auto& column : columns)
    if (column.key) list.push_back(&column);
  return list;
}

std::vector<const Column*> Table::plain() const {
  std::vector<const Column*> list;
  for (const auto& column : columns)
    if (!column.key && !column.generated && column.name != turn && column.name != area) list.push_back(&column);
  return list;
}

Table make_table(Random& random, const std::string& schema, const std::vector<Table>& earlier, bool grows) {
  return Maker(random, schema, earlier).make(grows);
}

}  // namespace pgbaton::schemas
