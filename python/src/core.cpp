/// The extension module fa1lab._core: arrays of Python become those that numerics/judge.hpp reads, and what it
/// found becomes objects of Python. The package's own face, with what may be given and what is refused, is
/// fa1lab/__init__.py.
///
/// Array    somebody else's memory, through DLPack or the buffer protocol; it is kept alive and not copied
/// judge    numerics::judge_files. The interpreter is free meanwhile, and Ctrl-C is heard between two heads
/// make     the problem of a recipe, as NumPy arrays
/// Errors   ValueError and TypeError, one line; options are named as Python has them
/// Threads  may be called by several at once, as long as nobody writes to the arrays
#include "numerics/judge.hpp"
#include "reference/recipe.hpp"
#include "reports/judge_text.hpp"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cctype>
#include <cfenv>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace fa1::python {
namespace {

using numerics::Judged;
using numerics::JudgedErrors;
using numerics::JudgedOutput;
using numerics::JudgeRecord;
using reference::Dtype;

// ---------------------------------------------------------------------------------------------------
// Arrays
// ---------------------------------------------------------------------------------------------------

/// DLPack's type codes, with the formats of 8 bits that nanobind has no names for (dlpack.h 1.1).
enum class Code : std::uint8_t { i = 0, u = 1, f = 2, bf = 4, boolean = 6, e4m3fn = 10, e5m2 = 12 };

std::optional<Dtype> dtype_of(nb::dlpack::dtype type) {
  if (type.lanes != 1)
    return std::nullopt;
  switch (static_cast<Code>(type.code)) {
  case Code::f:
    return type.bits == 64   ? std::optional(Dtype::f64)
           : type.bits == 32 ? std::optional(Dtype::f32)
           : type.bits == 16 ? std::optional(Dtype::f16)
                             : std::nullopt;
  case Code::bf:
    return type.bits == 16 ? std::optional(Dtype::bf16) : std::nullopt;
  case Code::e4m3fn:
    return Dtype::f8_e4m3;
  case Code::e5m2:
    return Dtype::f8_e5m2;
  case Code::boolean:
    return type.bits == 8 ? std::optional(Dtype::boolean) : std::nullopt;
  case Code::u:
    return type.bits == 8 ? std::optional(Dtype::u8) : std::nullopt;
  case Code::i:
    return type.bits == 8    ? std::optional(Dtype::i8)
           : type.bits == 16 ? std::optional(Dtype::i16)
           : type.bits == 32 ? std::optional(Dtype::i32)
           : type.bits == 64 ? std::optional(Dtype::i64)
                             : std::nullopt;
  }
  return std::nullopt;
}

/// Formats that come as the whole numbers of their bits, because the array cannot say what they are.
std::optional<Dtype> dtype_named(std::string_view name) {
  for (const Dtype one : {Dtype::bf16, Dtype::f8_e4m3, Dtype::f8_e5m2})
    if (name_of(one) == name)
      return one;
  return std::nullopt;
}

struct Array {
  nb::ndarray<nb::ro> kept;
  reference::Array view;

