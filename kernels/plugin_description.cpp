#include "kernels/plugin_description.hpp"

#include "kernels/plugin.h"
#include "kernels/plugin.hpp"
#include "reference/recipe.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace fa1::kernels {
namespace {

using Json = nlohmann::json;

class DescriptionReader {
public:
  explicit DescriptionReader(std::string_view text) : text_(text) {}

  Description read() {
    json_ = Json::parse(text_, nullptr, /*allow_exceptions=*/false);
    if (json_.is_discarded() || !json_.is_object())
      wrong("is not a JSON object", "want one like {\"name\": \"mine\", \"gives\": [\"o\"], "
                                    "\"max_d\": 128}");
    constexpr std::array kKeys{"name",  "gives", "resumes", "memory",
                               "max_d", "Br",    "Bc",      "struct_size"};
    for (const auto& item : json_.items())
      if (std::ranges::find(kKeys, item.key()) == kKeys.end())
        wrong("holds the unknown key " + in_quotes(item.key()),
              "there are name gives resumes memory max_d Br Bc struct_size");
    struct_size();

    Description d;
    d.name = name();
    const std::vector<std::string> gives = words("gives", {"o", "l", "m"}, true);
    const auto has = [&](const char* word) { return std::ranges::count(gives, word) != 0; };
    if (!has("o"))
      wrong("leaves \"o\" out of \"gives\"", "every kernel gives o");
    if (has("l") != has("m"))
      wrong("gives one of l and m", "want both or neither");
    d.gives_l_and_m = has("l");
    if (json_.contains("resumes") && !json_["resumes"].is_boolean())
      wrong("has \"resumes\": " + found("resumes"), "want true or false");
    d.resumes = json_.value("resumes", false);
    if (d.resumes && !d.gives_l_and_m)
      wrong("resumes without l and m", "they are part of what it resumes from");
    if (const auto memory = words("memory", {"host", "cuda"}, false);
        json_.contains("memory") && std::ranges::count(memory, "host") == 0)
      throw PluginLacks("fa1_describe: \"memory\" is " + found("memory") +
                        ", and this program passes host pointers; want \"host\" among them");
    d.max_d = number("max_d", reference::kMaxHeadDimension);
    d.Br = json_.contains("Br") ? number("Br", 4096) : 1;
    d.Bc = json_.contains("Bc") ? number("Bc", 4096) : 1;
    return d;
  }

private:
  [[noreturn]] static void wrong(const std::string& what, const std::string& want) {
    throw PluginError("fa1_describe " + what + "; " + want);
  }
  std::string found(const char* key) const {
    return json_.contains(key)
               ? in_quotes(json_[key].dump(-1, ' ', true, Json::error_handler_t::replace))
               : "missing";
  }

  void struct_size() const {
    if (!json_.contains("struct_size"))
      return;
    const Json& size = json_["struct_size"];
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() != sizeof(fa1_args))
      wrong("says struct_size " + found("struct_size") + " where this program passes " +
                std::to_string(sizeof(fa1_args)),
            "build the library with this program's kernels/plugin.h");
  }
  std::string name() const {
    constexpr std::size_t kLongest = 64;
    const std::string want =
        "want 1 to " + std::to_string(kLongest) + " letters, digits or _ . + -";
    if (!json_.contains("name") || !json_["name"].is_string())
      wrong("has \"name\" " + found("name"), want);
    std::string name = json_["name"];
    const auto allowed = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("_.+-").find(c) != std::string_view::npos;
    };
    if (name.empty() || name.size() > kLongest || !std::ranges::all_of(name, allowed))
      wrong("has \"name\" " + in_quotes(name), want);
    return name;
  }
  std::vector<std::string> words(const char* key, std::initializer_list<const char*> known,
                                 bool required) const {
    std::string want = "want a list of";
    for (const char* word : known)
      want += std::string(" \"") + word + "\"";
    if (!json_.contains(key) && !required)
      return {};
    if (!json_.contains(key) || !json_[key].is_array())
      wrong(std::string("has \"") + key + "\" " + found(key), want);
    std::vector<std::string> list;
    for (const Json& word : json_[key]) {
      if (!word.is_string() || std::ranges::find(known, word.get<std::string>()) == known.end())
        wrong(std::string("has \"") + key + "\" with the unknown entry " +
                  in_quotes(word.dump(-1, ' ', true, Json::error_handler_t::replace)),
              want);
      list.push_back(word);
    }
    return list;
  }
  int number(const char* key, std::int64_t most) const {
    if (!json_.contains(key) || !json_[key].is_number_integer() ||
        json_[key].get<std::int64_t>() < 1 || json_[key].get<std::int64_t>() > most)
      wrong(std::string("has \"") + key + "\" " + found(key),
            "want a whole number from 1 to " + std::to_string(most));
    return json_[key];
  }

  std::string_view text_;
  Json json_;
};

} // namespace

Description read_description(std::string_view text) { return DescriptionReader(text).read(); }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kQuoted = 80;
  std::string line(text.substr(0, kQuoted));
  for (char& letter : line)
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f')
      letter = ' ';
  const auto last = line.find_last_not_of(' ');
  line.resize(last == std::string::npos ? 0 : last + 1);
  return "\"" + line + (text.size() > kQuoted ? "...\"" : "\"");
}

} // namespace fa1::kernels
