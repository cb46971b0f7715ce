#include "reports/zoo_runs.hpp"

#include "kernels/plugin.hpp"
#include "reports/parallel.hpp"
#include "reports/terminal.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ostream>
#include <sstream>

namespace fa1::reports {
namespace {

using properties::Hunt;
using properties::Specimen;

std::string text_of(const Hunt& h) {
  return one_line(Json{{"killed", h.killed},
                       {"cases", h.cases},
                       {"held", h.held},
                       {"seconds", h.seconds},
                       {"detail", h.detail},
                       {"replay", h.replay}});
}

Hunt hunt_of(const std::string& text) {
  const Json json = Json::parse(text);
  return {json["killed"],  json["cases"],  json["held"],
          json["seconds"], json["detail"], json["replay"]};
}

/// The text of `job` from a process of its own; lost(why) where that process dies.
std::string isolated(const std::function<std::string()>& job,
                     const std::function<std::string(const std::string&)>& lost) {
  const auto quiet = [&](std::size_t) {
    // the C library's own words about a heap that a specimen has ruined
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0)
      dup2(nowhere, STDERR_FILENO);
    for (const int death : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
      std::signal(death, SIG_DFL); // a test program's handlers would report from here
    return job();
  };
  return in_processes(
             1, quiet, [&](std::size_t, const std::string& why) { return lost(why); },
             [](std::size_t) {})
      .front();
}

const auto& laws() {
  static const auto all = properties::all_invariants();
  return all;
}

std::string cell_of(const Hunt& hunt) { return hunt.killed ? "x" : hunt.held > 0 ? "." : " "; }

bool is_fault(const ZooRow& row) { return row.specimen.kernel().survives.empty(); }

struct GateCounts {
  std::ptrdiff_t caught, right_ones_rejected;
};
GateCounts counts_of(const Zoo& zoo, std::size_t gate) {
  const auto rejects = [&](const ZooRow& row) { return row.gates[gate] && is_fault(row); };
  return {std::ranges::count_if(zoo.wrong, rejects), std::ranges::count_if(zoo.right, rejects)};
}

std::string names_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view rule() { return "----------------------------------------"; }

} // namespace

int ZooRow::kills() const {
  return static_cast<int>(std::ranges::count_if(laws, [](const Hunt& h) { return h.killed; }));
}

int ZooRow::quickest() const {
  int best = -1;
  for (std::size_t law = 0; law < laws.size(); ++law)
    if (laws[law].killed &&
        (best < 0 || laws[law].cases < laws[static_cast<std::size_t>(best)].cases))
      best = static_cast<int>(law);
  return best;
}

bool ZooRow::killed_by_its_law() const {
  const auto all = properties::all_invariants();
  for (std::size_t law = 0; law < laws.size(); ++law)
    if (all[law].id == specimen.kernel().killed_by)
      return laws[law].killed;
  return false;
}

bool ZooRow::as_expected() const {
  return specimen.kernel().survives.empty() ? kills() > 0 : kills() == 0;
}

std::vector<std::string> Zoo::only_killed_by(std::size_t law) const {
  std::vector<std::string> names;
  for (const ZooRow& row : wrong)
    if (row.kills() == 1 && row.laws[law].killed)
      names.push_back(row.specimen.name());
  return names;
}

double Zoo::part_caught() const {
  int faults = 0, caught = 0;
  for (const ZooRow& row : wrong) {
    const kernels::Kernel& kernel = row.specimen.kernel();
    if (kernel.fault != "barrier" && row.shows &&
        (kernel.arithmetic.known || kernel.fault != "promise")) {
      ++faults;
      caught += row.kills() > 0;
    }
  }
  return static_cast<double>(caught) / faults;
}

bool Zoo::no_false_alarm() const {
  return std::ranges::all_of(right, [](const ZooRow& row) { return row.kills() == 0; });
}

bool Zoo::as_expected() const {
  return std::ranges::all_of(wrong, &ZooRow::as_expected) && no_false_alarm();
}

Zoo whole_zoo(std::string_view stranger) {
  Zoo zoo;
  for (Specimen& specimen : properties::specimens(kernels::all_mutants()))
    zoo.wrong.push_back({std::move(specimen), {}, {}});
  for (Specimen& specimen : properties::specimens(kernels::all_rewrites()))
    zoo.right.push_back({std::move(specimen), {}, {}});
  if (!stranger.empty())
    for (auto* list : {&zoo.wrong, &zoo.right})
      for (ZooRow& row : *list)
        for (kernels::Kernel& kernel : row.specimen.tiles)
          kernel = kernels::as_stranger(kernel, stranger == "olm");
  return zoo;
}

Zoo visit(Zoo zoo, int cases, std::uint64_t seed, Until until) {
  std::vector<ZooRow*> rows;
  for (auto* list : {&zoo.wrong, &zoo.right})
    for (ZooRow& row : *list)
      rows.push_back(&row);

  const auto gates = numerics::all_gates();
  const auto inputs = properties::gate_inputs();
  const auto of_law = [&](const Specimen& specimen, std::size_t law) {
    return isolated([&] { return text_of(properties::hunt(laws()[law], specimen, cases, seed)); },
                    [&](const std::string& why) {
                      Hunt crashed;
                      crashed.killed = true;
                      crashed.cases = 1;
                      crashed.detail = why;
                      return text_of(crashed);
                    });
  };
  const auto of_gates = [&](const Specimen& specimen) {
    return isolated(
        [&] {
          std::string seen;
          for (const bool rejects : properties::seen_by_gates(specimen, inputs))
            seen += rejects ? 'x' : '.';
          const bool shows =
              specimen.kernel().gives_l_and_m || properties::changes_O(specimen, 10 * cases, seed);
          return seen + (shows ? 'x' : '.');
        },
        [&](const std::string&) { return std::string(gates.size() + 1, 'x'); });
  };

  // A job: one law of one specimen, or several in turn; then, as one job a row, the gates.
  struct Job {
    std::size_t row, first_law, laws;
  };
  std::vector<Job> jobs;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (until == Until::first_kill && r < zoo.wrong.size())
      jobs.push_back({r, 0, laws().size()});
    else
      for (std::size_t law = 0; law < laws().size(); ++law)
        jobs.push_back({r, law, 1});
    jobs.push_back({r, laws().size(), 0});
  }
  Progress progress("the zoo", static_cast<double>(jobs.size()));
  const auto texts = in_processes(
      jobs.size(),
      [&](std::size_t i) {
        const Specimen& specimen = rows[jobs[i].row]->specimen;
        if (jobs[i].laws == 0)
          return of_gates(specimen);
        std::string lines;
        for (std::size_t law = jobs[i].first_law; law < jobs[i].first_law + jobs[i].laws; ++law) {
          const std::string line = of_law(specimen, law);
          lines += line + "\n";
          if (hunt_of(line).killed)
            break;
        }
        return lines;
      },
      [](std::size_t, const std::string& why) -> std::string { throw std::runtime_error(why); },
      [&](std::size_t) { progress.done(1.0); });

  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ZooRow& row = *rows[jobs[i].row];
    row.laws.resize(laws().size());
    if (jobs[i].laws == 0) {
      for (std::size_t gate = 0; gate < gates.size(); ++gate)
        row.gates.push_back(texts[i][gate] == 'x');
      row.shows = texts[i].back() == 'x';
      continue;
    }
    std::istringstream lines(texts[i]);
    std::size_t law = jobs[i].first_law;
    for (std::string line; std::getline(lines, line); ++law)
      row.laws[law] = hunt_of(line);
  }
  return zoo;
}