  Array(const std::string& name, const nb::object& from, const std::optional<std::string>& format,
        bool big_endian) {
    const std::string type = nb::cast<std::string>(nb::str(nb::type_name(from.type())));
    if (!nb::try_cast(from, kept))
      throw nb::type_error(
          fmt::format("{}: is of type {}, whose memory cannot be read; want an array in the CPU's "
                      "memory with DLPack or the buffer protocol, such as NumPy's or PyTorch's",
                      name, type)
              .c_str());
    const std::optional<Dtype> dtype = format ? dtype_named(*format) : dtype_of(kept.dtype());
    if (!dtype || (format && kept.itemsize() != size_of(*dtype)))
      throw nb::type_error(
          fmt::format("{}: is an array of a type (DLPack code {}, {} bits) that is not read; want "
                      "float64, float32, float16, bfloat16, float8 (e4m3fn, e5m2) or, for a mask, "
                      "bool, uint8 or a signed whole number",
                      name, static_cast<unsigned>(kept.dtype().code),
                      static_cast<unsigned>(kept.dtype().bits))
              .c_str());
    view.name = name;
    view.dtype = *dtype;
    view.big_endian = big_endian;
    const auto item = static_cast<std::int64_t>(kept.itemsize());
    std::int64_t bytes = item, elements = 1;
    bool backwards = false, repeats = false;
    for (std::size_t axis = 0; axis < kept.ndim(); ++axis) {
      const auto extent = static_cast<std::int64_t>(kept.shape(axis));
      const std::int64_t stride = kept.stride(axis) * item;
      view.shape.push_back(extent);
      view.strides.push_back(stride);
      backwards = backwards || (stride < 0 && extent > 1);
      repeats = repeats || (stride == 0 && extent > 1);
      bytes += std::max<std::int64_t>(extent - 1, 0) * stride;
      elements *= extent;
    }
    // The search for a fault reads arrays with other strides than they have.
    if (elements > 0 && (backwards || (!repeats && bytes < elements * item)))
      throw nb::value_error(fmt::format("{}: {}; want a copy of it", name,
                                        backwards ? "an axis runs backwards through memory"
                                                  : "its elements overlap in memory")
                                .c_str());
    view.source = std::make_shared<reference::ViewSource>(
        name, std::span(static_cast<const std::byte*>(kept.data()),
                        elements == 0 ? 0 : static_cast<std::size_t>(bytes)));
  }
};

// ---------------------------------------------------------------------------------------------------
// Judging
// ---------------------------------------------------------------------------------------------------

/// Rounding to nearest, and subnormals kept, whatever another library has switched on in this thread.
class DefaultArithmetic {
public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

private:
  std::fenv_t before_{};
};

void stop_at_a_signal() {
  const nb::gil_scoped_acquire interpreter;
  if (PyErr_CheckSignals() != 0)
    throw nb::python_error();
}

struct Choices {
  std::optional<double> scale;
  std::optional<std::string> layout, arithmetic;
  std::int64_t rows = 0;
  bool base2_lse = false;
  unsigned threads = 1;
  std::optional<std::string> causal;
  std::optional<std::int64_t> left, right;
  std::vector<std::int64_t> key_lengths;
  bool mask_true_is_masked = false;
  double softcap = 0.0;
  bool tanh_approx = false, empty_row_is_nan = false;
};

numerics::MaskOptions mask_of(const Choices& given, const Array* mask, const Array* bias) {
  numerics::MaskOptions options;
  options.left = given.left;
  options.right = given.right;
  if (given.causal) {
    options.corner =
        *given.causal == "top-left" ? numerics::Corner::top_left : numerics::Corner::bottom_right;
    options.right = 0;
  }
  options.lengths = given.key_lengths;
  if (mask != nullptr)
    options.array = mask->view;
  options.true_is_masked = given.mask_true_is_masked;
  if (bias != nullptr)
    options.bias = bias->view;
  options.softcap = double{static_cast<float>(given.softcap)};
  options.tanh_approx = given.tanh_approx;
  options.empty_row = given.empty_row_is_nan ? numerics::EmptyRow::nan : numerics::EmptyRow::zero;
  return options;
}

JudgeRecord judge(const Array& q, const Array& k, const Array& v,
                  const std::vector<const Array*>& out, const Array* lse, const Array* mask,
                  const Array* bias, const Choices& given) {
  numerics::JudgeInput input{q.view, k.view, v.view, {}, {}};
  for (const Array* one : out)
    input.O.push_back(one->view);
  if (lse != nullptr)
    input.LSE = lse->view;
  numerics::JudgeOptions options;
  if (given.layout)
    options.layout = *given.layout == "bnhd" ? numerics::Layout::bnhd : numerics::Layout::bhnd;
  if (given.scale)
    options.scale = static_cast<float>(*given.scale);
  if (given.arithmetic)
    options.declared = numerics::find_declared(*given.arithmetic);
  options.rows = given.rows;
  options.base2_LSE = given.base2_lse;
  options.mask = mask_of(given, mask, bias);
  options.threads = given.threads;
  options.done = [](double) { stop_at_a_signal(); };
  const nb::gil_scoped_release others;
  const DefaultArithmetic arithmetic;
  return numerics::judge_files(input, options);
}

/// The output with the worst verdict, the first of equals.
const JudgedOutput& deciding(const JudgeRecord& record) {
  return *std::ranges::max_element(record.outputs, {}, &JudgedOutput::judgement);
}

std::string text_of(const JudgeRecord& record) {
  std::ostringstream text;
  reports::print(text, record, false);
  return text.str();
}

// ---------------------------------------------------------------------------------------------------
// Problems
// ---------------------------------------------------------------------------------------------------

using Numbers = nb::ndarray<nb::numpy, float, nb::ndim<3>, nb::c_contig>;

Numbers numbers_of(reference::Tensor<float> tensor) {
  auto owned = std::make_unique<reference::Tensor<float>>(std::move(tensor));
  reference::Tensor<float>* const kept = owned.get();
  const nb::capsule owner(owned.release(), [](void* gone) noexcept {
    delete static_cast<reference::Tensor<float>*>(gone);
  });
  return Numbers(kept->data(),
                 {static_cast<std::size_t>(kept->batch_heads()),
                  static_cast<std::size_t>(kept->rows()),
                  static_cast<std::size_t>(kept->columns())},
                 owner);
}

std::tuple<Numbers, Numbers, Numbers, float, std::string> make(const std::string& text) {
  reference::Recipe recipe;
  reference::Problem problem;
  {
    const nb::gil_scoped_release others;
    const DefaultArithmetic arithmetic;
    recipe = reference::parse_recipe(text);
    problem = reference::make_problem(recipe);
  }
  return {numbers_of(std::move(problem.Q)), numbers_of(std::move(problem.K)),
          numbers_of(std::move(problem.V)), problem.scale, reference::to_string(recipe)};
}

// ---------------------------------------------------------------------------------------------------
// Errors
// ---------------------------------------------------------------------------------------------------

/// The program's `--key-lengths` is key_lengths here.
std::string in_python(std::string_view text) {
  std::string said;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool option = text.substr(i, 2) == "--" && (i == 0 || text[i - 1] == ' ') &&
                        i + 2 < text.size() && std::islower(text[i + 2]) != 0;
    if (!option) {
      said += text[i];
      continue;
    }
    for (i += 2; i < text.size() && (std::isalnum(text[i]) != 0 || text[i] == '-'); ++i)
      said += text[i] == '-' ? '_' : text[i];
    --i;
  }
  return said;
}

