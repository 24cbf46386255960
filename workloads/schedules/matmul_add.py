# As matmul_1024, with all of the reduction at once, so that the matrix is added while a tile is in the cache.
# decisions: [[8, 16, 8]]
def schedule(sch):
    block = sch.get_block("matmul", "main")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, n=3, max_innermost_factor=16))
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(i0, j0, i1, k, i2, j1)
    packed = sch.cache_read(block, 1, "global")
    sch.transform_layout(packed, ("write", 0), lambda k, n: (n // 32, k, n % 32))
    sch.reverse_compute_at(sch.get_block("add", "main"), i1)