void print(std::ostream& out, const Zoo& zoo) {
  const auto gates = numerics::all_gates();
  std::string tens, ones, letters;
  for (std::size_t law = 1; law <= laws().size(); ++law) {
    tens += law % 10 == 0 ? static_cast<char>('0' + law / 10) : ' ';
    ones += static_cast<char>('0' + law % 10);
  }
  for (std::size_t gate = 0; gate < gates.size(); ++gate)
    letters += static_cast<char>('a' + gate);

  const auto print_row = [&](const ZooRow& row, std::string_view group) {
    std::string cells, seen;
    for (const Hunt& hunt : row.laws)
      cells += cell_of(hunt);
    for (const bool gate : row.gates)
      seen += gate ? 'x' : '.';
    const int quickest = row.quickest();
    std::string first = "-";
    if (quickest >= 0) {
      const Hunt& hunt = row.laws[static_cast<std::size_t>(quickest)];
      first = fmt::format("{:>4} cases {:>7.1f} ms  {}", hunt.cases, 1e3 * hunt.seconds,
                          laws()[static_cast<std::size_t>(quickest)].id);
    }
    fmt::print(out, "{:<10} {:<26} {}  {}  {:>2}  {}\n", group, row.specimen.name(), cells, seen,
               row.kills(), first);
  };

  fmt::print(out, "{:<37} {}\n{:<37} {}  {}  by  first kill\n", "", tens, "", ones, letters);
  for (const ZooRow& row : zoo.wrong)
    print_row(row, row.specimen.kernel().fault);
  fmt::print(out, "{}\n", rule());
  for (const ZooRow& row : zoo.right)
    print_row(row, "right");

  fmt::print(out, "\nx caught, . held, blank not applicable\n\nlaws\n");
  for (std::size_t law = 0; law < laws().size(); ++law) {
    const auto caught =
        std::ranges::count_if(zoo.wrong, [&](const ZooRow& row) { return row.laws[law].killed; });
    const auto alone = zoo.only_killed_by(law);
    fmt::print(out, "{:>3} {:<18} {:>3} caught{}{}\n", law + 1, laws()[law].id, caught,
               alone.empty() ? "" : ", alone: ", names_of(alone));
  }
  const auto faults = std::ranges::count_if(zoo.wrong, is_fault);
  fmt::print(out, "\ngates, on {} ordinary inputs\n", numerics::kGateRecipes.size());
  for (std::size_t gate = 0; gate < gates.size(); ++gate) {
    const auto [caught, alarms] = counts_of(zoo, gate);
    fmt::print(out, "  {} {:<16} {:>3} caught, {:>2} of {} right ones rejected: {}\n",
               letters[gate], gates[gate].id, caught, alarms, zoo.right.size(), gates[gate].says);
  }

  std::vector<std::string> idle;
  for (std::size_t law = 0; law < laws().size(); ++law)
    if (std::ranges::none_of(zoo.wrong, [&](const ZooRow& row) { return row.laws[law].killed; }))
      idle.emplace_back(laws()[law].id);
  fmt::print(out, "\nlaws that catch nothing: {}\n", idle.empty() ? "none" : names_of(idle));
  for (const ZooRow& row : zoo.wrong) {
    const kernels::Kernel& kernel = row.specimen.kernel();
    if (!kernel.survives.empty())
      fmt::print(out, "{} survivor {}: {}\n", row.kills() == 0 ? "expected" : "caught after all,",
                 row.specimen.name(), kernel.survives);
    else if (row.kills() == 0 && !row.shows)
      fmt::print(out, "not in O: {}: {}\n", row.specimen.name(), kernel.says);
    else if (row.kills() == 0 && !kernel.arithmetic.known && kernel.fault == "promise")
      fmt::print(out, "not promised by a stranger: {}: {}\n", row.specimen.name(), kernel.says);
    else if (row.kills() == 0)
      fmt::print(out, "{}: {}\n", painted("SURVIVED " + row.specimen.name(), Colour::bad),
                 kernel.says);
    else if (kernel.arithmetic.known && !row.killed_by_its_law())
      fmt::print(out, "{} was not caught by {}, which its row names\n", row.specimen.name(),
                 kernel.killed_by);
  }
  for (const ZooRow& row : zoo.right)
    for (std::size_t law = 0; law < laws().size(); ++law)
      if (row.laws[law].killed)
        fmt::print(out, "{} {}: {}\n  reproduce: {}\n",
                   painted("right and found wrong by " + std::string(laws()[law].id), Colour::bad),
                   row.specimen.name(), row.laws[law].detail, row.laws[law].replay);
  const auto killed = std::ranges::count_if(
      zoo.wrong, [&](const ZooRow& row) { return is_fault(row) && row.kills() > 0; });
  const auto innocent =
      std::ranges::count_if(zoo.right, [](const ZooRow& row) { return row.kills() == 0; });
  fmt::print(out, "{} of {} wrong kernels caught, {} of {} right ones let pass\n", killed, faults,
             innocent, zoo.right.size());
  fmt::print(
      out,
      "{:.1f} % of those that show in what the kernel gives, that it promised not to have, and "
      "that are no fault of synchronisation\n",
      100.0 * zoo.part_caught());
}

