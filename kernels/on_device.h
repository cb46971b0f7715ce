/** The laboratory's CUDA kernels for arrays that are on the device already, as a shared library in plain C: what a
 *  script loads that has its tensors there (reports/backends/backends.py).
 *
 *  fa1_on_device_id       `fa1.Br64xBc64xD64`; null where there is no kernel of this index, counted from 0
 *  fa1_on_device_columns  D: columns of Q, K, V and O
 *  fa1_on_device_scratch  floats of scratch that a launch needs; it may be 0
 *  fa1_on_device_start    starts one launch on the default stream and does not wait. Null, or what went wrong, in a text
 *                         that stays as it is until the next call
 *
 *  Shapes    Q [batch_heads][n_q][D], K and V [batch_heads][n_kv][D], O as Q, l and m [batch_heads][n_q]; row-major fp32
 *            in device memory. Of fa2 m is the LSE and l is not written
 *  Requires  an index that has a kernel
 *  Threads   one at a time
 */
#ifndef FA1_ON_DEVICE_H
#define FA1_ON_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

const char* fa1_on_device_id(int index);
int fa1_on_device_columns(int index);
long long fa1_on_device_scratch(int index, long long batch_heads, long long n_q, long long n_kv);
const char* fa1_on_device_start(int index, long long batch_heads, long long n_q, long long n_kv,
                                float scale, const float* Q, const float* K, const float* V,
                                float* O, float* l, float* m, float* scratch);

#ifdef __cplusplus
}
#endif

#endif
