// Claims about the readers of other people's files: every layout gives the numbers that are in it, and every
// malformed file is refused by one line that names it. Bug H44 and H45 of the public catalogue among them.
#include "reference/files/array_file.hpp"
#include "reference/files/npy.hpp"
#include "reference/fuzz/readers.hpp"
#include "reference/tests/damaged.hpp"
#include "reference/tests/file_bytes.hpp"

#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <zip.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace fa1::reference;

namespace {

/// All elements of an array of two axes.
std::vector<double> all_of(const Array& array) {
  REQUIRE(array.shape.size() == 2);
  std::vector<double> out(static_cast<std::size_t>(array.shape[0] * array.shape[1]));
  read_block(array, array.offset, {array.shape[0], array.strides[0]},
             {array.shape[1], array.strides[1]}, out);
  return out;
}

std::string message_of(const std::string& path, const std::string& name = "") {
  try {
    all_of(open_arrays(path).array(name));
  } catch (const FileError& error) {
    return error.what();
  }
  return "read without complaint";
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string swapped(std::string bytes, std::size_t item) {
  for (std::size_t i = 0; i + item <= bytes.size(); i += item)
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                 bytes.begin() + static_cast<std::ptrdiff_t>(i + item));
  return bytes;
}

/// An archive with these members, all packed by `method`.
void write_zip(const std::string& path,
               const std::vector<std::pair<std::string, std::string>>& members,
               zip_int32_t method) {
  int code = 0;
  zip_t* zip = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  REQUIRE(zip != nullptr);
  for (const auto& [name, bytes] : members) {
    const zip_int64_t at = zip_file_add(
        zip, name.c_str(), zip_source_buffer(zip, bytes.data(), bytes.size(), 0), ZIP_FL_ENC_UTF_8);
    REQUIRE(at >= 0);
    REQUIRE(zip_set_file_compression(zip, static_cast<zip_uint64_t>(at), method, 9) == 0);
  }
  REQUIRE(zip_close(zip) == 0);
}

/// Where unpacked members go, for the length of a test.
struct ScratchFolder {
  explicit ScratchFolder(std::string where) : path(std::move(where)) {
    ::setenv("TMPDIR", path.c_str(), 1);
  }
  ~ScratchFolder() {
    if (before)
      ::setenv("TMPDIR", before->c_str(), 1);
    else
      ::unsetenv("TMPDIR");
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path;
  std::optional<std::string> before =
      std::getenv("TMPDIR") == nullptr ? std::nullopt : std::optional(std::getenv("TMPDIR"));
};

/// While it lives no file grows beyond 1 MiB.
struct SmallFiles {
  SmallFiles() {
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{rlim_t{1} << 20, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, action);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

  rlimit before{};
  void (*action)(int) = std::signal(SIGXFSZ, SIG_IGN); ///< write() then fails instead
};

constexpr std::array<float, 6> kSix{1, 2, 3, 4, 5, 6};
constexpr std::array<float, 6> kSixByColumns{1, 4, 2, 5, 3, 6};
const std::string kPlain = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

} // namespace

TEST_CASE(
    "npy: both orders of axes, both orders of bytes and versions 1, 2 and 3 give the same numbers",
    "[files][quick]") {
  const TestFolder folder;
  const bool fortran = GENERATE(false, true), big = GENERATE(false, true);
  const int version = GENERATE(1, 2, 3);
  const std::string header = std::string("{'descr': '") + (big ? '>' : '<') +
                             "f4', 'fortran_order': " + (fortran ? "True" : "False") +
                             ", 'shape': (2, 3), }          \n";
  const std::string data = floats(fortran ? kSixByColumns : kSix);

  const std::string path =
      folder.write("a.npy", npy(header, big ? swapped(data, 4) : data, version));

  CHECK(all_of(open_arrays(path).only()) == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("npy: doubles and halves keep every bit, Inf, -0 and subnormals too", "[files][quick]") {
  const TestFolder folder;
  const std::string doubles = little(0x3ff0000000000001, 8) + little(1, 8);
  const std::string halves =
      little(0x3c01, 2) + little(0x0001, 2) + little(0xfc00, 2) + little(0x8000, 2);

  const auto f8 = all_of(open_arrays(folder.write("d.npy", npy("{'descr': '<f8', 'fortran_order': "
                                                               "False, 'shape': (1, 2)}",
                                                               doubles)))
                             .only());
  const auto f2 = all_of(open_arrays(folder.write("h.npy", npy("{'descr': '<f2', 'fortran_order': "
                                                               "False, 'shape': (2, 2)}",
                                                               halves)))
                             .only());

  CHECK(f8 == std::vector<double>{0x1.0000000000001p+0, 0x1p-1074});
  CHECK(f2 == std::vector<double>{0x1.004p+0, 0x1p-24, -INFINITY, 0.0});
  CHECK(std::signbit(f2[3]));
}

TEST_CASE("npy and safetensors: truth values and whole numbers of every width, for masks",
          "[files][quick]") {
  struct Case {
    std::string npy, safetensors, data;
    std::vector<double> values;
  };
  const Case one =
      GENERATE_COPY(Case{"|b1", "BOOL", little(1, 1) + little(0, 1), {1, 0}},
                    Case{"|u1", "U8", little(255, 1) + little(7, 1), {255, 7}},
                    Case{"|i1", "I8", little(0xff, 1) + little(0x7f, 1), {-1, 127}},
                    Case{"<i2", "I16", little(0x8000, 2) + little(1, 2), {-32768, 1}},
                    Case{"<i4", "I32", little(0xfffffffe, 4) + little(70000, 4), {-2, 70000}},
                    Case{"<i8",
                         "I64",
                         little(~std::uint64_t{0}, 8) + little(std::uint64_t{1} << 40, 8),
                         {-1, 0x1p40}});
  const TestFolder folder;
  const std::string header = R"({"m":{"dtype":")" + one.safetensors +
                             R"(","shape":[1,2],"data_offsets":[0,)" +
                             std::to_string(one.data.size()) + "]}}";
  CAPTURE(one.npy);

  const Array of_npy =
      open_arrays(folder.write("m.npy", npy("{'descr': '" + one.npy +
                                                "', 'fortran_order': False, 'shape': (1, 2)}",
                                            one.data)))
          .only();
  const Array of_safetensors =
      open_arrays(folder.write("m.safetensors", safetensors(header, one.data))).only();

  CHECK(all_of(of_npy) == one.values);
  CHECK(all_of(of_safetensors) == one.values);
  CHECK_FALSE(is_floating(of_npy.dtype));
}

TEST_CASE("npy: a malformed file is refused with what was found and what would be right",
          "[files][quick]") {
  struct Case {
    std::string dictionary, complaint;
  };
  const Case one = GENERATE_COPY(
      Case{"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }", "descr '<c8'"},
      Case{"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }", "descr '|O'"},
      Case{"{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }",
           "safetensors for bfloat16"},
      Case{"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "structured types"},
      Case{"{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3), }", "True or False"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (6), }", "a tuple, (3,)"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "whole numbers from 0"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3), }", "2^63"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }",
           "2^63"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }",
           "whole numbers from 0"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", "cut short"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", "one array a file"},
      Case{"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", "twice"},
      Case{"{'descr': '<f4', 'shape': (2, 3)}", "no key 'fortran_order'"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 'y'}",
           "unknown key 'x'"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} + exit()", "text after"},
      Case{"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)", "'}'"},
      Case{"{'descr': '<f4", "closing quote"},
      Case{std::string("{'de\0cr': '<f4'}", 16), "unusual characters"}, Case{"", "'{'"});
  const TestFolder folder;
  CAPTURE(one.dictionary);

