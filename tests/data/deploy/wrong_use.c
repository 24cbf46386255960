/* Calls the functions of kernels.tir in wrong ways, by the plain convention and by that of TVM-FFI, and checks that each call
   says so and writes nothing. Prints the number of cases, or the first mistake. With LACKS_CPU, the library believes that the CPU
   has no features. */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, said); \
            exit(1);                                                          \
        }                                                                     \
    } while (0)

/* The convention of TVM-FFI, as DLPack and its C header have it. */
typedef struct {
    int32_t type_index;
    uint32_t padding;
    union {
        int64_t v_int64;
        double v_float64;
        void *v_ptr;
    } value;
} Any;

typedef struct {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

enum { NONE = 0, INT = 1, BOOL = 2, FLOAT = 3, POINTER = 4, TENSOR = 7, TENSOR_OBJECT = 70 };
enum { CODE_INT = 0, CODE_FLOAT = 2, CPU = 1, CUDA = 2 };

int __tvm_ffi_axpy(void *self, const Any *args, int32_t n, Any *result);
int __tvm_ffi_numbers(void *self, const Any *args, int32_t n, Any *result);
int __tvm_ffi_strided(void *self, const Any *args, int32_t n, Any *result);
int __tvm_ffi_divide(void *self, const Any *args, int32_t n, Any *result);
int __tvm_ffi_rows(void *self, const Any *args, int32_t n, Any *result);

static char said[2048];

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
    snprintf(said, sizeof(said), "%s: %s", kind, message);
}

/* Memory runs out when this many more blocks were given. The object calls this one, as it was compiled to call the linked one. */
static int blocks_left = 1 << 30;

void *aligned_alloc(size_t align, size_t size) {
    void *block = NULL;
    if (blocks_left-- <= 0 || posix_memalign(&block, align, size) != 0) {
        return NULL;
    }
    return block;
}

static int cases;

static void refused(int code, int expected) {
    cases++;
    CHECK(code == expected);
}

/* One element more than the functions take, so that arrays can begin elsewhere. */
static float a[51], b[51], c[51];
static float rows_in[64 * 4096], rows_out[64 * 4096];
static int32_t from[20], to[18];
static double found[12];

static void plain(void) {
    int32_t p[4] = {1, 2, 3, 4}, q[4] = {1, 0, 1, 1}, r[4] = {0, 0, 0, 0};
    size_t size = kernels_conv_prepared_bytes() + 128;
    char *memory = (char *)malloc(size);
    char *prepared = memory + (64 - ((uintptr_t)memory & 63));
    float *odd = (float *)((char *)a + 2);
    refused(kernels_axpy(1, NULL, b, c), KERNELS_ERROR_NULL);
    refused(kernels_axpy(1, a, NULL, c), KERNELS_ERROR_NULL);
    refused(kernels_axpy(1, a, b, NULL), KERNELS_ERROR_NULL);
    refused(kernels_axpy(1, odd, b, c), KERNELS_ERROR_MISALIGNED);
    refused(kernels_axpy(1, a, b, (float *)((char *)c + 1)), KERNELS_ERROR_MISALIGNED);
    refused(kernels_axpy_ws(1, a, b, c, memory + 1 + (~(uintptr_t)memory & 1)), KERNELS_ERROR_MISALIGNED);
    refused(kernels_strided(NULL, to), KERNELS_ERROR_NULL);
    refused(kernels_strided((int32_t *)((char *)from + 2), to), KERNELS_ERROR_MISALIGNED);
    refused(kernels_numbers(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL), KERNELS_ERROR_NULL);
    refused(kernels_conv_prepare(NULL, prepared), KERNELS_ERROR_NULL);
    refused(kernels_conv_prepare(rows_in, NULL), KERNELS_ERROR_NULL);
    refused(kernels_conv_prepare(rows_in, prepared + 8), KERNELS_ERROR_MISALIGNED);
    refused(kernels_conv_run(rows_in, rows_out, NULL), KERNELS_ERROR_NULL);
    refused(kernels_divide(p, q, r), KERNELS_ERROR_DIVISION);
    blocks_left = 0;
    refused(kernels_rows(rows_in, rows_out), KERNELS_ERROR_MEMORY);
    refused(kernels_conv(NULL, rows_in, rows_out), KERNELS_ERROR_NULL);
    blocks_left = 1 << 30;
    free(memory);
}

static int64_t shape50[1] = {50}, shape34[2] = {3, 4};

static Tensor floats(float *data) {
    Tensor t = {0};
    t.data = data;
    t.device_type = CPU;
    t.ndim = 1;
    t.code = CODE_FLOAT;
    t.bits = 32;
    t.lanes = 1;
    t.shape = shape50;
    return t;
}

