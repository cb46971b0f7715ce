/// The page on builds and GPUs (topics.hpp): what compiler options do on this machine, beside the records that were made on
/// others and lie in reports/published/MACHINE/:
///   machine.json     {name, driver, toolkit, ...}: shown as it is
///   *.jsonl          records, one object a line, a table for each "what" (without one: the file's name): the answers of
///                    `fa1lab check --kernel all.BUILD --json --by-build`, `fa1lab builds --json` and any others
/// A machine without records is no error; a file that cannot be read is one, and names the file and line.
#pragma once

#include "reports/topics.hpp"

#include <filesystem>

namespace fa1::reports {

/// A record as a row of a table: what an object of it says under key.key, without its lists.
Json flat(const Json& record);

Json measure_gpu(const TopicAmount& amount);

/// [{machine, facts, laws [..], builds [..], others {what: [..]}}] of the folders in `published`, by name.
Json records_of_machines(const std::filesystem::path& published);

} // namespace fa1::reports
