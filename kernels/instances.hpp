/// The instances of the kernel templates: which tiles exist, and the plain table they are reached
/// through.
///
/// Only C types cross this header: a translation unit built for another instruction set (FMA) must
/// not emit inline functions that the linker could choose for everyone.
#pragma once

#include <cstddef>
#include <utility>

namespace fa1::kernels {

template <int Br, int Bc> struct Tile {};
template <class... Tile> struct Tiles {};

/// Tile shapes per head dimension: 1x1, Br != Bc, no powers of two, wider than short problems, and
/// as large as 48 KiB of static shared memory allow, 4 D (2 Bc + Br) bytes.
template <int D> struct TilesFor {
  using type = Tiles<Tile<1, 1>, Tile<1, 4>, Tile<4, 2>, Tile<8, 4>, Tile<3, 5>, Tile<16, 16>,
                     Tile<32, 32>, Tile<8, 128>>;
};
template <> struct TilesFor<64> {
  using type = Tiles<Tile<1, 1>, Tile<1, 4>, Tile<4, 2>, Tile<8, 4>, Tile<3, 5>, Tile<16, 16>,
                     Tile<32, 32>, Tile<64, 64>>;
};
template <> struct TilesFor<128> {
  using type =
      Tiles<Tile<1, 1>, Tile<1, 4>, Tile<4, 2>, Tile<8, 4>, Tile<3, 5>, Tile<16, 16>, Tile<32, 32>>;
};
template <> struct TilesFor<256> {
  using type = Tiles<Tile<1, 1>, Tile<1, 4>, Tile<4, 2>, Tile<8, 4>, Tile<3, 5>, Tile<16, 16>>;
};

/// The other kernels of the family: three tiles, Br larger and smaller than Bc and equal to it, for
/// a few head dimensions. They are there to be compared, so shapes that fa1 has been asked in need
/// not be asked of all again.
template <int D> struct FamilyTiles { using type = Tiles<>; };
template <> struct FamilyTiles<1> { using type = Tiles<Tile<4, 2>, Tile<3, 5>, Tile<16, 16>>; };
template <> struct FamilyTiles<4> : FamilyTiles<1> {};
template <> struct FamilyTiles<8> : FamilyTiles<1> {};
template <> struct FamilyTiles<64> : FamilyTiles<1> {};

/// For a kernel whose block has kRoleThreads threads: on the CPU a run of it costs some fifty times
/// what one of fa1_deferred does.
template <int D> struct RoleTiles { using type = Tiles<>; };
template <> struct RoleTiles<4> : FamilyTiles<4> {};
template <> struct RoleTiles<64> : FamilyTiles<64> {};

/// For a kernel whose threads have tiles of Br rows in registers. The last one is for a GPU; with 128
/// threads it is what the laws of head dimension 64 wait for longest.
template <int D> struct RegisterTiles { using type = Tiles<>; };
template <> struct RegisterTiles<4> {
  using type = Tiles<Tile<32, 4>, Tile<32, 16>, Tile<64, 16>>;
};
template <> struct RegisterTiles<64> { using type = Tiles<Tile<32, 16>, Tile<128, 64>>; };

/// For a kernel that takes one key at a time.
template <int D> struct SingleKeys { using type = Tiles<>; };
template <> struct SingleKeys<1> { using type = Tiles<Tile<1, 1>, Tile<16, 1>>; };
template <> struct SingleKeys<4> : SingleKeys<1> {};
template <> struct SingleKeys<8> : SingleKeys<1> {};
template <> struct SingleKeys<64> : SingleKeys<1> {};

/// A wrong kernel needs few shapes to be caught.
using TilesOfMutants = Tiles<Tile<1, 1>, Tile<4, 2>, Tile<3, 5>, Tile<8, 4>>;
using CountedTilesOfMutants = Tiles<Tile<3, 5>>; ///< whose loads and stores are counted

/// The arguments of one launch as a kernel takes them; n_q, n_kv per batch-head, rows padded to D
/// columns.
struct DeviceArguments {
  const float* Q;
  const float* K;
  const float* V;
  float* O;
  float* l;
  float* m;
  long long n_q;
  long long n_kv;
  float scale;
  float* scratch; ///< as many floats as the plan says
};

/// How a kernel spreads over the grid, whose x counts batch-heads, and what else its launch needs.
enum class Plan {
  batch_heads, ///< nothing else
  row_blocks,  ///< y: blocks of Br query rows
  warp_roles,  ///< y as row_blocks; a block has kRoleThreads threads, whatever the launch asks for
  register_tiles, ///< y as row_blocks; a block has Br threads, whatever the launch asks for, and
  ///< register_tile_bytes of dynamic shared memory; arrays begin at multiples of 16 bytes
  scores,    ///< y as row_blocks; scratch for n_q n_kv floats per batch-head
  key_ranges ///< y: kKeyRanges ranges of keys; scratch for a state each; a second kernel merges them
};

/// Threads of a block of Plan::warp_roles.
inline constexpr unsigned kRoleThreads = 256;

/// Shared memory of a block of Plan::register_tiles: tiles of Q, K, V and P, some rows padded, and four
/// numbers a row.
constexpr unsigned register_tile_bytes(int Br, int Bc, int D) {
  return static_cast<unsigned>(4 * ((Br + Bc) * (D + 4) + Bc * D + Br * (Bc + 8)));
}

/// Into so many ranges a Plan::key_ranges cuts the keys; some are empty where there are few tiles.
inline constexpr int kKeyRanges = 3;

/// What a kernel writes besides O.
enum class Outputs {
  l_and_m,
  LSE ///< in the place of m; the launch then makes l = 1, so that m + ln l is the LSE all the same
};

/// One kernel instance. On the CPU `start` and `step` run one CUDA thread; on the GPU they launch
/// the whole grid.
struct Instance {
  const char* variant;
  const char* statement;
  int Br, Bc, D;
  Plan plan;
  Outputs outputs;
  void (*start)(const DeviceArguments&);
  void (*step)(const DeviceArguments&);
  void (*finish)(const DeviceArguments&); ///< the second kernel of Plan::key_ranges
};

struct InstanceTable {
  const Instance* rows;
  std::size_t count;
};

/// Head dimensions that are compiled; any other d is served by the next larger one.
using HeadDimensions = std::integer_sequence<int, 1, 2, 4, 8, 16, 32, 64, 128, 256>;

} // namespace fa1::kernels