  const std::string message = message_of(folder.write("a.npy", npy(one.dictionary, floats(kSix))));

  CAPTURE(message);
  CHECK(has(message, one.complaint));
  CHECK(has(message, "a.npy: "));
  CHECK(std::ranges::none_of(message, [](char c) { return c >= 0 && c < ' '; }));
}

TEST_CASE("npy: a length, a version or a magic word that cannot be is refused", "[files][quick]") {
  const TestFolder folder;
  const std::string good = npy(kPlain, floats(kSix));
  REQUIRE(message_of(folder.write("good.npy", good)) == "read without complaint");
  const auto complaint = [&](const std::string& file) {
    return message_of(folder.write("bad.npy", file));
  };
  std::string version = good, longer = npy(kPlain, "", 2);
  version[6] = 9;
  longer[10] = 1; // 64 KiB more

  CHECK(has(complaint(version), "npy version 9.0"));
  CHECK(has(complaint(longer), "has an npy header of"));
  CHECK(has(complaint(good.substr(0, 20)), "is said to have"));
  CHECK(has(complaint(good.substr(0, 8)), "is no npy file"));
  CHECK(has(complaint(good.substr(0, good.size() - 1)), "cut short"));
}

TEST_CASE(
    "A directory, a FIFO, a missing file and an empty one are refused by name, without waiting",
    "[files][quick]") {
  const TestFolder folder;
  REQUIRE(::mkfifo(folder.path("fifo").c_str(), 0600) == 0);

  CHECK(has(message_of(folder.path("")), "is a directory; want a regular file"));
  CHECK(has(message_of(folder.path("fifo")), "is a FIFO; want a regular file"));
  CHECK(has(message_of(folder.path("none.npy")), "No such file"));
  CHECK(has(message_of(folder.write("empty", "")), "has 0 bytes"));
}

