// decoder_mutate GOLDEN_FOLDER SECONDS [SEED]: runs the fuzz target over damaged golden messages for a while. It needs
// no clang and is part of every test run; what it lacks is libFuzzer's feedback by coverage (CMakeLists.txt beside it
// says how to run that). The input at which it dies is printed in hex; the same seed meets it again.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>

#include "../unit/wire/golden.hpp"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer names it
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size);
#ifdef __SANITIZE_ADDRESS__
extern "C" void __sanitizer_set_death_callback(void (*callback)());
#endif

namespace {

using pgbaton::wire::test::Build;
using pgbaton::wire::test::Bytes;

const Bytes* current_input = nullptr;

void print_current_input() {
  if (current_input == nullptr) return;
  std::cerr << "input: ";
  for (const std::byte b : *current_input) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::cerr << kDigits[std::to_integer<int>(b) >> 4] << kDigits[std::to_integer<int>(b) & 15];
  }
  std::cerr << std::endl;
}

void on_abort(int) {
  print_current_input();
  std::_Exit(134);
}

// Every message bare and in a frame, and what no server was made to send.
std::vector<Bytes> load_seeds(const std::filesystem::path& folder) {
  std::vector<Bytes> seeds = {Build('k').u64(1).u64(2).u8(1).bytes(), Build('A').u32(700).u32(701).bytes()};
  for (const auto& capture : pgbaton::wire::test::list_captures(folder)) {
    for (const auto& golden : pgbaton::wire::test::load_golden(capture)) {
      seeds.push_back(golden.body);
      Bytes frame = Build('w').u64(1).u64(2).u64(3).bytes();
      frame.insert(frame.end(), golden.body.begin(), golden.body.end());
      seeds.push_back(std::move(frame));
    }
  }
  return seeds;
}

class Mutator {
 public:
  Mutator(const std::vector<Bytes>& seeds, std::uint64_t seed) : seeds_(seeds), random_(seed) {}

  Bytes next() {
    Bytes bytes = seeds_[below(seeds_.size())];
    for (std::size_t steps = 1 + below(4); steps > 0; --steps) mutate(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  // A place in the message; its head, where counts and kinds stand, more often than the middle of a long value.
  std::size_t place(const Bytes& bytes) {
    return below(below(2) == 0 ? std::min<std::size_t>(bytes.size(), 64) : bytes.size());
  }
  void put(Bytes& bytes, std::size_t at, std::uint32_t value, std::size_t size) {
    for (std::size_t i = 0; i < size && at + i < bytes.size(); ++i) {
      bytes[at + i] = static_cast<std::byte>(value >> (8 * (size - 1 - i)));
    }
  }

  void mutate(Bytes& bytes) {
    constexpr std::uint32_t kNumbers[] = {0,      1,      2,      0x7F,       0x80,       0xFF,
                                          0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    constexpr std::string_view kLetters = "nutbKONBCRYIDTMAdfiwk";
    if (bytes.empty()) return bytes.push_back(static_cast<std::byte>(below(256)));
    const std::size_t at = place(bytes);
    const auto here = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t length = 1 + below(std::min<std::size_t>(bytes.size() - at, 16));
    switch (below(9)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1U << below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(below(256));
        break;
      case 2:
        bytes[at] = static_cast<std::byte>(kLetters[below(kLetters.size())]);
        break;
      case 3:
        put(bytes, at, kNumbers[below(std::size(kNumbers))], std::size_t{1} << below(3));
        break;
      case 4:
        put(bytes, at, static_cast<std::uint32_t>(below(bytes.size() + 4)), std::size_t{2} << below(2));
        break;
      case 5:
        bytes.resize(at);
        break;
      case 6:
        bytes.erase(here, here + static_cast<std::ptrdiff_t>(length));
        break;
      case 7: {
        const Bytes piece(here, here + static_cast<std::ptrdiff_t>(length));
        bytes.insert(here, piece.begin(), piece.end());
        break;
      }
      default: {  // the head of this one, the tail of another
        const Bytes& other = seeds_[below(seeds_.size())];
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(below(other.size())), other.end());
      }
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 random_;
};

// A block of exactly the input's size, so that a sanitizer sees a read of one byte too many.
void run(const Bytes& bytes) {
  current_input = &bytes;
  const auto exact = std::make_unique<unsigned char[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
  LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  current_input = nullptr;
}

long long run_for(const std::vector<Bytes>& seeds, std::chrono::seconds time, std::uint64_t seed) {
  for (const auto& bytes : seeds) run(bytes);
  Mutator mutator(seeds, seed);
  long long runs = 0;
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < deadline) {
    for (int i = 0; i < 100; ++i, ++runs) run(mutator.next());
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::cerr << "usage: decoder_mutate GOLDEN_FOLDER SECONDS [SEED]\n";
    return 2;
  }
  signal(SIGABRT, on_abort);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(print_current_input);
#endif
  const std::uint64_t seed = argc > 3 ? std::stoull(argv[3]) : std::random_device{}();
  const auto seeds = load_seeds(argv[1]);
  std::cout << seeds.size() << " seed inputs, seed " << seed << std::endl;
  const auto runs = run_for(seeds, std::chrono::seconds(std::stol(argv[2])), seed);
  std::cout << runs << " damaged inputs\n";
  return runs > 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
