/* Calls every function of kernels.tir, in C and in C++, and compares with plain loops. Prints the first mistake and returns 1. */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);           \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* One element more, so that arrays can begin at the alignment of their elements only. */
static float a[20 * 24 + 1], b[24 * 40 + 1], c[20 * 40 + 1];
static float x[8 * 33], y[8 * 33];
static float image[4 * 66], weights[16 * 4 * 3], plain[16 * 64], run[16 * 64];
static uint8_t bytes[16 * 32];
static int8_t signed_bytes[24 * 32];
static int32_t sums[16 * 24];
static uint16_t halves[100], doubled[100];
static float rows_in[64 * 4096], rows_out[64 * 4096];

static void fill(float *array, int n) {
    int i;
    for (i = 0; i < n; i++) {
        array[i] = (float)((i * 37 + 11) % 101) / 50.0f - 1.0f;
    }
}

static int is_near(float found, double expected) {
    return fabs((double)found - expected) <= 1e-4 * (1.0 + fabs(expected));
}

static void matmul(void) {
    int i, j, k;
    float *A = a + 1, *B = b + 1, *C = c + 1;
    fill(a, 20 * 24 + 1);
    fill(b, 24 * 40 + 1);
    CHECK(kernels_matmul(A, B, C) == KERNELS_OK);
    for (i = 0; i < 20; i++) {
        for (j = 0; j < 40; j++) {
            double sum = 0;
            for (k = 0; k < 24; k++) {
                sum += (double)A[i * 24 + k] * B[k * 40 + j];
            }
            CHECK(is_near(C[i * 40 + j], sum));
        }
    }
    CHECK(kernels_matmul(NULL, B, C) == KERNELS_ERROR_NULL);
    CHECK(kernels_matmul((const float *)((const char *)A + 1), B, C) == KERNELS_ERROR_MISALIGNED);
    CHECK(KERNELS_MATMUL_A_DIM0 == 20 && KERNELS_MATMUL_A_DIM1 == 24);
}

static void softmax(void) {
    int i, k;
    fill(x, 8 * 33);
    CHECK(kernels_softmax(x, y) == KERNELS_OK);
    for (i = 0; i < 8; i++) {
        double sum = 0;
        for (k = 0; k < 33; k++) {
            sum += exp((double)x[i * 33 + k]);
        }
        for (k = 0; k < 33; k++) {
            CHECK(is_near(y[i * 33 + k], exp((double)x[i * 33 + k]) / sum));
        }
    }
}

static void conv(void) {
    int o, i, k, r;
    size_t size = kernels_conv_prepared_bytes();
    char *memory = (char *)malloc(size + 64);
    char *prepared = memory + (64 - ((uintptr_t)memory & 63));
    fill(image, 4 * 66);
    fill(weights, 16 * 4 * 3);
    CHECK(size == 4 * 3 * 16 * sizeof(float));
    CHECK(kernels_conv(image, weights, plain) == KERNELS_OK);
    CHECK(kernels_conv_prepare(weights, prepared) == KERNELS_OK);
    CHECK(kernels_conv_run(image, run, prepared) == KERNELS_OK);
    CHECK(kernels_conv_run(image, run, NULL) == KERNELS_ERROR_NULL);
    CHECK(kernels_conv_run(image, run, prepared + 4) == KERNELS_ERROR_MISALIGNED);
    CHECK(memcmp(plain, run, sizeof(run)) == 0);
    for (o = 0; o < 16; o++) {
        for (i = 0; i < 64; i++) {
            double sum = 0;
            for (k = 0; k < 4; k++) {
                for (r = 0; r < 3; r++) {
                    sum += (double)image[k * 66 + i + r] * weights[(o * 4 + k) * 3 + r];
                }
            }
            CHECK(is_near(run[o * 64 + i], sum));
        }
    }
    free(memory);
}