void translate(const std::exception_ptr& error, void* /*payload*/) {
  try {
    std::rethrow_exception(error);
  } catch (const reference::FileError& refused) {
    PyErr_SetString(PyExc_ValueError, in_python(refused.what()).c_str());
  } catch (const reference::RecipeError& refused) {
    PyErr_SetString(PyExc_ValueError, refused.what());
  }
}

// ---------------------------------------------------------------------------------------------------
// The module
// ---------------------------------------------------------------------------------------------------

using PlaceTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
PlaceTuple tuple_of(const numerics::Place& at) { return {at.batch, at.head, at.row, at.column}; }

std::map<std::string_view, std::int64_t> counts_of(const JudgedOutput& output) {
  std::map<std::string_view, std::int64_t> counts;
  for (std::size_t i = 0; i < output.elements.size(); ++i)
    counts[numerics::name_of(static_cast<numerics::Judgement>(i))] = output.elements[i];
  return counts;
}

void bind_parts(nb::module_& module) {
  nb::class_<Judged>(module, "Element", "An element of an output beside what is right there.")
      .def_ro("output", &Judged::output, "'O' or 'LSE'.")
      .def_prop_ro(
          "at", [](const Judged& e) { return tuple_of(e.at); },
          "Batch, query head, row, column; batch and head are 0 where the array has no such axis.")
      .def_ro("got", &Judged::got)
      .def_prop_ro("truth", [](const Judged& e) { return e.truth.hi; })
      .def_ro("error", &Judged::error, "got - truth.")
      .def_ro("bound", &Judged::bound, "What a right kernel of this arithmetic may err by.")
      .def_ro("ulp", &Judged::ulps, "|error| in units in the last place of the output's format.")
      .def_ro("fraction", &Judged::fraction, "|error| / bound.")
      .def("__repr__", [](const Judged& e) {
        return fmt::format("<fa1lab.Element {}{}: got {:.9g}, truth {:.9g}, {:.3g} of its bound>",
                           e.output, to_string(e.at), e.got, e.truth.hi, e.fraction);
      });
  nb::class_<JudgedErrors>(module, "Errors",
                           "Of O over the judged rows; max, rms and bias in 2^-24 sum p|v|.")
      .def_ro("elements", &JudgedErrors::elements)
      .def_ro("max", &JudgedErrors::max_relative)
      .def_ro("rms", &JudgedErrors::rms_relative)
      .def_ro("bias", &JudgedErrors::mean_relative, "The mean, with its sign.")
      .def_ro("ulp", &JudgedErrors::max_ulp, "The largest, in ulp of the output's format.")
      .def_ro("fraction", &JudgedErrors::max_fraction, "The largest part of its bound.");
  nb::class_<numerics::Spread>(module, "Spread")
      .def_ro("low", &numerics::Spread::low)
      .def_ro("median", &numerics::Spread::median)
      .def_ro("high", &numerics::Spread::high);
  nb::class_<numerics::RowStatistics>(module, "RowStatistics",
                                      "Of the judged rows whose scores are finite.")
      .def_ro("rows", &numerics::RowStatistics::rows)
      .def_ro("max_score", &numerics::RowStatistics::max_score)
      .def_ro("entropy", &numerics::RowStatistics::entropy, "-sum p ln p.")
      .def_ro("condition", &numerics::RowStatistics::condition, "sum p|v| / |o|.");
  nb::class_<JudgedOutput>(module, "Output", "One output; there may be several of one problem.")
      .def_ro("name", &JudgedOutput::name)
      .def_prop_ro("verdict",
                   [](const JudgedOutput& o) { return std::string(name_of(o.judgement)); })
      .def_ro("why", &JudgedOutput::why, "Of the worst element; may be empty.")
      .def_ro("worst", &JudgedOutput::worst,
              "The element that decided, else the one closest to its bound.")
      .def_prop_ro("elements", &counts_of, "How many elements have which verdict.")
      .def_ro("errors", &JudgedOutput::errors)
      .def_ro("worst_ten", &JudgedOutput::worst_ten,
              "Elements proved wrong, the farthest from their bound first.")
      .def_ro("not_finite", &JudgedOutput::not_finite, "Where NaN and Inf come from, in words.")
      .def_ro("looks_like", &JudgedOutput::looks_like,
              "A diagnosis in words, where something is wrong.")
      .def_ro("bits_differ", &JudgedOutput::bits_differ,
              "Elements that are not those of the first output.")
      .def_prop_ro("first_difference", [](const JudgedOutput& o) {
        return o.first_difference ? std::optional(tuple_of(*o.first_difference)) : std::nullopt;
      });
}

