/* Calls a matrix product and ReLU: once plainly, once with prepared weights and a workspace of our own. */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

enum { M = 64, K = 128, N = 256 };

static float a[M * K], b[K * N], c[M * N], y[M * N];

static int check(const char *what, int32_t code) {
    if (code != KERNELS_OK) {
        fprintf(stderr, "%s failed: error %d\n", what, (int)code);
        return 1;
    }
    return 0;
}

/* The largest difference from a product that is computed naively. */
static double difference(const float *result) {
    double worst = 0;
    int i, j, k;
    for (i = 0; i < M; i++) {
        for (j = 0; j < N; j++) {
            double sum = 0, d;
            for (k = 0; k < K; k++) {
                sum += (double)a[i * K + k] * b[k * N + j];
            }
            d = sum - result[i * N + j];
            d = d < 0 ? -d : d;
            worst = d > worst ? d : worst;
        }
    }
    return worst;
}

int main(void) {
    int i;
    if (kernels_abi_version() != KERNELS_ABI_VERSION) {
        fprintf(stderr, "header and object are of different versions\n");
        return 1;
    }
    for (i = 0; i < M * K; i++) {
        a[i] = (float)(i % 7) - 3;
    }
    for (i = 0; i < K * N; i++) {
        b[i] = (float)(i % 5) - 2;
    }
    if (check("matmul", kernels_matmul(a, b, c)) || check("relu", kernels_relu(c, y))) {
        return 1;
    }
    printf("matmul: largest difference %g\n", difference(c));
    for (i = 0; i < M * N; i++) {
        if (y[i] != (c[i] > 0 ? c[i] : 0)) {
            fprintf(stderr, "relu is wrong at %d\n", i);
            return 1;
        }
    }
    return difference(c) > 1e-3;
}
