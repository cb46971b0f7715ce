/* The door for a kernel from outside: what a shared library has to export so that
 *     fa1lab check --plugin ./mine.so
 * can ask every law of it. Plain C, C99 and later or C++; nothing else is needed.
 *
 * Export   fa1_forward   computes O (and l, m) for one problem
 *          fa1_describe  says in JSON what the kernel gives and takes
 * Computes for every batch-head and query row, with s_j = scale * sum_i q_i k_ji over the keys j:
 *            m = max_j s_j    l = sum_j exp(s_j - m)    o = sum_j exp(s_j - m) v_j / l
 *          With resume = 1 the sums and the maximum also run over the keys of earlier calls, which o, l
 *          and m hold on entry: o is normalised, l is taken at m.
 * Shapes   row-major and contiguous, as noted at each pointer. batch_heads, n_q, d and dv are at least 1
 *          and d, dv at most max_d. n_kv may be 0: o = 0, l = 0, m = -Infinity, or, resuming, all as
 *          they were.
 * Memory   every array begins at a multiple of 64 bytes. Nothing outside an array may be read or
 *          written; q, k and v must not be written; every element of o (and of l and m where they are
 *          not NULL) must be.
 * Manners  no output on stdout; the rounding mode and the other control bits of the floating-point unit
 *          are left as they were; no flushing of subnormals to zero, so no -ffast-math.
 * Calls    come one at a time, from one process, which may end at any moment. A crash, a hang or a write
 *          to the wrong place is reported and costs that process only.
 * Version  struct_size is the caller's sizeof(fa1_args). Fields are only ever added at the end; a library
 *          that needs more of them than the caller has returns FA1_OTHER_SIZE.
 */
#ifndef FA1_PLUGIN_H
#define FA1_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa1_args { /* NOLINT(readability-identifier-naming): as C names are */
  size_t struct_size;
  int64_t batch_heads, n_q, n_kv, d, dv;
  float scale;
  /* [batch_heads][n_q][d], [batch_heads][n_kv][d], [batch_heads][n_kv][dv] */
  const float *q, *k, *v;
  float* o;       /* [batch_heads][n_q][dv] */
  float *l, *m;   /* [batch_heads][n_q]; NULL when the caller does not want them */
  int32_t resume; /* 1: o, l, m hold the carries of the keys before these */
  int32_t memory; /* 0 host pointers, 1 CUDA device pointers */
} fa1_args;

enum {
  FA1_DONE = 0,
  FA1_UNSUPPORTED = 1, /* not this shape: neither right nor wrong */
  FA1_OTHER_SIZE = 2   /* struct_size is smaller than what this library was built for */
  /* anything else: failed */
};

int fa1_forward(const fa1_args* args);

/* {"name": "mine", "gives": ["o", "l", "m"], "resumes": true, "memory": ["host"], "max_d": 256}
 *   name     letters, digits and _ . + -
 *   gives    "o", and both "l" and "m" or neither
 *   resumes  whether resume = 1 is understood; needs l and m [false]
 *   memory   where pointers may point, "host" among them [host]
 *   max_d    the largest d and dv, 1 .. 256
 *   Br, Bc   the tile, so that problems are made to end around its borders [not told]
 *   struct_size  sizeof(fa1_args) when the library was built [not told]
 */
const char* fa1_describe(void);

#ifdef __cplusplus
}
#endif

#endif
