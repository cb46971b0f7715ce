/* A whole plug-in: attention as the textbook writes it, with a running maximum.
 *
 *     cc -O2 -std=c99 -shared -fPIC -I. kernels/examples/plain_attention.c -o plain_attention.so -lm
 *     ./fa1lab check --plugin ./plain_attention.so
 */
#include "kernels/plugin.h"

#include <math.h>

const char* fa1_describe(void) {
  return "{\"name\": \"plain_attention\", \"gives\": [\"o\", \"l\", \"m\"], \"resumes\": true, "
         "\"memory\": [\"host\"], \"max_d\": 256}";
}

/* One query row over n_kv keys; o, l and m hold what is known of the keys before. */
static void one_row(const fa1_args* a, const float* q, const float* k, const float* v, float* o,
                    float* l, float* m) {
  for (int64_t j = 0; j < a->n_kv; ++j) {
    float dot = 0.0f;
    for (int64_t i = 0; i < a->d; ++i)
      dot += q[i] * k[j * a->d + i];
    const float s = dot * a->scale;
    /* Not fmaxf, which would swallow a NaN. A row without a finite score yet has nothing to rescale. */
    const float m_new = s <= *m ? *m : s;
    const float carried = *l == 0.0f ? 0.0f : expf(*m - m_new) * *l;
    const float p = expf(s - m_new);
    *l = carried + p;
    for (int64_t c = 0; c < a->dv; ++c)
      o[c] = (carried * o[c] + p * v[j * a->dv + c]) / *l;
    *m = m_new;
  }
}

int fa1_forward(const fa1_args* a) {
  if (a->struct_size < sizeof *a)
    return FA1_OTHER_SIZE;
  if (a->memory != 0)
    return FA1_UNSUPPORTED;
  for (int64_t b = 0; b < a->batch_heads; ++b)
    for (int64_t row = b * a->n_q; row < (b + 1) * a->n_q; ++row) {
      float* const o = a->o + row * a->dv;
      float l = a->resume ? a->l[row] : 0.0f;
      float m = a->resume ? a->m[row] : -INFINITY;
      for (int64_t c = 0; c < a->dv && !a->resume; ++c)
        o[c] = 0.0f;
      one_row(a, a->q + row * a->d, a->k + b * a->n_kv * a->d, a->v + b * a->n_kv * a->dv, o, &l,
              &m);
      if (a->l != NULL)
        a->l[row] = l;
      if (a->m != NULL)
        a->m[row] = m;
    }
  return FA1_DONE;
}
