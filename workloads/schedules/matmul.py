# One micro-kernel of 8 rows by two vectors; columns outside, so that a panel of B stays in the first-level cache.
# decisions: [[16, 8], [4, 32]]
def schedule(sch):
    block = sch.get_block("C", "main")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    sch.reorder(j0, i0, k, i1, j1)
