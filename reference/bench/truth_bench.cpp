// truth_bench [N ...]: what the truth of whole matrices costs on this GPU, d = 64, one head, against
// the floor that its FP64 rate sets; every number of the answer is also held against certify() on 32
// rows. One JSON object a line. Status: 0, or 1 where a row disagrees, 2 for a call that is wrong, 3 without a GPU.

#include "reference/bench/fp64_rate.hpp"
#include "reference/certified.hpp"
#include "reference/certified_cuda.hpp"
#include "reference/recipe.hpp"

#include <cuda_runtime_api.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

using namespace fa1::reference;
using Json = nlohmann::ordered_json;

namespace {

constexpr int kRepetitions = 5;

/// FP64 instructions for one query and key, counted in CERTIFIED.md.
double instructions(double d, double dv) { return 4.0 * d + 6.0 * dv + 80.0 + 17.0 * dv / 64.0; }

/// Largest distance of two truths over the sum of their radii.
void raise(double& largest, std::span<const Enclosed> a, std::span<const Enclosed> b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double distance = std::fabs((a[i].hi - b[i].hi) + (a[i].lo - b[i].lo));
    const double part = distance == 0.0 ? 0.0 : distance / (a[i].radius + b[i].radius);
    if (!(part <= largest))
      largest = part;
  }
}

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Json device() {
  cudaDeviceProp properties{};
  int driver = 0, runtime = 0;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess ||
      cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    throw DeviceError("cuda: the device does not describe itself");
  return {{"device", properties.name},
          {"multiprocessors", properties.multiProcessorCount},
          {"cuda_of_driver", version(driver)},
          {"cuda_of_program", version(runtime)},
          {"fp64_instructions_per_second", fp64_rate()}};
}

bool measure(std::int64_t n, const Json& chip) {
  const std::string extent = std::to_string(n);
  const std::string recipe = "n_q=" + extent + " n_kv=" + extent + " d=64 seed=7";
  const Problem problem = make_problem(parse_recipe(recipe));
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());

  std::vector<double> tiles, wall;
  DeviceTimes times;
  Truth truth;
  certify_cuda(problem, threads); // warms up
  for (int i = 0; i < kRepetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    truth = certify_cuda(problem, threads, &times);
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    tiles.push_back(times.tiles);
  }
  std::ranges::sort(tiles);
  std::ranges::sort(wall);

  const Recipe sampled = parse_recipe(recipe + " rows=32");
  const Truth cpu = certify(make_problem(sampled), threads);
  double distance = 0.0, radius = 0.0;
  std::size_t at = 0;
  for (const std::int64_t q : query_rows(sampled)) {
    const auto row = static_cast<std::size_t>(q);
    raise(distance, truth.O.row(0, q), cpu.O.row(0, static_cast<std::int64_t>(at)));
    raise(distance, {&truth.l[row], 1}, {&cpu.l[at], 1});
    raise(distance, {&truth.m[row], 1}, {&cpu.m[at], 1});
    raise(distance, {&truth.LSE[row], 1}, {&cpu.LSE[at], 1});
    ++at;
  }
  for (const Enclosed& o : truth.O.elements())
    radius = std::max(radius, o.radius);

  const auto rows = static_cast<double>(n);
  const double count = instructions(64.0, 64.0) * rows * rows;
  const double floor = count / chip["fp64_instructions_per_second"].get<double>();
  const double median = tiles[kRepetitions / 2];
  Json record = {{"recipe", recipe},
                 {"repetitions", kRepetitions},
                 {"seconds", median},
                 {"seconds_least", tiles.front()},
                 {"seconds_most", tiles.back()},
                 {"seconds_prepare", times.prepare},
                 {"seconds_wall", wall[kRepetitions / 2]},
                 {"fp64_instructions", count},
                 {"seconds_floor", floor},
                 {"part_of_floor", floor / median},
                 {"largest_radius_of_O", radius},
                 {"rows_compared", at},
                 {"largest_distance_over_radii", distance},
                 {"truth", truth.method}};
  record.update(chip);
  std::cout << record.dump() << std::endl;
  return distance <= 1.0;
}

} // namespace

int main(int count, char** words) {
  if (const std::string obstacle = certify_cuda_obstacle(); !obstacle.empty()) {
    std::cerr << "truth_bench: " << obstacle << "\n";
    return 3;
  }
  try {
    const Json chip = device();
    bool right = true;
    std::vector<std::string> extents(words + 1, words + count);
    if (extents.empty())
      extents = {"65536", "131072"};
    for (const std::string& extent : extents)
      right = measure(std::stoll(extent), chip) && right;
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "truth_bench: " << error.what() << "\n";
    return 2;
  }
}