template <class Part> auto of_deciding(Part JudgedOutput::*part) {
  return [part](const JudgeRecord& r) { return deciding(r).*part; };
}

void bind_result(nb::module_& module) {
  nb::class_<JudgeRecord>(
      module, "Result",
      "What judge() found. It prints as `fa1lab judge` does, and is true where nothing is proved "
      "wrong.\n\nOf several outputs, verdict to looks_like are those of the one with the worst "
      "verdict.")
      .def("__str__", &text_of)
      .def("__repr__",
           [](const JudgeRecord& r) {
             const JudgedOutput& o = deciding(r);
             return fmt::format("<fa1lab.Result {}: {}, {:.3g} of its bound>", o.name,
                                name_of(o.judgement), o.worst ? o.worst->fraction : 0.0);
           })
      .def("__bool__", [](const JudgeRecord& r) { return !r.wrong(); })
      .def_prop_ro(
          "verdict",
          [](const JudgeRecord& r) { return std::string(name_of(deciding(r).judgement)); },
          "'proved right', 'suspicious', 'undecided' or 'proved wrong'.")
      .def_prop_ro("wrong", &JudgeRecord::wrong, "Is an output proved wrong?")
      .def_prop_ro("why", of_deciding(&JudgedOutput::why))
      .def_prop_ro("worst", of_deciding(&JudgedOutput::worst))
      .def_prop_ro("max", [](const JudgeRecord& r) { return deciding(r).errors.max_relative; })
      .def_prop_ro("rms", [](const JudgeRecord& r) { return deciding(r).errors.rms_relative; })
      .def_prop_ro("bias", [](const JudgeRecord& r) { return deciding(r).errors.mean_relative; })
      .def_prop_ro("ulp", [](const JudgeRecord& r) { return deciding(r).errors.max_ulp; })
      .def_prop_ro("fraction", [](const JudgeRecord& r) { return deciding(r).errors.max_fraction; })
      .def_prop_ro("worst_ten", of_deciding(&JudgedOutput::worst_ten))
      .def_prop_ro("not_finite", of_deciding(&JudgedOutput::not_finite))
      .def_prop_ro("looks_like", of_deciding(&JudgedOutput::looks_like))
      .def_ro("outputs", &JudgeRecord::outputs)
      .def_ro("plain", &JudgeRecord::plain,
              "What a plain implementation in this arithmetic errs by on the same rows, emulated.")
      .def_ro("rows", &JudgeRecord::rows)
      .def_ro("assumed", &JudgeRecord::assumed, "What was read how, one sentence each.")
      .def_ro("truth", &JudgeRecord::truth, "How it was made.")
      .def_ro("batches", &JudgeRecord::batches)
      .def_ro("query_heads", &JudgeRecord::query_heads)
      .def_ro("kv_heads", &JudgeRecord::kv_heads)
      .def_ro("n_q", &JudgeRecord::n_q)
      .def_ro("n_kv", &JudgeRecord::n_kv)
      .def_ro("d", &JudgeRecord::d)
      .def_ro("dv", &JudgeRecord::dv)
      .def_ro("scale", &JudgeRecord::scale)
      .def_prop_ro("arithmetic", [](const JudgeRecord& r) { return std::string(r.declared->id); })
      .def_ro("rows_judged", &JudgeRecord::rows_judged)
      .def_ro("empty_rows", &JudgeRecord::empty_rows, "Judged rows without a permitted key.");
}