static Any of_tensor(Tensor *t) {
    Any any = {TENSOR, 0, {0}};
    any.value.v_ptr = t;
    return any;
}

static Any of_int(int64_t value) {
    Any any = {INT, 0, {0}};
    any.value.v_int64 = value;
    return any;
}

static Any of_float(double value) {
    Any any = {FLOAT, 0, {0}};
    any.value.v_float64 = value;
    return any;
}

static void raises(int code, const char *kind, const char *part) {
    cases++;
    CHECK(code != 0);
    CHECK(strncmp(said, kind, strlen(kind)) == 0);
    CHECK(strstr(said, part) != NULL);
    said[0] = 0;
}

static Tensor ta, tb, tc;
static Any args[4];

static void fresh(void) {
    ta = floats(a);
    tb = floats(b);
    tc = floats(c);
    args[0] = of_float(2.0);
    args[1] = of_tensor(&ta);
    args[2] = of_tensor(&tb);
    args[3] = of_tensor(&tc);
}

static int call(void) {
    Any result = {INT, 0, {0}};
    int code = __tvm_ffi_axpy(NULL, args, 4, &result);
    if (code == 0) {
        CHECK(result.type_index == NONE);
    }
    fresh();
    return code;
}

/* A call of `axpy` with one thing changed. */
#define WRONG(change, kind, part)                                             \
    do {                                                                      \
        change;                                                               \
        raises(call(), kind, part);                                           \
    } while (0)

