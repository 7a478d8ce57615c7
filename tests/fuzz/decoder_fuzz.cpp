// Any bytes, as a frame and as a message: they decode or throw Error(action bug), nothing else. What decodes is read in
// full, lies inside the input, and agrees with how the grammar measures it (see the checks below).
#include <pgbaton/base/error.hpp>
#include <pgbaton/wire/message.hpp>
#include <pgbaton/wire/replication.hpp>

#include <cstdlib>

namespace {

using namespace pgbaton;

void require(bool holds) {
  if (!holds) std::abort();
}

// Reads what a decoded message points at, and adds up how many bytes of input it accounts for.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> body)
      : first_(reinterpret_cast<const char*>(body.data())), last_(first_ + body.size()) {}

  std::size_t bytes() const { return bytes_; }

  void operator()(const wire::Begin& message) { require(bool(message.commit_lsn)), bytes_ += 20; }
  void operator()(const wire::Commit& message) { require(bool(message.end_lsn)), bytes_ += 25; }
  void operator()(const wire::Origin& message) { bytes_ += 8, string(message.name); }
  void operator()(const wire::Relation& message) {
    bytes_ += 4 + 1 + 2;
    schema(message.schema), string(message.name);
    for (const auto& column : message.columns) bytes_ += 1 + 4 + 4, string(column.name);
  }
  void operator()(const wire::Type& message) { bytes_ += 4, schema(message.schema), string(message.name); }
  void operator()(const wire::Insert& message) { bytes_ += 4, tuple(message.new_row); }
  void operator()(const wire::Update& message) {
    bytes_ += 4, tuple(message.new_row);
    if (message.old_kind != wire::OldRow::none) tuple(message.old_row);
  }
  void operator()(const wire::Delete& message) {
    require(message.old_kind != wire::OldRow::none);
    bytes_ += 4, tuple(message.old_row);
  }
  void operator()(const wire::Truncate& message) {
    require(!message.relation_oids.empty());
    bytes_ += 4 + 1 + message.relation_oids.size_bytes();
  }
  void operator()(const wire::LogicalMessage& message) {
    bytes_ += 1 + 8 + 4, string(message.prefix), view(message.content);
  }
  void operator()(const wire::StreamAbort&) { bytes_ += 8; }

 private:
  void view(std::string_view data) {
    require(data.empty() || (data.data() >= first_ && data.data() + data.size() <= last_));
    for (const char c : data) sink_ = c;
    bytes_ += data.size();
  }
  void string(std::string_view text) {
    require(text.find('\0') == std::string_view::npos);
    view(text), ++bytes_;
  }
  void schema(std::string_view text) {
    require(!text.empty());
    const bool is_spelled_out = text.data() < first_ || text.data() >= last_;  // "" on the wire
    if (is_spelled_out) {
      require(text == "pg_catalog"), ++bytes_;
    } else {
      string(text);
    }
  }
  void tuple(wire::Tuple values) {
    bytes_ += 1 + 2;
    for (const auto& value : values) {
      const bool has_data = value.kind == wire::ValueKind::text || value.kind == wire::ValueKind::binary;
      require(has_data || value.data.empty());
      bytes_ += has_data ? 5 : 1;
      view(value.data);
    }
  }

  const char *first_, *last_;
  std::size_t bytes_ = 1;  // the type
  volatile char sink_ = 0;
};

void decode_body(std::span<const std::byte> body) try {
  Arena arena;
  Reader reader(body);
  std::visit(reader, wire::decode(body, arena));
  require(reader.bytes() == body.size());
} catch (const Error& error) {
  require(error.action() == Action::bug && !error.hint().empty());
}

void decode_frame(std::span<const std::byte> bytes) try {
  const auto frame = wire::decode_frame(bytes);
  if (const auto* data = std::get_if<wire::XLogData>(&frame)) decode_body(data->body);
} catch (const Error& error) {
  require(error.action() == Action::bug && !error.hint().empty());
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  decode_body(bytes);
  decode_frame(bytes);
  return 0;
}
