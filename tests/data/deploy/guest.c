/* A library in a process of others: small stacks, several threads, forks, and a floating-point state of the caller's. */
#include "kernels.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);           \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

enum { ROWS = 64, COLUMNS = 4096, THREADS = 4, CALLS = 30 };

static float rows_in[ROWS * COLUMNS], rows_right[ROWS * COLUMNS];
static float a[20 * 24], b[24 * 40], c_right[20 * 40];
static float x[8 * 33], y_right[8 * 33];
static float image[4 * 66], weights[16 * 4 * 3], conv_right[16 * 64];

static void fill(float *array, int n) {
    int i;
    for (i = 0; i < n; i++) {
        array[i] = (float)((i * 37 + 11) % 101) / 50.0f - 1.0f;
    }
}

/* Calls functions of each kind, and compares with what the main thread got when it was alone. */
static void call_all(float *out) {
    CHECK(kernels_matmul(a, b, out) == KERNELS_OK && memcmp(out, c_right, sizeof(c_right)) == 0);
    CHECK(kernels_softmax(x, out) == KERNELS_OK && memcmp(out, y_right, sizeof(y_right)) == 0);
    CHECK(kernels_conv(image, weights, out) == KERNELS_OK && memcmp(out, conv_right, sizeof(conv_right)) == 0);
    CHECK(kernels_rows(rows_in, out) == KERNELS_OK && memcmp(out, rows_right, sizeof(rows_right)) == 0);
}

static void *run(void *out) {
    int i;
    for (i = 0; i < CALLS; i++) {
        memset(out, 0xff, sizeof(rows_right));
        call_all((float *)out);
    }
    return NULL;
}

static void on_threads(int n, size_t stack) {
    pthread_t threads[THREADS];
    float *out[THREADS];
    pthread_attr_t attributes;
    int i;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, stack) == 0);
    for (i = 0; i < n; i++) {
        out[i] = (float *)malloc(sizeof(rows_right));
        CHECK(out[i] != NULL && pthread_create(&threads[i], &attributes, run, out[i]) == 0);
    }
    for (i = 0; i < n; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        free(out[i]);
    }
    CHECK(pthread_attr_destroy(&attributes) == 0);
}

/* The child has none of its parent's threads, and its own children neither. */
static void in_child(int generations) {
    static float out[ROWS * COLUMNS];
    int status = -1;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        run(out);
        if (generations > 1) {
            in_child(generations - 1);
        }
        on_threads(THREADS, 64 << 10);
        exit(0);
    }
    run(out);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void floating_point_state(void) {
#if defined(__x86_64__)
    static float out[ROWS * COLUMNS];
    /* Round towards zero, subnormal numbers as they are, an exception flag set. */
    unsigned before = _mm_getcsr(), mine = (_MM_MASK_MASK | _MM_ROUND_TOWARD_ZERO | _MM_EXCEPT_DIV_ZERO);
    float tiny[50], ones[50];
    int i;
    for (i = 0; i < 50; i++) {
        tiny[i] = 1e-40f;
        ones[i] = 0;
    }
    _mm_setcsr(mine);
    call_all(out);
    CHECK(_mm_getcsr() == mine);
    CHECK(kernels_axpy(1.0f, tiny, ones, out) == KERNELS_OK);
    CHECK(_mm_getcsr() == mine);
    _mm_setcsr(before);
    for (i = 0; i < 50; i++) {
        CHECK(out[i] == 0);
    }
#endif
}

int main(void) {
    static float out[ROWS * COLUMNS];
    fill(rows_in, ROWS * COLUMNS);
    fill(a, 20 * 24);
    fill(b, 24 * 40);
    fill(x, 8 * 33);
    fill(image, 4 * 66);
    fill(weights, 16 * 4 * 3);
    CHECK(kernels_matmul(a, b, c_right) == KERNELS_OK && kernels_softmax(x, y_right) == KERNELS_OK);
    CHECK(kernels_conv(image, weights, conv_right) == KERNELS_OK && kernels_rows(rows_in, rows_right) == KERNELS_OK);

    on_threads(1, 64 << 10);
    on_threads(THREADS, 64 << 10);
    in_child(1);
    floating_point_state();
#if defined(KERNELS_SHARED)
    CHECK(kernels_set_num_threads(2) == KERNELS_OK);
    run(out);
    on_threads(THREADS, 64 << 10);
    in_child(2);
    floating_point_state();
    CHECK(kernels_set_num_threads(5) == KERNELS_OK);
    on_threads(THREADS, 64 << 10);
    in_child(1);
#else
    kernels_set_parallel_for(kernels_parallel_for_pthreads, NULL, 3);
    on_threads(THREADS, 64 << 10);
    in_child(1);
#endif
    run(out);
    puts("a good guest");
    return 0;
}
