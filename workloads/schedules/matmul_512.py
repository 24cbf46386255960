# A panel of B of 64 columns (128 KB) is read from the second-level cache by all rows, before the next; threads take panels.
# decisions: [[64, 8], [8, 64]]
def schedule(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    sch.reorder(j0, i0, k, i1, j1)
    sch.parallel(j0)
