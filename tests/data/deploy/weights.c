/* Maps a file of weights, whose path is the argument, and compares with the object that has its weights inside. Prints what differs. */
#define OUTSIDE_USE_MMAP
#include "inside.h"
#include "outside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(const char *what, int found, int expected) {
    if (found != expected) {
        printf("%s: %d, expected %d\n", what, found, expected);
        failures++;
    }
}

/* Passes weights of which a byte is changed. */
static void expect_changed(unsigned char *data, size_t bytes, size_t at, const char *what, int expected) {
    data[at] ^= 1;
    expect(what, outside_set_weights(data, bytes), expected);
    data[at] ^= 1;
}

int main(int argc, char **argv) {
    static float x[24], a[48], b[48];
    unsigned char *memory, *data;
    size_t bytes;
    FILE *file;
    int i, n;
    if (argc != 2 || !(file = fopen(argv[1], "rb"))) {
        return 2;
    }
    for (i = 0; i < 24; i++) {
        x[i] = (float)(i % 7) - 3;
    }
    memory = malloc(1 << 16);
    data = memory + (64 - (size_t)memory % 64);
    bytes = fread(data, 1, 1 << 15, file);
    fclose(file);
    expect("a call before", outside_main(x, b, 1), OUTSIDE_ERROR_WEIGHTS_MISSING);
    expect("no address", outside_set_weights(NULL, bytes), OUTSIDE_ERROR_NULL);
    expect("an odd address", outside_set_weights(data + 4, bytes), OUTSIDE_ERROR_MISALIGNED);
    expect_changed(data, bytes, 0, "another magic", OUTSIDE_ERROR_WEIGHTS_MAGIC);
    expect_changed(data, bytes, 8, "another version", OUTSIDE_ERROR_WEIGHTS_VERSION);
    expect_changed(data, bytes, 12, "another instruction set", OUTSIDE_ERROR_WEIGHTS_ISA);
    expect_changed(data, bytes, 31, "another hash", OUTSIDE_ERROR_WEIGHTS_MODEL);
    expect("a part of the file", outside_set_weights(data, bytes - 64), OUTSIDE_ERROR_WEIGHTS_SIZE);
    expect("a part of the header", outside_set_weights(data, 10), OUTSIDE_ERROR_WEIGHTS_SIZE);
    expect("more than the file", outside_set_weights(data, bytes + 64), OUTSIDE_ERROR_WEIGHTS_SIZE);
    expect("no file", outside_map_weights("nowhere/weights"), OUTSIDE_ERROR_WEIGHTS_FILE);
    expect("a call after refusals", outside_main(x, b, 1), OUTSIDE_ERROR_WEIGHTS_MISSING);
    expect("the file", outside_map_weights(argv[1]), OUTSIDE_OK);
    expect("the file again", outside_map_weights(argv[1]), OUTSIDE_ERROR_WEIGHTS_SET);
    expect("other memory", outside_set_weights(data, bytes), OUTSIDE_ERROR_WEIGHTS_SET);
    for (n = 1; n <= 3; n += 2) {
        expect("a call inside", inside_main(x, a, n), INSIDE_OK);
        expect("a call outside", outside_main(x, b, n), OUTSIDE_OK);
        expect("results", memcmp(a, b, (size_t)n * 16 * sizeof *a), 0);
    }
    expect("other sizes", outside_main(x, b, 2), OUTSIDE_ERROR_SIZE);
    free(memory);
    return failures != 0;
}
