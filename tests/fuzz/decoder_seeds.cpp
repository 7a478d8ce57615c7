// decoder_seeds GOLDEN_FOLDER CORPUS_FOLDER: the fuzzer's first inputs, from what real servers sent.
#include <iostream>

#include "../unit/wire/golden.hpp"

namespace {

namespace fs = std::filesystem;
using pgbaton::wire::test::Bytes;

void write(const fs::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

int write_seeds(const fs::path& golden_folder, const fs::path& corpus) {
  fs::create_directories(corpus);
  int count = 0;
  for (const auto& capture : pgbaton::wire::test::list_captures(golden_folder)) {
    for (const auto& golden : pgbaton::wire::test::load_golden(capture)) {
      const std::string name = capture.stem().string() + "_" + std::to_string(golden.line);
      write(corpus / name, golden.body);
      Bytes frame = pgbaton::wire::test::Build('w').u64(1).u64(2).u64(3).bytes();
      frame.insert(frame.end(), golden.body.begin(), golden.body.end());
      write(corpus / (name + "_frame"), frame);
      count += 2;
    }
  }
  write(corpus / "keepalive", pgbaton::wire::test::Build('k').u64(1).u64(2).u8(1).bytes());
  write(corpus / "stream_abort", pgbaton::wire::test::Build('A').u32(700).u32(701).bytes());
  return count + 2;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: decoder_seeds GOLDEN_FOLDER CORPUS_FOLDER\n";
    return 2;
  }
  std::cout << write_seeds(argv[1], argv[2]) << " seeds in " << argv[2] << '\n';
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
