# The tiles of one matmul, for each of the batch.
# decisions: [[16, 8], [4, 32]]
def schedule(sch):
    block = sch.get_block("bmm", "main")
    b, i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=64))
    sch.reorder(b, j0, i0, k, i1, j1)
