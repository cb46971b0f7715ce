#include "kernels/on_device.h"

#include "kernels/launch.hpp"

#include <exception>
#include <string>
#include <vector>

namespace fa1::kernels {
namespace {

const std::vector<Instance>& instances() {
  static const std::vector<Instance> none;
  return cuda_builds().empty() ? none : cuda_builds().front().instances;
}

const Instance& instance_at(int index) { return instances().at(static_cast<std::size_t>(index)); }

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const Instance& instance : instances())
    ids.push_back(tile_of(instance, instance.variant));
  return ids;
}

} // namespace
} // namespace fa1::kernels

using namespace fa1::kernels;

const char* fa1_on_device_id(int index) {
  static const std::vector<std::string> ids = all_ids();
  return index >= 0 && static_cast<std::size_t>(index) < ids.size()
             ? ids[static_cast<std::size_t>(index)].c_str()
             : nullptr;
}

int fa1_on_device_columns(int index) { return instance_at(index).D; }

long long fa1_on_device_scratch(int index, long long batch_heads, long long n_q, long long n_kv) {
  const Instance& instance = instance_at(index);
  return scratch_of(instance, {batch_heads, n_q, n_kv, instance.D, instance.D});
}

const char* fa1_on_device_start(int index, long long batch_heads, long long n_q, long long n_kv,
                                float scale, const float* Q, const float* K, const float* V,
                                float* O, float* l, float* m, float* scratch) {
  static std::string said;
  try {
    const Instance& instance = instance_at(index);
    start_cuda(instance, {batch_heads, n_q, n_kv, instance.D, instance.D},
               {Q, K, V, O, l, m, n_q, n_kv, scale, scratch}, {}, false);
    return nullptr;
  } catch (const std::exception& error) {
    said = error.what();
    return said.c_str();
  }
}
