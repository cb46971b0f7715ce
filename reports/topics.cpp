#include "reports/topics.hpp"

#include "reports/topics/growth.hpp"
#include "reports/topics/papers.hpp"
#include "reports/topics/precision.hpp"

#include <array>

namespace fa1::reports {
namespace {

constexpr std::array kTopics{Topic{"growth", "How the error grows",
                                   "How does the error grow with keys, head dimension, score "
                                   "range, tile and order, and is that what theory says?",
                                   measure_growth},
                             Topic{"precision", "Lower precision",
                                   "What would fp16, bf16, TF32 and fp8 cost, and where?",
                                   measure_precision},
                             Topic{"papers", "Published results",
                                   "Do published numbers come out here too?", measure_papers}};

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