TEST_CASE("A symbolic link is followed", "[files][quick]") {
  const TestFolder folder;
  folder.write("a.npy", npy(kPlain, floats(kSix)));
  std::filesystem::create_symlink(folder.path("a.npy"), folder.path("link.npy"));

  CHECK(message_of(folder.path("link.npy")) == "read without complaint");
}

TEST_CASE("A file that shrinks after it was opened is an error, not a signal", "[files][quick]") {
  const TestFolder folder;
  const std::string path = folder.write("a.npy", npy(kPlain, floats(kSix)));
  const Array array = open_arrays(path).only();
  std::filesystem::resize_file(path, 90);

  CHECK_THROWS_WITH(all_of(array), ContainsSubstring("shrank while it was read"));
}

TEST_CASE("Elements far apart are gathered as if they were dense", "[files][quick]") {
  // 700 x 900 floats by columns: rows of the rectangle are 4 bytes apart, columns 2800.
  std::vector<std::byte> bytes(std::size_t{700} * 900 * 4);
  for (std::uint32_t i = 0; i < 700 * 900; ++i) {
    const std::string four = floats(std::array{static_cast<float>(i)});
    std::ranges::transform(four, bytes.begin() + i * 4, [](char c) { return std::byte(c); });
  }
  Array array;
  array.shape = {700, 900};
  array.strides = dense_strides(array.shape, 4, true);
  array.source = std::make_shared<MemorySource>("memory", std::move(bytes));
  std::vector<double> row(900), two(4), tall(6);

  read_block(array, 4 * 5, {1, 4}, {900, 2800}, row);
  read_block(array, 4 * 7, {2, 4}, {2, 2800 * 800}, two);
  read_block(array, 4 * 7, {3, 2800 * 300}, {2, 4}, tall);

  for (std::size_t c = 0; c < 900; ++c)
    REQUIRE(row[c] == static_cast<double>(5 + 700 * c));
  CHECK(two == std::vector<double>{7, 560007, 8, 560008});
  CHECK(tall == std::vector<double>{7, 8, 210007, 210008, 420007, 420008});
}

TEST_CASE("npz: stored and deflated members are read, and names are labels whatever path they hold",
          "[files][quick]") {
  const TestFolder folder;
  const zip_int32_t method = GENERATE(ZIP_CM_STORE, ZIP_CM_DEFLATE);
  write_zip(folder.path("a.npz"),
            {{"q.npy", npy(kPlain, floats(kSix))}, {"../../k.npy", npy(kPlain, floats(kSix))}},
            method);

  const ArrayFile file = open_arrays(folder.path("a.npz"));

  CHECK(file.format == "npz");
  CHECK(file.names == std::vector<std::string>{"q", "../../k"});
  CHECK(all_of(file.array("q")) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(all_of(file.array("../../k")) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(has(message_of(folder.path("a.npz"), "v"), "has no member 'v'; want one of q"));
}

TEST_CASE("npz: a member too long for memory is read from a file that leaves nothing behind",
          "[files][quick]") {
  const TestFolder folder;
  const ScratchFolder scratch(folder.path("scratch"));
  constexpr std::int64_t kColumns = 5'000'000; // 20 MB
  std::vector<float> values(static_cast<std::size_t>(kColumns));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 1000);
  write_zip(folder.path("a.npz"),
            {{"q.npy",
              npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5000000), }\n",
                  {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)})}},
            ZIP_CM_DEFLATE);

  const std::string without_folder = message_of(folder.path("a.npz"), "q");
  std::filesystem::create_directory(scratch.path);
  const Array q = open_arrays(folder.path("a.npz")).array("q");

  CHECK(has(without_folder, "q: no file can be made in " + scratch.path));
  CHECK(has(without_folder, "set TMPDIR"));
  CHECK(std::filesystem::is_empty(scratch.path));
  CHECK(all_of(q) == std::vector<double>(values.begin(), values.end()));
  std::byte beyond{};
  CHECK_THROWS_AS(q.source->read(q.source->size(), {&beyond, 1}), FileError);
}

