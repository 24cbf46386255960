# Tiles of all three loops of a matmul, their order, vector and unrolled loops inside: some ten thousand programs.
def tiles(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, n=3, max_innermost_factor=16))
    j0, j1, j2 = sch.split(j, sch.sample_perfect_tile(j, n=3, max_innermost_factor=64))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2, max_innermost_factor=64))
    if sch.sample_categorical([0, 1], [0.5, 0.5]) == 0:
        sch.reorder(i0, j0, i1, j1, k0, k1, i2, j2)
    else:
        sch.reorder(j0, i0, k0, i1, j1, k1, i2, j2)
    sch.vectorize(j2)
    if sch.sample_categorical([0, 1], [0.5, 0.5]) == 1:
        sch.unroll(i2)
    sch.decompose_reduction(block, k0)
