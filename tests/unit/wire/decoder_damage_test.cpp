// Damaged messages: cut off, extended, and with every byte changed. Meant for -fsanitize=address,undefined, where a
// read past the end is fatal; each variant lives in a heap block of exactly its size.
#include <gtest/gtest.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/wire/message.hpp>

#include <memory>

#include "describe.hpp"
#include "golden.hpp"

namespace pgbaton::wire::test {

namespace {

// True when it decodes; then everything it points at is read.
bool decodes(std::span<const std::byte> body) {
  const auto exact = std::make_unique<std::byte[]>(body.size());
  std::copy(body.begin(), body.end(), exact.get());
  Arena arena;
  try {
    const Message message = decode({exact.get(), body.size()}, arena);
    Describer describe;
    EXPECT_FALSE(describe(message).empty());
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.action(), Action::bug);
    return false;
  }
}

class DamagedMessage : public testing::TestWithParam<std::filesystem::path> {
 protected:
  std::vector<Golden> golden = load_golden(GetParam());
};

// The grammar decides by bytes already read and every message ends by a count, a size, a NUL or a fixed field, so no
// prefix of a message is a message: there is no exception to make.
TEST_P(DamagedMessage, NoPrefixDecodes) {
  for (const auto& [line, section, lsn_offset, body] : golden) {
    ASSERT_TRUE(decodes(body)) << "line " << line;
    for (std::size_t size = 0; size < body.size(); ++size) {
      ASSERT_FALSE(decodes(std::span(body).first(size))) << "line " << line << ", cut to " << size << " bytes";
    }
  }
}

TEST_P(DamagedMessage, NoExtensionDecodes) {
  for (const auto& [line, section, lsn_offset, body] : golden) {
    for (const char extra : {'\0', '\1', 'n', '\xff'}) {
      Bytes longer = body;
      longer.push_back(static_cast<std::byte>(extra));
      ASSERT_FALSE(decodes(longer)) << "line " << line;
    }
  }
}

// A changed byte may well give another valid message (a letter of a name); it must never crash or read out of bounds.
TEST_P(DamagedMessage, NoChangedByteCrashes) {
  // Each bit flipped alone, the extremes, and the letters that the grammar knows.
  constexpr std::string_view kLetters = "nutbKONBCRYIDTMAdfi";
  std::size_t decoded = 0, refused = 0;
  for (auto& [line, section, lsn_offset, body] : golden) {
    // Inside the long runs of one letter nothing new happens after the first few hundred bytes.
    const std::size_t end = std::min<std::size_t>(body.size(), 400);
    for (std::size_t at = 0; at < end; ++at) {
      const std::byte original = body[at];
      const auto attempt = [&, &bytes = body](std::byte value) {
        if (value == original) return;
        bytes[at] = value;
        ++(decodes(bytes) ? decoded : refused);
      };
      for (int bit = 0; bit < 8; ++bit) attempt(original ^ static_cast<std::byte>(1 << bit));
      for (const unsigned value : {0x00U, 0x01U, 0x7FU, 0x80U, 0xFFU}) attempt(static_cast<std::byte>(value));
      for (const char letter : kLetters) attempt(static_cast<std::byte>(letter));
      body[at] = original;
    }
  }
  EXPECT_GT(decoded, 0U);
  EXPECT_GT(refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(captures, DamagedMessage,
                         testing::ValuesIn(list_captures(std::filesystem::path(PGBATON_TEST_DATA) / "wire")),
                         [](const auto& capture) { return capture.param.stem().string(); });

}  // namespace

}  // namespace pgbaton::wire::test
