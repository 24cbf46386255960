/* kernels: functions compiled by tvmr 0.1.0. */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
#define KERNELS_RESTRICT __restrict
extern "C" {
#else
#define KERNELS_RESTRICT restrict
#endif

#define KERNELS_ABI_VERSION 1

/* What functions return. The numbers are fixed for good. */
enum {
    KERNELS_OK = 0, /* success */
    KERNELS_ERROR_NULL = 1, /* a pointer is null */
    KERNELS_ERROR_MISALIGNED = 2, /* a pointer is not aligned to its elements, or a workspace not to 64 bytes */
    KERNELS_ERROR_CPU = 3, /* this CPU lacks the instruction set, and there is no portable version */
    KERNELS_ERROR_MEMORY = 4, /* out of memory */
    KERNELS_ERROR_BOUNDS = 5, /* the program accessed an array out of bounds */
    KERNELS_ERROR_DIVISION = 6, /* the program divided an integer by zero, or the minimum by -1 */
    KERNELS_ERROR_ASSERTION = 7, /* an assertion of the program failed */
    KERNELS_ERROR_SIZE = 8, /* no version was built for these sizes */
    KERNELS_ERROR_PARALLEL = 9, /* the hook for parallel loops failed, or did not run every worker */
};

/* The version of this interface that the object was built with: KERNELS_ABI_VERSION. */
int32_t kernels_abi_version(void);

/* Parallel loops run serially unless a hook is set: it must call body(env, worker) exactly once for each worker from 0 to
   n_workers - 1, on any threads and in any order, wait for all, and return 0 if all returned 0. A null hook makes loops
   serial again. Calls that are running keep the hook that they began with. */
typedef int32_t (*kernels_parallel_body)(void *env, int32_t worker);
typedef int32_t (*kernels_parallel_for)(void *ctx, int32_t n_workers, kernels_parallel_body body, void *env);
void kernels_set_parallel_for(kernels_parallel_for parallel_for, void *ctx, int32_t n_workers);

#if defined(KERNELS_SHARED)
/* In the shared library only: a pool of its own as the hook; 0 or 1 threads make loops serial. Returns 0 or an error
   number. */
int32_t kernels_set_num_threads(int32_t n);
#endif

#if defined(KERNELS_USE_OPENMP)
/* A hook for OpenMP (compile with -fopenmp):
   kernels_set_parallel_for(kernels_parallel_for_openmp, NULL, omp_get_max_threads()); */
static inline int32_t kernels_parallel_for_openmp(void *ctx, int32_t n_workers, kernels_parallel_body body, void *env) {
    int32_t failed = 0;
    int32_t worker;
    (void)ctx;
#pragma omp parallel for schedule(static, 1) num_threads(n_workers) reduction(| : failed)
    for (worker = 0; worker < n_workers; worker++) {
        failed |= body(env, worker);
    }
    return failed;
}
#endif

#if defined(KERNELS_USE_PTHREADS)
#include <pthread.h>
/* A hook that starts threads for each loop (link with -pthread), for loops of milliseconds and more:
   kernels_set_parallel_for(kernels_parallel_for_pthreads, NULL, 4); */
typedef struct {
    kernels_parallel_body body;
    void *env;
    int32_t worker;
    int32_t result;
} kernels_pthread_part;

static inline void *kernels_pthread_run(void *data) {
    kernels_pthread_part *part = (kernels_pthread_part *)data;
    part->result = part->body(part->env, part->worker);
    return NULL;
}

static inline int32_t kernels_parallel_for_pthreads(void *ctx, int32_t n_workers, kernels_parallel_body body, void *env) {
    enum { MOST = 256 };
    pthread_t threads[MOST];
    kernels_pthread_part parts[MOST];
    char started[MOST];
    int32_t first = 0, failed = 0, i, n;
    (void)ctx;
    for (first = 0; first < n_workers; first += MOST) {
        n = n_workers - first < MOST ? n_workers - first : MOST;
        for (i = 0; i < n; i++) {
            parts[i].body = body;
            parts[i].env = env;
            parts[i].worker = first + i;
            parts[i].result = 0;
            started[i] = i + 1 < n && pthread_create(&threads[i], NULL, kernels_pthread_run, &parts[i]) == 0;
        }
        for (i = 0; i < n; i++) {
            if (!started[i]) {
                kernels_pthread_run(&parts[i]);
            }
        }
        for (i = 0; i < n; i++) {
            if (started[i]) {
                pthread_join(threads[i], NULL);
            }
            failed |= parts[i].result;
        }
    }
    return failed;
}
#endif

/* Arrays are contiguous, in row-major order, and need no more than the alignment of their elements (64 bytes are
   fastest). What a function writes must not overlap its other arguments. Functions may be called by several threads at
   once. A workspace is at least NAME_workspace_bytes() bytes long and aligned to 64 bytes, and serves one call at a
   time. NaN and infinities are treated as in IEEE 754; subnormal numbers are flushed to zero unless the library was built
   with --strict-fp. The state of the floating-point unit is left as it was. */

/* matmul
   A: float32[64, 128], read, aligned to 4 bytes
   B: float32[128, 256], read, aligned to 4 bytes
   C: float32[64, 256], written, aligned to 4 bytes
*/
#define KERNELS_MATMUL_A_DIM0 64
#define KERNELS_MATMUL_A_DIM1 128
#define KERNELS_MATMUL_B_DIM0 128
#define KERNELS_MATMUL_B_DIM1 256
#define KERNELS_MATMUL_C_DIM0 64
#define KERNELS_MATMUL_C_DIM1 256
int32_t kernels_matmul(const float *KERNELS_RESTRICT A, const float *KERNELS_RESTRICT B, float *KERNELS_RESTRICT C);
int32_t kernels_matmul_ws(const float *KERNELS_RESTRICT A, const float *KERNELS_RESTRICT B, float *KERNELS_RESTRICT C, void *workspace);
size_t kernels_matmul_workspace_bytes(void);

/* relu
   X: float32[64, 256], read, aligned to 4 bytes
   Y: float32[64, 256], written, aligned to 4 bytes
*/
#define KERNELS_RELU_X_DIM0 64
#define KERNELS_RELU_X_DIM1 256
#define KERNELS_RELU_Y_DIM0 64
#define KERNELS_RELU_Y_DIM1 256
int32_t kernels_relu(const float *KERNELS_RESTRICT X, float *KERNELS_RESTRICT Y);
int32_t kernels_relu_ws(const float *KERNELS_RESTRICT X, float *KERNELS_RESTRICT Y, void *workspace);
size_t kernels_relu_workspace_bytes(void);

#if defined(__cplusplus)
}
#endif

#endif
