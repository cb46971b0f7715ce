/// What a fuzzer, and a test with fixed inputs, does with the bytes of a hostile file.
///
/// read_all   opens the bytes as that format and reads elements of every array; a file is read or refused by a
///            FileError of one line, and nothing else may happen. Throws std::logic_error where something else does.
///            recipe: a text is refused by a RecipeError of one line, or prints as a text that makes the same recipe
///            and prints as itself; the problem of a small one is made
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace fa1::reference {

/// `format`: npy, npz, safetensors or recipe.
void read_all(std::string_view format, std::span<const std::byte> bytes);

} // namespace fa1::reference
