# As matmul_1024, with all of the reduction at once, so that the matrix is added while a tile is in the cache.
# decisions: [[128, 8], [16, 64]]
def schedule(sch):
    block = sch.get_block("matmul", "main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=32))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    sch.reorder(j0, i0, k, i1, j1)
    packed = sch.cache_read(block, 1, "global")
    sch.compute_at(packed, j0)
    sch.reverse_compute_at(sch.get_block("add", "main"), i0)