TEST_CASE("what a full disk does not take is said", "[files][quick]") {
  const TestFolder folder;
  const ScratchFolder scratch(folder.path(""));
  const SmallFiles limit;
  ScratchSource source("a.npz: q");
  const std::vector<std::byte> bytes(ScratchSource::kInMemory);
  source.append(bytes);

  CHECK_THROWS_WITH(source.append(bytes),
                    StartsWith("a.npz: q: " + folder.path("")) &&
                        ContainsSubstring("does not take its bytes: File too"));
}

TEST_CASE("npz: a bomb, a damaged member and a cut archive are refused", "[files][quick]") {
  const TestFolder folder;
  const std::string bomb(std::size_t{8} << 20, '\0');
  write_zip(folder.path("bomb.npz"), {{"q.npy", npy(kPlain, floats(kSix) + bomb)}}, ZIP_CM_DEFLATE);
  write_zip(folder.path("good.npz"), {{"q.npy", npy(kPlain, floats(kSix))}}, ZIP_CM_STORE);
  std::string damaged = read_file(folder.path("good.npz"));
  const std::size_t at = damaged.find(floats(kSix));
  REQUIRE(at != std::string::npos);
  damaged[at] ^= 1;
  REQUIRE(message_of(folder.path("good.npz"), "q") == "read without complaint");

  CHECK(has(message_of(folder.path("bomb.npz"), "q"), "shape [2, 3] of f32 wants"));
  CHECK(has(message_of(folder.write("damaged.npz", damaged), "q"), "CRC error"));
  CHECK(has(message_of(folder.write("cut.npz", damaged.substr(0, damaged.size() / 2)), "q"),
            "is no npz file"));
}

TEST_CASE("npz: a claimed size that deflate cannot reach is refused before memory is taken",
          "[files][quick]") {
  const TestFolder folder;
  const std::string claim =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 10000), }\n", floats(kSix));
  write_zip(folder.path("a.npz"), {{"q.npy", claim}}, ZIP_CM_DEFLATE);
  std::string file = read_file(folder.path("a.npz"));
  // The size in the central directory, 24 bytes after its signature, and in the local header, 22 bytes after its.
  for (const auto& [mark, behind] : {std::pair{"PK\x01\x02", 24}, std::pair{"PK\x03\x04", 22}}) {
    const std::size_t at = file.find(mark, 0, 4);
    REQUIRE(at != std::string::npos);
    file.replace(at + static_cast<std::size_t>(behind), 4, little(0xf0000000, 4));
  }

  CHECK(has(message_of(folder.write("b.npz", file), "q"), "want at most 1032 for one"));
}

TEST_CASE("safetensors: all floating types are read, and data that begin at an odd byte",
          "[files][quick]") {
  const TestFolder folder;
  const std::string header =
      R"({"__metadata__":{"made":"by hand"},"a":{"dtype":"F8_E4M3","shape":[1,1],"data_offsets":[0,1]},)"
      R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[1,9]},"c":{"dtype":"F64","shape":[1,1],"data_offsets":[9,17]},)"
      R"("d":{"dtype":"BF16","shape":[1,1],"data_offsets":[17,19]},"e":{"dtype":"F16","shape":[1,1],"data_offsets":[19,21]},)"
      R"("f":{"dtype":"F8_E5M2","shape":[1,1],"data_offsets":[21,22]},"g":{"dtype":"U64","shape":[0],"data_offsets":[22,22]}})";
  const std::string data = little(0x7e, 1) + floats(std::array{1.5f, -0x1p-149f}) +
                           little(0x4009000000000000, 8) + little(0x3fc0, 2) + little(0x7bff, 2) +
                           little(0x7b, 1);

  const ArrayFile file = open_arrays(folder.write("case.safetensors", safetensors(header, data)));

  CHECK(file.names == std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g"});
  CHECK(all_of(file.array("a")) == std::vector<double>{448});
  CHECK(all_of(file.array("b")) == std::vector<double>{1.5, -0x1p-149});
  CHECK(all_of(file.array("c")) == std::vector<double>{3.125});
  CHECK(all_of(file.array("d")) == std::vector<double>{1.5});
  CHECK(all_of(file.array("e")) == std::vector<double>{65504});
  CHECK(all_of(file.array("f")) == std::vector<double>{57344});
  CHECK(has(message_of(folder.path("case.safetensors"), "g"), "is of type U64"));
}

