// bf16 products on AMX tiles. A tile register holds 16 rows of 64 bytes.
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer/models/packed_gemm_kernels.h"

namespace trireme::models {

bool amx_permitted() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

namespace amx {
namespace {
constexpr int kLanes = 16, kTileRows = 12;
}
#include "trainer/models/packed_gemm_body.inc"
namespace {

constexpr int64_t kDepth = 32;                     // k in a tile of x
constexpr int64_t kBlockBytes = kDepth / 2 * 128;  // of a panel: 16 pairs of 32 outputs
constexpr int kPanelStride = 128;                  // bytes from pair to pair
constexpr int64_t kTileBytes = 1024, kTileFloats = 256;
constexpr int64_t kBlocksInFirstCache = 18;  // of weights, 36 kB
constexpr int64_t kMaxRows = 256;            // of x at a time

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// The compiler knows of neither the configuration's nor the tiles' bytes: what was written before is in
// memory from here on.
inline void settle(const void* memory) {
  __asm__ volatile("" ::"r"(memory) : "memory");
}

// The thread's tile configuration while we need our own; what was there comes back.
class Tiles {
 public:
  // Tiles 0-3 sums, 4-5 x, 6-7 weights; sums and x of `rows` rows.
  explicit Tiles(int rows) {
    _tile_storeconfig(&before_);
    settle(&before_);
    TileConfig config;
    for (int t = 0; t < 8; ++t) {
      config.row_bytes[t] = 64;
      config.rows[t] = static_cast<uint8_t>(t < 6 ? rows : 16);
    }
    settle(&config);
    _tile_loadconfig(&config);
  }
  ~Tiles() {
    if (before_.palette)
      _tile_loadconfig(&before_);
    else
      _tile_release();
  }

 private:
  TileConfig before_;
};

// The bias of 16 outputs from `column` on, as far as they exist.
inline __m512 bias_of(const GemmTask& task, int64_t column, __mmask16 exist) {
  if (!task.bias) return _mm512_setzero_ps();
  const __m256i bits = _mm256_maskz_loadu_epi16(exist, static_cast<const uint16_t*>(task.bias) + column);
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(exist, _mm512_maskz_cvtepu16_epi32(exist, bits), 16));
}

// Whether out is larger than a core's second cache and made of whole lines: then it is written past the
// caches, for otherwise each line would first be read.
inline bool goes_past_cache(const GemmTask& task) {
  const int64_t element = task.out_element == Element::f32 ? 4 : 2;
  return task.rows * task.columns * element > kCacheBytes &&
         (reinterpret_cast<uintptr_t>(task.out) | static_cast<uintptr_t>(task.out_stride * element)) % 64 ==
             0;
}

// Rows of two tiles of finished sums -> 32 columns of out.
inline void finish_rows(const GemmTask& task, const float* left, const float* right, int64_t row,
                        int64_t rows, int64_t column, bool past_cache) {
  const int64_t columns = task.columns - column;
  if (columns <= 0) return;
  const auto exist = static_cast<__mmask32>(columns < 32 ? (1u << columns) - 1 : ~0u);
  const auto low = static_cast<__mmask16>(exist), high = static_cast<__mmask16>(exist >> 16);
  past_cache = past_cache && exist == ~0u;
  const __m512 left_bias = bias_of(task, column, low), right_bias = bias_of(task, column + 16, high);
  for (int64_t r = 0; r < rows; ++r) {
    const __m512 a = _mm512_add_ps(_mm512_load_ps(left + r * 16), left_bias);
    const __m512 b = _mm512_add_ps(_mm512_load_ps(right + r * 16), right_bias);
    const int64_t offset = (row + r) * task.out_stride + column;
    if (task.out_element == Element::f32) {
      float* to = static_cast<float*>(task.out) + offset;
      if (past_cache) {
        _mm512_stream_ps(to, a);
        _mm512_stream_ps(to + 16, b);
      } else {
        _mm512_mask_storeu_ps(to, low, a);
        if (high) _mm512_mask_storeu_ps(to + 16, high, b);
      }
    } else {
      uint16_t* to = static_cast<uint16_t*>(task.out) + offset;
      const auto both = (__m512i)_mm512_cvtne2ps_pbh(b, a);
      if (past_cache)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to), both);
      else
        _mm512_mask_storeu_epi16(to, exist, both);
    }
  }
}

