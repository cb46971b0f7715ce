/* Plug-ins that misbehave, one for each -DFAULT_<name> of kernels/CMakeLists.txt. Apart from the fault
 * each is the plug-in of kernels/examples/plain_attention.c. */
#define _GNU_SOURCE
#define fa1_forward right_forward
#define fa1_describe right_describe
#include "kernels/examples/plain_attention.c"
#undef fa1_forward
#undef fa1_describe

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

int fa1_forward(const fa1_args* args);
const char* fa1_describe(void);

#ifdef FAULT_missing_library
int fa1_absent(void);
#endif

/* ---- what it says of itself ---- */

#define NAME "\"name\": \"bad\", "
#define GIVES "\"gives\": [\"o\", \"l\", \"m\"], "
#define MAX_D "\"max_d\": 64"

#ifndef FAULT_no_describe
const char* fa1_describe(void) {
#if defined(FAULT_garbage)
  return "name: bad, gives: o";
#elif defined(FAULT_null_description)
  return NULL;
#elif defined(FAULT_a_list)
  return "[1, 2]";
#elif defined(FAULT_no_name)
  return "{" GIVES MAX_D "}";
#elif defined(FAULT_odd_name)
  return "{\"name\": \"bad; rm\", " GIVES MAX_D "}";
#elif defined(FAULT_gives_lse)
  return "{" NAME "\"gives\": [\"o\", \"lse\"], " MAX_D "}";
#elif defined(FAULT_gives_l_alone)
  return "{" NAME "\"gives\": [\"o\", \"l\"], " MAX_D "}";
#elif defined(FAULT_gives_no_o)
  return "{" NAME "\"gives\": [\"l\", \"m\"], " MAX_D "}";
#elif defined(FAULT_no_max_d)
  return "{\"name\": \"bad\", \"gives\": [\"o\"]}";
#elif defined(FAULT_large_max_d)
  return "{" NAME GIVES "\"max_d\": 257}";
#elif defined(FAULT_resumes_maybe)
  return "{" NAME GIVES "\"resumes\": \"maybe\", " MAX_D "}";
#elif defined(FAULT_resumes_blind)
  return "{" NAME "\"gives\": [\"o\"], \"resumes\": true, " MAX_D "}";
#elif defined(FAULT_misspelt)
  return "{" NAME GIVES "\"resume\": true, " MAX_D "}";
#elif defined(FAULT_cuda_only)
  return "{" NAME GIVES "\"memory\": [\"cuda\"], " MAX_D "}";
#elif defined(FAULT_other_size)
  return "{" NAME GIVES "\"struct_size\": 96, " MAX_D "}";
#elif defined(FAULT_crash_on_describe)
  abort();
#elif defined(FAULT_output_only) || defined(FAULT_output_only_mean)
  return "{" NAME "\"gives\": [\"o\"], " MAX_D "}";
#else
  return "{" NAME GIVES "\"resumes\": true, " MAX_D "}";
#endif
}
#endif

/* ---- what it does while it is loaded ---- */

__attribute__((constructor)) static void on_load(void) {
#if defined(FAULT_prints_on_load)
  printf("hello from the plug-in\n");
#elif defined(FAULT_hang_on_load)
  for (;;)
    pause();
#elif defined(FAULT_missing_library)
  fa1_absent();
#endif
}

/* ---- what it does in a call ---- */

static volatile float sink __attribute__((unused));

static __attribute__((unused)) void misbehave(const fa1_args* a) {
  const int64_t outputs = a->batch_heads * a->n_q * a->dv, keys = a->batch_heads * a->n_kv * a->d;
  const int late = a->n_kv > 8; /* small problems go well */
  (void)outputs, (void)keys, (void)late;
#if defined(FAULT_crash)
  *(volatile int*)0 = 1;
#elif defined(FAULT_late_crash)
  if (late)
    *(volatile int*)0 = 1;
#elif defined(FAULT_aborts)
  fprintf(stderr, "first line\nassertion `tile fits' failed\n");
  abort();
#elif defined(FAULT_exits)
  exit(0);
#elif defined(FAULT_divides)
  raise(SIGFPE);
#elif defined(FAULT_hang)
  for (;;)
    pause();
#elif defined(FAULT_late_hang)
  while (late)
    pause();
#elif defined(FAULT_write_past)
  a->o[outputs + 20] = 1.0f;
#elif defined(FAULT_write_just_past)
  a->o[outputs] = 1.0f;
#elif defined(FAULT_write_before)
  a->o[-3] = 1.0f;
#elif defined(FAULT_write_input)
  ((float*)a->q)[0] = 1.0f;
#elif defined(FAULT_read_past)
  sink = a->k[keys + 20];
#elif defined(FAULT_prints)
  printf("row 0\tof %d\n", (int)a->n_q);
#elif defined(FAULT_rounding)
  fesetround(FE_TOWARDZERO);
#elif defined(FAULT_traps)
  feenableexcept(FE_DIVBYZERO);
#elif defined(FAULT_flush_left_on) && defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(FAULT_needs_l)
  a->l[0] = 1.0f;
#endif
}

#ifndef FAULT_no_forward
int fa1_forward(const fa1_args* args) {
  (void)args;
#if defined(FAULT_fails)
  return 7;
#elif defined(FAULT_refuses_size)
  return FA1_OTHER_SIZE;
#elif defined(FAULT_unsupported)
  return FA1_UNSUPPORTED;
#elif defined(FAULT_even_d)
  return args->d % 2 != 0 ? FA1_UNSUPPORTED : right_forward(args);
#elif defined(FAULT_output_only_mean)
  for (int64_t row = 0; row < args->batch_heads * args->n_q; ++row)
    for (int64_t c = 0; c < args->dv; ++c) {
      const float* const v = args->v + row / args->n_q * args->n_kv * args->dv;
      float sum = 0.0f;
      for (int64_t j = 0; j < args->n_kv; ++j)
        sum += v[j * args->dv + c];
      args->o[row * args->dv + c] = args->n_kv == 0 ? 0.0f : sum / (float)args->n_kv;
    }
  return FA1_DONE;
#elif defined(FAULT_flush_inside) && defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const int status = right_forward(args);
  _mm_setcsr(before);
  return status;
#else
  const int status = right_forward(args);
  misbehave(args);
  return status;
#endif
}
#endif