Json to_json(const Zoo& zoo, int cases, std::uint64_t seed, Times times) {
  const auto gates = numerics::all_gates();
  Json records = Json::array();
  for (const auto* list : {&zoo.wrong, &zoo.right})
    for (const ZooRow& row : *list) {
      const kernels::Kernel& kernel = row.specimen.kernel();
      Json by_law = Json::object(), by_gate = Json::object();
      for (std::size_t law = 0; law < laws().size(); ++law) {
        const Hunt& hunt = row.laws[law];
        Json& answer = by_law[std::string(laws()[law].id)];
        answer = {{"answer", hunt.killed     ? "violated"
                             : hunt.held > 0 ? "held"
                                             : "not-applicable"},
                  {"cases", hunt.cases}};
        if (times == Times::with)
          answer["seconds"] = hunt.seconds;
        answer["detail"] = hunt.detail;
        answer["reproduce"] = hunt.replay;
      }
      for (std::size_t gate = 0; gate < gates.size(); ++gate)
        by_gate[std::string(gates[gate].id)] = row.gates[gate] ? "rejected" : "accepted";
      const int quickest = row.quickest();
      records.push_back(
          {{"what", "zoo"},
           {"kernel", row.specimen.variant},
           {"wrong", kernel.mutant},
           {"fault", kernel.fault},
           {"says", kernel.says},
           {"named_law", kernel.killed_by},
           {"survives_because", kernel.survives},
           {"kills", row.kills()},
           {"quickest_law",
            quickest < 0 ? Json(nullptr) : Json(laws()[static_cast<std::size_t>(quickest)].id)},
           {"as_expected", kernel.mutant ? row.as_expected() : row.kills() == 0},
           {"cases", cases},
           {"seed", seed},
           {"laws", std::move(by_law)},
           {"gates", std::move(by_gate)}});
    }
  for (std::size_t law = 0; law < laws().size(); ++law)
    records.push_back(
        {{"what", "zoo-law"},
         {"law", laws()[law].id},
         {"caught", std::ranges::count_if(zoo.wrong,
                                          [&](const ZooRow& row) { return row.laws[law].killed; })},
         {"alone", zoo.only_killed_by(law)}});
  for (std::size_t gate = 0; gate < gates.size(); ++gate) {
    const auto [caught, rejected] = counts_of(zoo, gate);
    records.push_back({{"what", "zoo-gate"},
                       {"gate", gates[gate].id},
                       {"says", gates[gate].says},
                       {"caught", caught},
                       {"right_ones_rejected", rejected}});
  }
  return records;
}

} // namespace fa1::reports