static void int8(void) {
    int i, j, k;
    for (i = 0; i < 16 * 32; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    for (i = 0; i < 24 * 32; i++) {
        signed_bytes[i] = (int8_t)(i * 5 % 256 - 128);
    }
    CHECK(kernels_int8(bytes, signed_bytes, sums) == KERNELS_OK);
    for (i = 0; i < 16; i++) {
        for (j = 0; j < 24; j++) {
            int32_t sum = 0;
            for (k = 0; k < 32; k++) {
                sum += (int32_t)bytes[i * 32 + k] * signed_bytes[j * 32 + k];
            }
            CHECK(sums[i * 24 + j] == sum);
        }
    }
}

static void half(void) {
    int i;
    for (i = 0; i < 100; i++) {
        halves[i] = (uint16_t)(0x3c00 + i); /* from 1 on; twice that has one more in the exponent */
    }
    CHECK(kernels_half(halves, doubled) == KERNELS_OK);
    for (i = 0; i < 100; i++) {
        CHECK(doubled[i] == 0x4000 + i);
    }
}

static int32_t calls;

static int32_t backwards(void *ctx, int32_t n_workers, kernels_parallel_body body, void *env) {
    int32_t worker, failed = 0;
    CHECK(ctx == (void *)&calls);
    for (worker = n_workers; worker-- > 0;) {
        failed |= body(env, worker);
        calls++;
    }
    return failed;
}

static int32_t lazy(void *ctx, int32_t n_workers, kernels_parallel_body body, void *env) {
    (void)ctx;
    (void)n_workers;
    (void)body;
    (void)env;
    return 0;
}

static void check_rows(void) {
    int i, j;
    for (i = 0; i < 64; i++) {
        for (j = 0; j < 4096; j++) {
            CHECK(rows_out[i * 4096 + j] == rows_in[i * 4096 + j] + rows_in[i * 4096 + 4095 - j]);
        }
    }
    memset(rows_out, 0, sizeof(rows_out));
}

static void rows(void) {
    size_t size;
    char *memory;
    fill(rows_in, 64 * 4096);
    CHECK(kernels_rows(rows_in, rows_out) == KERNELS_OK);
    check_rows();
    kernels_set_parallel_for(backwards, &calls, 3);
    CHECK(kernels_rows(rows_in, rows_out) == KERNELS_OK);
    check_rows();
    CHECK(calls == 3);
    size = kernels_rows_workspace_bytes();
    CHECK(size >= 3 * 4096 * sizeof(float));
    memory = (char *)malloc(size + 64);
    CHECK(kernels_rows_ws(rows_in, rows_out, memory + (64 - ((uintptr_t)memory & 63))) == KERNELS_OK);
    check_rows();
    free(memory);
    kernels_set_parallel_for(lazy, NULL, 2);
    CHECK(kernels_rows(rows_in, rows_out) == KERNELS_ERROR_PARALLEL);
    kernels_set_parallel_for(NULL, NULL, 0);
    CHECK(kernels_rows(rows_in, rows_out) == KERNELS_OK);
    check_rows();
#if defined(KERNELS_USE_PTHREADS)
    kernels_set_parallel_for(kernels_parallel_for_pthreads, NULL, 4);
    CHECK(kernels_rows(rows_in, rows_out) == KERNELS_OK);
    check_rows();
    kernels_set_parallel_for(NULL, NULL, 0);
#endif
#if defined(KERNELS_SHARED)
    {
        int n;
        CHECK(kernels_set_num_threads(3) == KERNELS_OK);
        for (n = 0; n < 100; n++) {
            CHECK(kernels_rows(rows_in, rows_out) == KERNELS_OK);
            check_rows();
        }
        CHECK(kernels_set_num_threads(1) == KERNELS_OK);
    }
#endif
}

static void divide(void) {
    int32_t p[4] = {7, -7, 9, 5}, q[4] = {2, 2, 3, 1}, r[4];
    CHECK(kernels_divide(p, q, r) == KERNELS_OK);
    CHECK(r[0] == 3 && r[1] == -3 && r[2] == 3 && r[3] == 5);
    q[2] = 0;
    CHECK(kernels_divide(p, q, r) == KERNELS_ERROR_DIVISION);
}

static void axpy(void) {
    int i;
    CHECK(kernels_axpy(2.5f, x, y, plain) == KERNELS_OK);
    for (i = 0; i < 50; i++) {
        CHECK(is_near(plain[i], 2.5 * x[i] + y[i]));
    }
    CHECK(kernels_axpy(2.5f, NULL, y, plain) == KERNELS_ERROR_NULL);
}

static void numbers(void) {
    static const double expected[12] = {-7, 200, -300, 60000, -70000, 4e9, -5e12, 1, 1.5, -2, 0.25, 1e100};
    double found[12];
    int i;
    CHECK(kernels_numbers(-7, 200, -300, 60000, -70000, 4000000000u, -5000000000000, 2, 0x3e00, 0xc000, 0.25f, 1e100, found) ==
          KERNELS_OK);
    for (i = 0; i < 12; i++) {
        CHECK(found[i] == expected[i]);
    }
    CHECK(kernels_numbers(-7, 200, -300, 60000, -70000, 4000000000u, -5000000000000, 0, 0x3e00, 0xc000, 0.25f, 1e100, found) ==
          KERNELS_OK);
    CHECK(found[7] == 0);
}

static void strided(void) {
    int32_t from[20], to[18];
    int i, j;
    for (i = 0; i < 20; i++) {
        from[i] = i;
    }
    memset(to, 0, sizeof(to));
    CHECK(kernels_strided(from, to) == KERNELS_OK);
    for (i = 0; i < 3; i++) {
        for (j = 0; j < 4; j++) {
            CHECK(to[i + 5 * j] == 2 * from[8 * i + j]);
        }
    }
    CHECK(to[3] == 0 && to[4] == 0);
}

int main(void) {
    CHECK(kernels_abi_version() == KERNELS_ABI_VERSION);
    matmul();
    softmax();
    conv();
    int8();
    half();
    rows();
    divide();
    axpy();
    numbers();
    strided();
    puts("all functions agree");
    return 0;
}
