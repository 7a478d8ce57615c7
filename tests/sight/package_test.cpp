// The Debian package: built by cpack, installed and removed by the real dpkg, used in between as a person would: the
// manual page, and completions in real interactive shells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <pgbaton/app/options.hpp>

#include <filesystem>
#include <sstream>
#include <thread>

#include "shell.hpp"

namespace pgbaton::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class PackageTest : public ::testing::Test {
 protected:
  static fs::path build_package() {
    const std::string folder = make_run_directory("package");
    output_of({"cpack", "-G", "DEB", "--config", PGBATON_TEST_BUILD "/CPackConfig.cmake", "-B", folder});
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".deb") return entry.path();
    throw std::runtime_error("cpack made no package");
  }
  // Somebody else may hold dpkg's lock for a moment.
  static void dpkg(const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"dpkg"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    for (int tries = 0;; ++tries) try {
        output_of(all);
        return;
      } catch (const std::runtime_error& error) {
        if (std::string(error.what()).find("lock") == std::string::npos || tries == 60) throw;
        std::this_thread::sleep_for(Milliseconds(1000));
      }
  }
  // Nothing of it stays, whatever happens in between.
  struct Installed {
    explicit Installed(const fs::path& package) { dpkg({"-i", package}); }
    ~Installed() {
      try {
        dpkg({"-P", "pgbaton"});
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  };
};

// What an unpacked package holds, wherever it is. `man` gets the page as a file.
void expect_complete(const fs::path& root) {
  for (const auto* file :
       {"usr/bin/pgbaton", "usr/share/man/man1/pgbaton.1.gz", "usr/share/doc/pgbaton/README.md",
        "usr/share/doc/pgbaton/pgbaton.example.yaml", "usr/share/doc/pgbaton/crontab.example",
        "usr/share/doc/pgbaton/monitoring/grafana.json", "usr/share/doc/pgbaton/monitoring/alerts.yaml",
        "usr/lib/systemd/system/pgbaton-rebuild@.timer", "usr/share/bash-completion/completions/pgbaton",
        "usr/share/zsh/vendor-completions/_pgbaton", "usr/share/fish/vendor_completions.d/pgbaton.fish"})
    EXPECT_TRUE(fs::exists(root / file)) << file;
  EXPECT_THAT(read_file(root / "usr/lib/systemd/system/pgbaton-rebuild@.service"),
              HasSubstr("ExecStart=/usr/bin/pgbaton rebuild"));
  EXPECT_THAT(output_of({root / "usr/bin/pgbaton", "--version"}), HasSubstr("pgbaton " PGBATON_VERSION));
  const std::string page = root / "usr/share/man/man1/pgbaton.1.gz";
  for (const auto* file :
       {"usr/lib/systemd/system/pgbaton-rebuild@.service", "usr/share/doc/pgbaton/crontab.example"}) {
    EXPECT_THAT(read_file(root / file), HasSubstr("/usr/bin/pgbaton rebuild")) << file;
    EXPECT_THAT(read_file(root / file), Not(HasSubstr("/usr/local"))) << file;
  }
  std::string text;
  for (const auto* width : {"60", "80", "200"}) {
    text = output_of({"man", "--warnings", "-E", "ascii", "-l", page}, {{"MANWIDTH", width}});
    for (const auto& line : lines_of(text))
      EXPECT_TRUE(line.find("troff:") == line.npos && line.find("<standard input>") == line.npos) << line;
  }
  const auto says = [&](std::string_view part) { return text.find(part) != text.npos; };
  for (const auto* part : {"NAME", "SYNOPSIS", "COMMANDS", "OPTIONS", "EXIT STATUS"}) EXPECT_TRUE(says(part)) << part;
  for (const auto& spec : app::option_table()) EXPECT_TRUE(says("--" + std::string(spec.name))) << spec.name;
}

void expect_bash_completes() {
  Shell shell({"bash", "--norc", "--noprofile", "-i"});
  shell.type("PS1='$ '; . /usr/share/bash-completion/bash_completion; echo loa''ded\n");
  ASSERT_THAT(shell.wait_for("loaded"), HasSubstr("loaded"));
  shell.type(
      "pgbaton cl\t--fol\t--unti\tc\t--name seq\t\x01"
      "echo <\x05>\n");
  EXPECT_THAT(shell.wait_for("seq>"), HasSubstr("echo <pgbaton clone --follow --until caught-up --name seq>"));
  shell.type(
      "pgbaton --name=x clone --until=c\t\x01"
      "echo <\x05>\n");
  EXPECT_THAT(shell.wait_for("caught-up >"), HasSubstr("--until=caught-up >"));
  shell.type(
      "pgbaton switchover --mode u\t--ht\t9187\x01"
      "echo <\x05>\n");
  EXPECT_THAT(shell.wait_for("9187>"), HasSubstr("switchover --mode undo --http 9187>"));
  shell.type("pgbaton verify --re\t\t");
  EXPECT_THAT(shell.wait_for("--repair"), AllOf(HasSubstr("--reader"), HasSubstr("--ready-lag"), HasSubstr("--repair"),
                                                Not(HasSubstr("--restart"))));
}

void expect_zsh_completes() {
  Shell shell({"zsh", "-f", "-i"});
  shell.type("unsetopt zle_bracketed_paste; PS1='$ '; autoload -Uz compinit; compinit -u -D; echo loa''ded\n");
  ASSERT_THAT(shell.wait_for("loaded\r\n"), HasSubstr("loaded"));
  shell.type(
      "pgbaton cl\t--fol\t--unti\tc\t\x01"
      "echo '\x05'\n");
  EXPECT_THAT(shell.wait_for("\r\npgbaton clone --follow --until caught-up"),
              HasSubstr("\r\npgbaton clone --follow --until caught-up"));
}

void expect_fish_completes() {
  const auto complete = [](const std::string& line) { return output_of({"fish", "-c", "complete -C '" + line + "'"}); };
  EXPECT_THAT(complete("pgbaton cl"), HasSubstr("clone\tslot, schema"));
  EXPECT_THAT(complete("pgbaton clone --guard "), AllOf(HasSubstr("column"), HasSubstr("ledger"), HasSubstr("none")));
  EXPECT_THAT(complete("pgbaton verify --re"), AllOf(HasSubstr("--repair"), Not(HasSubstr("--restart"))));
}

TEST_F(PackageTest, IsInstalledUsedAndRemoved) {
  const auto package = build_package();
  const auto depends = output_of({"dpkg-deb", "-f", package, "Depends"});
  for (const auto* library : {"libc6", "libpq5", "libpqxx", "libstdc++6", "libyaml-cpp", "libfmt"})
    EXPECT_THAT(depends, HasSubstr(library));
  EXPECT_THAT(depends, Not(HasSubstr("-dev")));
  EXPECT_THAT(output_of({"dpkg-deb", "-f", package, "Recommends"}), HasSubstr("postgresql-client"));
  const std::string unpacked = make_run_directory("unpacked");
  output_of({"dpkg", "-x", package, unpacked});
  expect_complete(unpacked);
  // A pgbaton that somebody uses on this machine is left alone.
  if (geteuid() != 0 || fs::exists("/usr/bin/pgbaton")) return;

  const Installed installed(package);
  const auto files = lines_of(output_of({"dpkg", "-L", "pgbaton"}));
  EXPECT_GE(files.size(), 10u);
  EXPECT_THAT(output_of({"pgbaton", "help", "clone"}), HasSubstr("pgbaton clone"));
  if (fs::exists("/usr/share/man/man1/pgbaton.1.gz")) {  // some images of Debian leave manual pages out
    EXPECT_NE(output_of({"man", "-E", "ascii", "pgbaton"}, {{"MANWIDTH", "80"}}).find("EXIT STATUS"),
              std::string::npos);
  }
  expect_bash_completes();
  expect_zsh_completes();
  expect_fish_completes();
  dpkg({"-r", "pgbaton"});
  std::vector<std::string> left;
  for (const auto& file : files)
    if (!fs::is_directory(file) && fs::exists(file)) left.push_back(file);
  EXPECT_THAT(left, IsEmpty());
  EXPECT_FALSE(fs::exists("/usr/share/doc/pgbaton"));
}

}  // namespace
}  // namespace pgbaton::testing