// Into the second cache; beyond the last panel it does nothing.
inline void fetch_block(const char* block) {
#pragma GCC unroll 32
  for (int64_t byte = 0; byte < kBlockBytes; byte += 64) _mm_prefetch(block + byte, _MM_HINT_T1);
}

// Up to 16 rows by two panels: the case that is bound by reading the panels, so the next two are on their
// way.
void few_rows(const GemmTask& task, const char* x, int64_t x_tile, int x_stride) {
  alignas(64) float sums[4 * kTileFloats];
  const Tiles tiles(static_cast<int>(task.rows));
  const int64_t blocks = (task.k + kDepth - 1) / kDepth;
  for (int64_t p = 0; p < task.num_panels; p += 2) {
    const char* first = static_cast<const char*>(task.panels) + p * task.panel_bytes;
    const char* second = p + 1 < task.num_panels ? first + task.panel_bytes : first;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t b = 0; b < blocks; ++b) {
      if (task.large) {
        fetch_block(first + 2 * task.panel_bytes + b * kBlockBytes);
        fetch_block(second + 2 * task.panel_bytes + b * kBlockBytes);
      }
      _tile_loadd(4, x + b * x_tile, x_stride);
      _tile_loadd(6, first + b * kBlockBytes, kPanelStride);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, first + b * kBlockBytes + 64, kPanelStride);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(6, second + b * kBlockBytes, kPanelStride);
      _tile_dpbf16ps(2, 4, 6);
      _tile_loadd(7, second + b * kBlockBytes + 64, kPanelStride);
      _tile_dpbf16ps(3, 4, 7);
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + kTileFloats, 64);
    _tile_stored(2, sums + 2 * kTileFloats, 64);
    _tile_stored(3, sums + 3 * kTileFloats, 64);
    finish_rows(task, sums, sums + kTileFloats, 0, task.rows, p * kColumns, false);
    if (second != first)
      finish_rows(task, sums + 2 * kTileFloats, sums + 3 * kTileFloats, 0, task.rows, (p + 1) * kColumns,
                  false);
  }
}

// 16 or 32 rows by a part of one panel: x as tiles of 1 kB, `second` those of rows 16 to 31 (null: none). The
// weights stay in the first cache, x passes by it. Meanwhile `lines` lines a block come from `next`.
struct Strip {
  const char *first, *second, *weights;
  int64_t blocks;
  const char* next;
  int64_t lines;
};

inline void multiply(const Strip& strip, bool fresh, float* sums) {
  if (fresh) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + kTileFloats, 64);
    _tile_loadd(2, sums + 2 * kTileFloats, 64);
    _tile_loadd(3, sums + 3 * kTileFloats, 64);
  }
  const char* next = strip.next;
  for (int64_t b = 0; b < strip.blocks; ++b) {
    for (int64_t i = 0; i < strip.lines; ++i, next += 64) _mm_prefetch(next, _MM_HINT_T1);
    _tile_loadd(6, strip.weights + b * kBlockBytes, kPanelStride);
    _tile_stream_loadd(4, strip.first + b * kTileBytes, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, strip.weights + b * kBlockBytes + 64, kPanelStride);
    _tile_dpbf16ps(1, 4, 7);
    if (!strip.second) continue;
    _tile_stream_loadd(5, strip.second + b * kTileBytes, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + kTileFloats, 64);
  _tile_stored(2, sums + 2 * kTileFloats, 64);
  _tile_stored(3, sums + 3 * kTileFloats, 64);
}

