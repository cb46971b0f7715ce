#include "reports/filling.hpp"

#include "reports/plot.hpp"

#include <kainjow/mustache.hpp>

#include <stdexcept>

namespace fa1::reports {
namespace {

#include "embedded_templates.inc"

const char* text_of(Template which) {
  switch (which) {
  case Template::index_html:
    return index_html;
  case Template::report_md:
    return report_md;
  case Template::topic_html:
    return topic_html;
  case Template::judge_html:
    return judge_html;
  case Template::case_c:
    return case_c;
  case Template::case_cu:
    return case_cu;
  case Template::case_py:
    return case_py;
  case Template::trace_html:
    break;
  }
  return trace_html;
}

kainjow::mustache::data filling(const Json& json) {
  using kainjow::mustache::data;
  if (json.is_object()) {
    data object(data::type::object);
    for (const auto& [key, value] : json.items())
      object.set(key, filling(value));
    return object;
  }
  if (json.is_array()) {
    data list(data::type::list);
    for (const Json& value : json)
      list.push_back(filling(value));
    return list;
  }
  if (json.is_boolean())
    return data(json.get<bool>() ? data::type::bool_true : data::type::bool_false);
  if (json.is_null())
    return data(data::type::bool_false);
  const std::string text = json.is_string() ? json.get<std::string>() : json.dump();
  return text.empty() ? data(data::type::bool_false) : data(text);
}

} // namespace

std::string filled(Template which, const Json& view) {
  kainjow::mustache::mustache page(text_of(which));
  if (!page.is_valid())
    throw std::logic_error("template: " + page.error_message());
  if (which == Template::report_md)
    page.set_custom_escape([](const std::string& raw) {
      std::string out;
      for (const char c : raw)
        out += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
      return out;
    });
  kainjow::mustache::data all = filling(view);
  all.set("style", kainjow::mustache::data(
                       kainjow::mustache::partial([] { return std::string(style_css); })));
  all.set("colours_light", plot_colours(false));
  all.set("colours_dark", plot_colours(true));
  return page.render(all);
}

} // namespace fa1::reports