static void ffi(void) {
    static struct {
        char header[24];
        Tensor tensor;
    } object;
    int64_t other_shape[2] = {49, 50}, two[1] = {2}, one[1] = {1};
    int i;
    Any result = {NONE, 0, {0}};
    fresh();
    WRONG(args[0] = of_tensor(&ta), "TypeError", "Mismatched type on argument #0");
    WRONG(args[0].type_index = NONE, "TypeError", "expected float");
    WRONG(args[1] = of_float(1), "TypeError", "Mismatched type on argument #1");
    WRONG(args[1].type_index = NONE, "TypeError", "expected Tensor");
    WRONG(args[1].type_index = POINTER, "TypeError", "expected Tensor");
    WRONG(args[1].value.v_ptr = NULL, "TypeError", "expected Tensor");
    WRONG(ta.ndim = 2; ta.shape = other_shape, "ValueError", "Mismatched A.ndim on argument #1");
    WRONG(ta.ndim = -1, "ValueError", "A.ndim");
    WRONG(ta.shape = other_shape, "ValueError", "Mismatched A.shape[0] on argument #1");
    WRONG(tb.bits = 64, "TypeError", "Mismatched B.dtype on argument #2");
    WRONG(tb.code = CODE_INT, "TypeError", "expected float32");
    WRONG(tb.lanes = 4, "TypeError", "B.dtype");
    WRONG(tb.strides = two, "ValueError", "Mismatched B.strides on argument #2");
    WRONG(tc.device_type = CUDA, "ValueError", "Mismatched C.device_type on argument #3");
    WRONG(tc.data = NULL, "ValueError", "Mismatched C.data on argument #3");
    WRONG(tc.data = (char *)c + 2, "ValueError", "Mismatched C.data alignment");
    WRONG(tc.byte_offset = 3, "ValueError", "expected 4 bytes");
    WRONG(tc.data = a, "ValueError", "overlaps argument #1");
    WRONG(tc.data = a + 1, "ValueError", "Argument #3 (`C`), which is written");
    raises(__tvm_ffi_axpy(NULL, args, 3, &result), "TypeError", "Mismatched number of arguments");
    raises(__tvm_ffi_axpy(NULL, args, 0, &result), "TypeError", "expected 4");
    raises(__tvm_ffi_axpy(NULL, args, -1, &result), "TypeError", "`axpy(alpha: float32, A: Tensor([50], float32)");

    /* Right calls: compact strides, an int for a float, a tensor object, an offset. */
    tb.strides = one;
    CHECK(call() == 0 && c[0] == 2 * a[0] + b[0]);
    args[0] = of_int(3);
    CHECK(call() == 0 && c[49] == 3 * a[49] + b[49]);
    object.tensor = ta;
    args[1].type_index = TENSOR_OBJECT;
    args[1].value.v_ptr = &object;
    ta.data = NULL;
    CHECK(call() == 0);
    ta.byte_offset = 4;
    CHECK(call() == 0 && c[0] == 2 * a[1] + b[0]);

    {
        Any numbers[13];
        double expected[12] = {-8, 7, 6, 5, 4, 3, 2, 1, 0.5, 1, 0.25, 1e300};
        int64_t shape12[1] = {12};
        Tensor t = floats((float *)found);
        t.bits = 64;
        t.shape = shape12;
        for (i = 0; i < 8; i++) {
            numbers[i] = of_int((int64_t)expected[i]);
        }
        for (; i < 12; i++) {
            numbers[i] = of_float(expected[i]);
        }
        numbers[9] = of_float(1.00390625); /* half of a unit in the last place of bfloat16: to even */
        numbers[12] = of_tensor(&t);
        CHECK(__tvm_ffi_numbers(NULL, numbers, 13, &result) == 0);
        for (i = 0; i < 12; i++) {
            CHECK(found[i] == expected[i]);
        }
        numbers[0] = of_int(128);
        raises(__tvm_ffi_numbers(NULL, numbers, 13, &result), "ValueError", "expected a value of int8");
        numbers[0] = of_int(-8);
        numbers[1] = of_int(-1);
        raises(__tvm_ffi_numbers(NULL, numbers, 13, &result), "ValueError", "Mismatched b on argument #1");
        numbers[1] = of_int(7);
        numbers[4] = of_float(1);
        raises(__tvm_ffi_numbers(NULL, numbers, 13, &result), "TypeError", "expected int");
        numbers[4] = of_int(4);
        numbers[7] = of_float(1);
        raises(__tvm_ffi_numbers(NULL, numbers, 13, &result), "TypeError", "expected bool");
    }
    {
        int64_t right[2] = {8, 1}, right_to[2] = {1, 5};
        Tensor s = floats((float *)from), t = floats((float *)to);
        Any both[2];
        s.code = t.code = CODE_INT;
        s.ndim = t.ndim = 2;
        s.shape = t.shape = shape34;
        s.strides = right;
        t.strides = right_to;
        both[0] = of_tensor(&s);
        both[1] = of_tensor(&t);
        CHECK(__tvm_ffi_strided(NULL, both, 2, &result) == 0);
        CHECK(to[2 + 5 * 3] == 2 * from[2 * 8 + 3] && to[3] == 0);
        s.strides = NULL;
        raises(__tvm_ffi_strided(NULL, both, 2, &result), "ValueError", "Mismatched A.strides on argument #0");
        s.strides = right_to;
        raises(__tvm_ffi_strided(NULL, both, 2, &result), "ValueError", "expected [8, 1]");
        s.strides = right;
        t.data = from + 19;
        raises(__tvm_ffi_strided(NULL, both, 2, &result), "ValueError", "overlaps argument #0");
    }
    {
        int32_t p[4] = {1, 2, 3, 4}, q[4] = {1, 0, 1, 1}, r[4] = {0, 0, 0, 0};
        int64_t shape4[1] = {4}, shape_rows[2] = {64, 4096};
        Tensor t[3];
        Any three[3], two_args[2];
        for (i = 0; i < 3; i++) {
            t[i] = floats((float *)(i == 0 ? p : i == 1 ? q : r));
            t[i].code = CODE_INT;
            t[i].shape = shape4;
            three[i] = of_tensor(&t[i]);
        }
        raises(__tvm_ffi_divide(NULL, three, 3, &result), "RuntimeError", "integer division by zero");
        for (i = 0; i < 2; i++) {
            t[i] = floats(i == 0 ? rows_in : rows_out);
            t[i].ndim = 2;
            t[i].shape = shape_rows;
            two_args[i] = of_tensor(&t[i]);
        }
        blocks_left = 0;
        raises(__tvm_ffi_rows(NULL, two_args, 2, &result), "RuntimeError", "out of memory");
        blocks_left = 1 << 30;
        CHECK(__tvm_ffi_rows(NULL, two_args, 2, &result) == 0);
    }
}

int main(void) {
    int i;
    for (i = 0; i < 51; i++) {
        a[i] = (float)i;
        b[i] = (float)(i * i);
    }
    for (i = 0; i < 20; i++) {
        from[i] = i + 1;
    }
#if defined(LACKS_CPU)
    fresh();
    refused(kernels_axpy(1, a, b, c), KERNELS_ERROR_CPU);
    raises(call(), "RuntimeError", "this CPU lacks the instruction set");
#else
    plain();
    for (i = 0; i < 51; i++) {
        CHECK(c[i] == 0);
    }
    ffi();
    CHECK(c[50] == 0);
#endif
    printf("%d wrong calls were refused\n", cases);
    return 0;
}