// Rows of x as tiles [rows / 16][blocks][16][32], zero beyond the last row and the last k.
void pack_rows(const GemmTask& task, int64_t row, int64_t rows, int64_t blocks, char* to) {
  const auto* from = static_cast<const uint16_t*>(task.x) + row * task.x_stride;
  for (int64_t r = 0; r < (rows + 15) / 16 * 16; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t left = r < rows ? task.k - b * kDepth : 0;
      const auto exist = static_cast<__mmask32>(left <= 0 ? 0 : left >= 32 ? ~0u : (1u << left) - 1);
      _mm512_store_si512(to + ((r / 16 * blocks + b) * 16 + r % 16) * 64,
                         _mm512_maskz_loadu_epi16(exist, from + r * task.x_stride + b * kDepth));
    }
  settle(to);
}

// Panels outermost, so that each is read from memory once for all rows that fit the cache; a panel in parts
// that fit the first cache, sums waiting in memory from part to part (which changes no bit of them).
void many_rows(const GemmTask& task) {
  const Tiles tiles(16);
  const int64_t blocks = (task.k + kDepth - 1) / kDepth;
  const int64_t parts = (blocks + kBlocksInFirstCache - 1) / kBlocksInFirstCache;
  const int64_t most = task.rows < kMaxRows ? task.rows : kMaxRows;
  const int64_t fit = kCacheBytes / (blocks * 64), chunk = ((fit < 32     ? 32
                                                             : fit < most ? fit
                                                                          : most) +
                                                            31) /
                                                           32 * 32;
  const bool past_cache = goes_past_cache(task);
  const int64_t x_bytes = chunk * blocks * 64;
  char* x = static_cast<char*>(gemm_scratch(x_bytes + chunk * kColumns * 4));
  float* all_sums = reinterpret_cast<float*>(x + x_bytes);
  for (int64_t row = 0; row < task.rows; row += chunk) {
    const int64_t rows = task.rows - row < chunk ? task.rows - row : chunk;
    pack_rows(task, row, rows, blocks, x);
    const int64_t lines = (32 * 32 + rows - 1) / rows;
    for (int64_t p = 0; p < task.num_panels; ++p) {
      const char* panel = static_cast<const char*>(task.panels) + p * task.panel_bytes;
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t begin = blocks * part / parts, count = blocks * (part + 1) / parts - begin;
        for (int64_t r = 0; r < rows; r += 32) {
          const char* first = x + (r / 16 * blocks + begin) * kTileBytes;
          const char* weights = panel + begin * kBlockBytes;
          const Strip strip{first, rows - r > 16 ? first + blocks * kTileBytes : nullptr,       weights,
                            count, weights + count * kBlockBytes + r / 32 * count * lines * 64, lines};
          float* sums = all_sums + (parts > 1 ? r * kColumns : 0);
          multiply(strip, part == 0, sums);
          if (part + 1 < parts) continue;
          finish_rows(task, sums, sums + kTileFloats, row + r, rows - r < 16 ? rows - r : 16, p * kColumns,
                      past_cache);
          if (rows - r > 16)
            finish_rows(task, sums + 2 * kTileFloats, sums + 3 * kTileFloats, row + r + 16,
                        rows - r < 32 ? rows - r - 16 : 16, p * kColumns, past_cache);
        }
      }
    }
  }
  _mm_sfence();
}

void bf16(const GemmTask& task) {
  if (task.rows > 16) return many_rows(task);
  if (task.k % kDepth == 0)
    return few_rows(task, static_cast<const char*>(task.x), 64, static_cast<int>(task.x_stride * 2));
  const int64_t blocks = (task.k + kDepth - 1) / kDepth;
  char* x = static_cast<char*>(gemm_scratch(blocks * 1024));
  pack_rows(task, 0, task.rows, blocks, x);
  few_rows(task, x, kTileBytes, 64);
}

}  // namespace
const GemmKernels kGemmKernels = {"amx", run<F32>, bf16};
}  // namespace amx
}  // namespace trireme::models