void bind_functions(nb::module_& module) {
  nb::class_<Array>(module, "Array")
      .def(nb::init<const std::string&, const nb::object&, const std::optional<std::string>&,
                    bool>(),
           nb::arg("name"), nb::arg("of"), nb::arg("format").none(), nb::arg("big_endian"));
  nb::class_<Choices>(module, "Choices")
      .def(nb::init<>())
      .def_rw("scale", &Choices::scale, nb::arg().none())
      .def_rw("layout", &Choices::layout, nb::arg().none())
      .def_rw("arithmetic", &Choices::arithmetic, nb::arg().none())
      .def_rw("rows", &Choices::rows)
      .def_rw("base2_lse", &Choices::base2_lse)
      .def_rw("threads", &Choices::threads)
      .def_rw("causal", &Choices::causal, nb::arg().none())
      .def_rw("left", &Choices::left, nb::arg().none())
      .def_rw("right", &Choices::right, nb::arg().none())
      .def_rw("key_lengths", &Choices::key_lengths)
      .def_rw("mask_true_is_masked", &Choices::mask_true_is_masked)
      .def_rw("softcap", &Choices::softcap)
      .def_rw("tanh_approx", &Choices::tanh_approx)
      .def_rw("empty_row_is_nan", &Choices::empty_row_is_nan);
  module.def("judge", &judge, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("out"),
             nb::arg("lse").none(), nb::arg("mask").none(), nb::arg("bias").none(),
             nb::arg("choices"));
  module.def("make", &make, nb::arg("recipe"));
  module.def("arithmetics", [] {
    std::vector<std::string_view> ids;
    for (const numerics::Declared& one : numerics::all_declared())
      ids.push_back(one.id);
    return ids;
  });
}

} // namespace
} // namespace fa1::python

NB_MODULE(_core, module) {
  nb::register_exception_translator(&fa1::python::translate);
  fa1::python::bind_parts(module);
  fa1::python::bind_result(module);
  fa1::python::bind_functions(module);
}