TEST_CASE("safetensors: a hostile header is refused with the tensor's name", "[files][quick]") {
  struct Case {
    std::string header, complaint;
  };
  const auto tensor = [](const std::string& shape, const std::string& offsets,
                         const std::string& type = "F32") {
    return R"({"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string deep(100000, '[');
  const Case one = GENERATE_COPY(
      Case{R"({"q":)" + tensor("[2,2]", "[0,4]") + "}", "shape [2, 2] of F32 wants 16"},
      Case{R"({"q":)" + tensor("[1000,1000]", "[0,4]") + "}", "hold 4 bytes"},
      Case{R"({"q":)" + tensor("[4294967296,4294967296]", "[0,8]") + "}", "2^63"},
      Case{R"({"q":)" + tensor("[18446744073709551615]", "[0,8]") + "}", "less than 2^63"},
      Case{R"({"q":)" + tensor("[2]", "[8,0]") + "}", "reversed"},
      Case{R"({"q":)" + tensor("[4]", "[0,16]") + "}", "leave the file"},
      Case{R"({"q":)" + tensor("[1]", "[0,4]") + R"(,"k":)" + tensor("[2]", "[0,8]") + "}",
           "overlap"},
      Case{R"({"q":)" + tensor("[1]", "[4,8]") + "}", "gap"},
      Case{R"({"q":)" + tensor("[1]", "[0,4]") + "}", "its tensors want 4"},
      Case{R"({"q":)" + tensor("[2]", "[0,8]") + R"(,"q":)" + tensor("[2]", "[0,8]") + "}",
           "'q' twice"},
      Case{R"({"q":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           "'dtype' twice"},
      Case{R"({"q":)" + tensor("[2]", "[0,8]", "F4_E2M1X") + "}", "type F4_E2M1X"},
      Case{R"({"q":)" + tensor("[-2]", "[0,8]") + "}", "holds -2"},
      Case{R"({"q":)" + tensor("[2.0]", "[0,8]") + "}", "holds 2.0"},
      Case{R"({"q":)" + tensor("[2]", "[0,8,8]") + "}", "no data_offsets"},
      Case{R"({"q":{"shape":[2],"data_offsets":[0,8]}})", "no dtype"},
      Case{R"({"q":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", "unknown key 'x'"},
      Case{R"({"q\u0000":)" + tensor("[2]", "[0,8]") + "}", "NUL"},
      Case{R"({"__metadata__":{"a":1}})", "is no text"}, Case{"[]", "no JSON object"},
      Case{deep, "nested deeper"}, Case{R"({"q":)" + deep, "nested deeper"},
      Case{"{\"q\":\n\xff", "no JSON"}, Case{"", "no JSON"});
  const TestFolder folder;
  CAPTURE(one.header.substr(0, 200));

  const std::string message =
      message_of(folder.write("a.safetensors", safetensors(one.header, std::string(8, '\0'))), "q");

  CAPTURE(message);
  CHECK(has(message, one.complaint));
  CHECK(std::ranges::none_of(message, [](char c) { return c >= 0 && c < ' '; }));
}

TEST_CASE("safetensors: a header's length beyond the file, or beyond reason, is refused",
          "[files][quick]") {
  const TestFolder folder;

  CHECK(has(message_of(folder.write("a", little(~std::uint64_t{0}, 8) + "{}")), "is said to have"));
  CHECK(has(message_of(folder.write("b", little(3, 8) + "{}")), "is said to have 3 bytes"));
  CHECK(has(message_of(folder.write("c", "1234")), "has 4 bytes"));
}

TEST_CASE("The fuzzers' seeds, each cut anywhere and with any byte changed, are read or refused by "
          "one line",
          "[files][quick]") {
  int seeds = 0;
  for (const char* const format : {"npy", "npz", "safetensors", "recipe"})
    seeds += read_damaged_seeds(std::filesystem::path(FA1_FUZZ_CORPUS) / format,
                                [&](auto bytes) { read_all(format, bytes); });
  CHECK(seeds >= 26);
}
