# B is packed, one panel of columns and one slab of the reduction at a time, which all rows read from the second-level cache:
# beside four vectors of columns there is time for that. What is left of the rows stays in registers, a half at a time.
# decisions: [[128, 8], [16, 64], [2, 512]]
def schedule(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=32))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2, max_innermost_factor=1024))
    sch.reorder(j0, k0, i0, k1, i1, j1)
    packed = sch.cache_read(block, 1, "global")
    sch.compute_at(packed, k0)
