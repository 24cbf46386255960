# B is packed into panels of as many columns as the micro-kernel has, one slab of the reduction at a time; blocks of rows
# of A stay in the second-level cache while all panels pass by.
# decisions: [[8, 16, 8], [4, 256]]
def schedule(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, n=3, max_innermost_factor=16))
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, n=2, max_innermost_factor=1024))
    sch.reorder(k0, i0, j0, i1, k1, i2, j1)
    packed = sch.cache_read(block, 1, "global")
    sch.compute_at(packed, k0)
    sch.transform_layout(packed, ("write", 0), lambda k, n: (n // 32, k, n % 32))
