#include "reports/topics.hpp"

#include "reports/topics/bias.hpp"
#include "reports/topics/budget.hpp"

#include <array>

namespace fa1::reports {
namespace {

constexpr auto kTopics = std::to_array<Topic>({
    {"budget", "Stage budget", "Which stage of the recurrence does the error come from?",
     measure_budget},
    {"bias", "Bias meter",
     "Does the error of a kernel lean to one side, and why do equal values drift?",
     measure_bias_meter},
});

} // namespace

std::span<const Topic> all_topics() { return kTopics; }

Json measure_topics(const TopicAmount& amount) {
  Json pages = Json::array();
  for (const Topic& topic : all_topics()) {
    Json page{{"id", topic.id}, {"title", topic.title}, {"question", topic.question}};
    page.update(topic.measure(amount));
    pages.push_back(std::move(page));
  }
  return pages;
}

} // namespace fa1::reports
