#include "reports/topics.hpp"

#include "reports/topics/bias.hpp"
#include "reports/topics/budget.hpp"
#include "reports/topics/gpu.hpp"
#include "reports/topics/growth.hpp"
#include "reports/topics/papers.hpp"
#include "reports/topics/precision.hpp"
#include "reports/topics/recorded.hpp"
#include "reports/topics/worst.hpp"

#include <array>

namespace fa1::reports {
namespace {

constexpr auto kTopics = std::to_array<Topic>({
    {"growth", "How the error grows",
     "How does the error grow with keys, head dimension, score range, tile and order, and is that "
     "what theory says?",
     measure_growth},
    {"budget", "Stage budget", "Which stage of the recurrence does the error come from?",
     measure_budget},
    {"bias", "Bias meter",
     "Does the error of a kernel lean to one side, and why do equal values drift?",
     measure_bias_meter},
    {"worst", "Worst cases",
     "How far apart lie typical error, the worst error found and the bound?", measure_worst},
    {"precision", "Lower precision", "What would fp16, bf16, TF32 and fp8 cost, and where?",
     measure_precision},
    {"gpu", "Builds and GPUs",
     "What do compiler options and a GPU change, and where do bits and laws stay the same?",
     measure_gpu},
    {"recorded", "Real heads",
     "Are the heads of a real model harder than the synthetic families, and is the bound as far "
     "away?",
     measure_recorded},
    {"papers", "Published results", "Do published numbers come out here too?", measure_papers},
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
